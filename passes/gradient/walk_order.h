// The order in which the nodes of a gradient graph are differentiated again.
#pragma once

#include "ir/graph.h"

namespace gradc {

/// The nodes that the roots depend on, readers before what they read. At the first order that is falling id. A gradient
/// graph's ids depend on how its sums were emitted: the ordering dependencies of a chain (AGG-05) and the places of its
/// running sums take part in them, and so do heads that nobody differentiates. The terms of a sum of the next order come in
/// one order whatever `sumCap` was, whether zeros are kept, and whatever else the graph holds (RUN-02): the first
/// `numForward` nodes, the forward part, are visited by falling id and last; among the others this starts from the roots,
/// in their order, follows data edges alone, and visits a chain of `add` (`_grad_add`) in one go, as one `add_n` would be.
/// Linear.
std::vector<NodeId> walkOrder(const Graph &graph, uint32_t numForward, llvm::ArrayRef<NodeId> roots, const OpDef *add);

}  // namespace gradc
