// Shared by binary operators with NumPy broadcasting: shape inference, and kernels from a function of two elements.
//
//   .shape = broadcastShape,
//   .kernel = broadcastKernel<[](auto a, auto b) { return a + b; }>,
//
// Tested by tests/ops/elementwise_ops_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/op_def.h"

namespace gradc {

/// Aligns inputs 0 and 1 at the last axis, repeating dimensions of 1. Infers in both directions wherever an axis
/// determines the others; the operands' ranks must be known.
void broadcastShape(ShapeInference &s);

/// y = f(lhs, rhs) with broadcasting.
constexpr OpDef asBroadcast(OpDef op) {
  op.inputs = {"lhs", "rhs"};
  op.shape = broadcastShape;
  return op;
}
/// The two gradients of such a function.
constexpr OpDef asBroadcastGradient(OpDef op) {
  op.inputs = {"dy", "lhs", "rhs"};
  op.outputs = {"dlhs", "drhs"};
  op.flags.isBackward = true;
  return op;
}

/// output = F(lhs, rhs) for every numeric type.
template <auto F> void broadcastKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(call.out[0], call.in, [](const T *v) { return static_cast<T>(F(v[0], v[1])); });
  });
}

/// The same for floating types.
template <auto F> void broadcastFloatingKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(call.out[0], call.in, [](const T *v) { return static_cast<T>(F(v[0], v[1])); });
  });
}

/// F0 and F1 are the terms of the two gradients before they are summed over the repeated axes; operands dy[, lhs, rhs].
template <auto F0, auto F1> void broadcastBackwardKernel(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto sum = [&](size_t output, auto term) {
      if (call.wants(output))
        sumOnto<T>(call.out[output].as<T>(), call.out[output].shape, call.in[0].shape, call.in, term);
    };
    sum(0, [](const T *v) -> double { return F0(v); });
    sum(1, [](const T *v) -> double { return F1(v); });
  });
}

}  // namespace gradc
