// The order in which the nodes of a gradient graph are differentiated again.
#pragma once

#include "ir/graph/graph.h"

namespace gradc {

/// All nodes, readers before what they read, in linear time. At the first order that is descending id. At higher orders
/// ids would depend on `sumCap`, through the chains of sums (AGG-05), so this reverses a search from the heads along
/// data edges, in which heads that depend on an unknown operator come last (RUN-02) and a chain of `add` (`_grad_add`)
/// is visited at once, like a single `sum` (`add_n`).
std::vector<NodeId> walkOrder(const Graph &graph, const WellKnownOps &ops);

}  // namespace gradc
