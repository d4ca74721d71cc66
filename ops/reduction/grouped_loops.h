// Loops of kernels over the elements that a reduction brings together. Tested by tests/ops/reduce_ops_test.cc
#pragma once

#include "ir/rules/kernel.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/reduction/reduce_axes.h"

namespace gradc {

/// Calls visit(i, forEach) for every element i of the reduction of a tensor of shape `whole`; forEach(f) calls
/// f(offset) for each element that falls on it, in order.
template <class F> void forEachGroup(const ReduceParams &params, Dims whole, F visit) {
  const DimsBuffer part = keptShape(params, whole);
  const int64_t size = elementCount(part), count = size == 0 ? 0 : elementCount(whole) / size;
  StridedWalk outer = axesWalk(whole, part, whole, true), inner = axesWalk(whole, part, whole, false);
  auto forEach = [&](auto f) {
    for (int64_t j = 0; j < count; ++j, inner.next()) f(outer.offset() + inner.offset());
  };
  for (int64_t i = 0; i < size; ++i, outer.next()) visit(i, forEach);
}

/// Shapes of a fused gradient: output 0 has that of input `whole`, and the inputs `parts` have that of its reduction.
inline void relateGradient(ShapeInference &s, size_t whole, llvm::ArrayRef<size_t> parts) {
  s.sameInOut(whole, 0);
  for (size_t part : parts) {
    s.sameInIn(parts[0], part);
    if (!s.hasFailed()) relateReduction(s, whole, part);
  }
  if (!s.hasFailed()) s.sameInOut(whole, 0);
}
/// The same for the operands dy, x and y.
inline void gradientShape(ShapeInference &s) { relateGradient(s, 1, {0, 2}); }

/// Whether `a` takes the place of the extremum so far; the first of equals stays, a NaN is the result.
inline constexpr auto kIsLarger = [](auto a, auto best) { return a > best || (a != a && best == best); };
inline constexpr auto kIsSmaller = [](auto a, auto best) { return a < best || (a != a && best == best); };

/// Output 0 = F(dy, x, y) with dy and y, inputs 0 and 2, repeated over the reduced axes to the shape of x.
template <auto F> void repeatedKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const DimsBuffer part = keptShape(call.params<ReduceParams>(), call.out[0].shape);
  const TensorRef operands[] = {
      {call.in[0].data, call.in[0].dtype, part}, call.in[1], {call.in[2].data, call.in[2].dtype, part}};
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(call.out[0], operands, [](const T *v) { return F(v[0], v[1], v[2]); });
  });
}

}  // namespace gradc
