// The side table of an emitted graph: which head is the gradient of what.
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// The order of the gradients of these y: one more than the highest order among them. `table` gives the orders of an
/// emitted graph's heads; other entries have its highest order if their node is generated, else order 0.
uint32_t orderOfGradient(const Graph &graph, const std::optional<GradientTable> &table,
                         llvm::ArrayRef<GradientHead> heads);

struct GradientState;
/// The table of the emitted graph; if the base is an emitted graph itself, its rows come first.
GradientTable gradientTableOf(const GradientState &state, const GradientResult &result,
                              const std::vector<NodeId> &newId);

}  // namespace gradc
