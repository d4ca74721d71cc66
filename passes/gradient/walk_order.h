// The order in which the nodes of a gradient graph are differentiated again.
#pragma once

#include "ir/graph/graph.h"

namespace gradc {

/// All nodes, readers before what they read. At the first order that is descending id. The ids of a gradient graph
/// depend on the form of its sums, through the control dependencies of a chain (AGG-05) and the places of its running
/// sums. So that the terms of a sum of the next order have the same order for every `sumCap`, and whatever unknown
/// operators are in the rest of the graph (RUN-02), this reverses a search from the heads along data edges only, in
/// which heads that depend on an unknown operator come last, and visits a chain of `add` (`_grad_add`) at once, like a
/// single `sum` (`add_n`). Linear.
std::vector<NodeId> walkOrder(const Graph &graph, const WellKnownOps &ops);

}  // namespace gradc
