// The order in which the nodes of a gradient graph are differentiated again.
#pragma once

#include "ir/graph.h"

namespace gradc {

/// All nodes, readers before what they read. At the first order that is falling id. A gradient graph's ids depend on how
/// its sums were said: the ordering dependencies of a chain (AGG-05) and the places of its running sums take part in
/// them. So that the terms of a sum of the next order stand in one order whatever `sumCap` was (RUN-02), this follows
/// data edges alone, and visits a chain of `add` (`_grad_add`) at one go, as one `add_n` would be. Linear.
std::vector<NodeId> walkOrder(const Graph &graph, const OpDef *add);

}  // namespace gradc
