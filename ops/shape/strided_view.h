// One tensor read through the strides of another: the common form of transposing, slicing, reversing, repeating,
// tiling.
//
// A view says where in the whole (the forward input) each element of the part (the forward output) is. Forward
// kernels gather through it, backward kernels scatter through the same view. Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ir/rules/kernel.h"
#include "ops/kit/strided_walk.h"

namespace gradc {

/// Part element at row-major index i of `dims` is whole[offset + Σ iₐ · stridesₐ], all in elements. Axes of stride 0
/// repeat; the others meet every element of the whole at most once.
struct StridedView {
  DimsBuffer dims, strides;
  int64_t offset = 0;
};

/// A view of all of `whole`, in row-major order.
inline StridedView wholeView(Dims whole) { return {DimsBuffer(whole), contiguousStrides(whole), 0}; }

/// part = whole through the view, for elements of any type.
void gatherView(const TensorRef &part, const TensorRef &whole, const StridedView &view);
/// whole[position] = Σ of the part's elements that are there, for every position the view meets; others are left alone.
/// Sums run left to right, in float64 for floating types.
void scatterView(const TensorRef &whole, const TensorRef &part, const StridedView &view);

/// The view of a node: shapes of the forward operator's input and output.
using ViewOf = StridedView (*)(const NodeKind &kind, Dims whole, Dims part);

/// Output 0 = input 0 through the view.
template <ViewOf view> void gatherKernel(const KernelCall &call) {
  if (call.wants(0)) gatherView(call.out[0], call.in[0], view(*call.kind, call.in[0].shape, call.out[0].shape));
}

/// Output 0 = zeros, and input 0 where the view puts it.
void scatterOnZeros(const KernelCall &call, const StridedView &view);
template <ViewOf view> void scatterKernel(const KernelCall &call) {
  if (call.wants(0)) scatterOnZeros(call, view(*call.kind, call.out[0].shape, call.in[0].shape));
}

}  // namespace gradc
