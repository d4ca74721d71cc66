// The order in which the nodes of a gradient graph are differentiated again.
#pragma once

#include "ir/graph.h"

namespace gradc {

/// All nodes, readers before what they read. At the first order that is falling id. A gradient graph's ids depend on how
/// its sums were written: the ordering dependencies of a chain (AGG-05) and the places of its running sums take part in
/// them. So that the terms of a sum of the next order come in one order whatever `sumCap` was and whatever unknown operators
/// the graph has beside what is differentiated (RUN-02), this follows data edges alone from the heads, those last that
/// depend on an unknown operator, and visits a chain of `add` (`_grad_add`) in one go, as one `add_n` would be. Linear.
std::vector<NodeId> walkOrder(const Graph &graph, const OpDef *add);

}  // namespace gradc
