// The side table of an emitted graph: which head is the gradient of what.
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// The order of the gradients of these y: one more than the highest among them. Heads of an emitted graph have theirs in
/// its `table`; of other entries, those of generated nodes count as of its highest, the user's own as of none.
uint32_t orderOfGradient(const Graph &graph, const std::optional<GradientTable> &table,
                         llvm::ArrayRef<GradientHead> heads);

struct GradientState;
/// That of the emitted graph; rows of the base's own, if it is an emitted graph, are kept in front.
GradientTable gradientTableOf(const GradientState &state, const GradientResult &result,
                              const std::vector<NodeId> &newId);

}  // namespace gradc
