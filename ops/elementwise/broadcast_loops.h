// Loops between a tensor and one that broadcasts to it: sums down to the smaller, repetition up to the larger.
//
// Shapes are aligned at the last axis, as in NumPy. Sums run strictly left to right in float64 (integers in their own
// type), so a result depends only on the operands. Tested by tests/reduce_ops_test.cc
#pragma once

#include "ir/number.h"
#include "ir/tensor.h"
#include "ops/kernel_dispatch.h"
#include "ops/shape/strided_walk.h"

#include <type_traits>

namespace gradc {

template <class T> using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, T>;

/// The walk over the axes of `whole` along which `part` has elements of its own (or, if not `keeps`, along which it is
/// summed), with the strides of a tensor of shape `operand`.
inline StridedWalk axesWalk(Dims whole, Dims part, Dims operand, bool keeps) {
  DimsBuffer own = broadcastStrides(whole, operand), dims, strides;
  const size_t missing = whole.size() - part.size();
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    const bool isKept = axis >= missing && part[axis - missing] == whole[axis];
    if (isKept != keeps) continue;
    dims.push_back(whole[axis]);
    strides.push_back(own[axis]);
  }
  return StridedWalk(dims, strides);
}

inline int64_t elementCount(Dims dims) { return TensorRef{nullptr, DType::Unknown, dims}.size(); }

/// out[i] = Σ over the indices of `whole` that fall on i of f(values of the operands there); `out` has shape `part`.
/// Operands broadcast to `whole`. `f` takes an array of one T per operand.
template <class T, class F> void sumOnto(T *out, Dims part, Dims whole, llvm::ArrayRef<TensorRef> operands, F f) {
  llvm::SmallVector<StridedWalk, 3> outer, inner;
  for (const TensorRef &operand : operands) {
    outer.push_back(axesWalk(whole, part, operand.shape, true));
    inner.push_back(axesWalk(whole, part, operand.shape, false));
  }
  const int64_t size = elementCount(part), all = elementCount(whole), count = size == 0 ? 0 : all / size;
  T values[3] = {};
  for (int64_t i = 0; i < size; ++i) {
    Accumulator<T> total = 0;
    for (int64_t j = 0; j < count; ++j) {
      for (size_t k = 0; k < operands.size(); ++k) {
        values[k] = operands[k].as<const T>()[outer[k].offset() + inner[k].offset()];
        inner[k].next();
      }
      total = wrappingAdd(total, static_cast<Accumulator<T>>(f(values)));
    }
    out[i] = static_cast<T>(total);
    for (StridedWalk &walk : outer) walk.next();
  }
}

/// out[i] = f(values of the operands broadcast to the shape of out).
template <class T, class F> void mapBroadcast(const TensorRef &out, llvm::ArrayRef<TensorRef> operands, F f) {
  llvm::SmallVector<StridedWalk, 4> walks;
  for (const TensorRef &operand : operands)
    walks.push_back(StridedWalk(out.shape, broadcastStrides(out.shape, operand.shape)));
  const int64_t size = out.size();
  T values[4] = {};
  for (int64_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < operands.size(); ++k) {
      values[k] = operands[k].as<const T>()[walks[k].offset()];
      walks[k].next();
    }
    out.as<T>()[i] = f(values);
  }
}

}  // namespace gradc
