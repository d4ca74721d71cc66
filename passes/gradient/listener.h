// Tells a listener about the nodes that a gradient adds, once their graph is frozen (HOOK-01).
#pragma once

#include "passes/gradient/gradient.h"

#include "ir/graph/graph_builder.h"

namespace gradc {

/// A gradient of the builder's graph and the entry of the base it belongs to.
struct GradientOf {
  Value gradient, entry;
};

/// Calls the listener for every node of `frozen` that is not among the first `numBase` of the builder, in id order.
/// Operands of sums are gradients of the same entry.
void notifyListener(GradientListener &listener, const Frozen &frozen, uint32_t numBase,
                    llvm::ArrayRef<GradientOf> gradients, const WellKnownOps &ops);

}  // namespace gradc
