// The side table of an emitted graph, as graph attributes (CLI-03): which head is the gradient of what.
#pragma once

#include "passes/gradient.h"

namespace gradc {

/// Takes out the side table.
void eraseGradientTable(GraphAttrs &attrs);

/// Makes `update_of`, which names the parameter that each head updates, fit a graph whose first heads are those there were: the
/// others update nothing. It goes, with `optimizer_states`, where the heads it speaks of do.
void extendUpdates(GraphAttrs &attrs, size_t numHeads, size_t numHeadsNow);

/// The order of the gradients of these y: one more than the highest among them. Heads of an emitted graph have theirs in
/// its `table`; of other entries, those of generated nodes count as of its highest, the user's own as of none.
uint32_t orderOfGradient(const Graph &graph, const std::optional<GradientTable> &table, llvm::ArrayRef<GradientHead> heads);

struct GradientState;
/// `emitted` with the side table; rows of the base's own table, if it is an emitted graph, are kept in front.
Graph withGradientTable(const GradientState &state, const Graph &emitted, const GradientResult &result,
                        const std::vector<NodeId> &newId);

}  // namespace gradc
