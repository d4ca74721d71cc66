// The side table of an emitted graph, as graph attributes (CLI-03): which head is the gradient of what.
#pragma once

#include "passes/gradient.h"

namespace gradc {

/// Graph attributes of the forward graph that stay true when nodes are added: lists per node or entry, plans and the
/// side table itself are left out.
GraphAttrs carriedAttrs(const Graph &graph);

/// `emitted` with the side table; rows of `forward`'s own table, if it is an emitted graph, are kept in front.
Graph withGradientTable(const Graph &forward, const Graph &emitted, const GradientRequest &request,
                        const GradientOptions &options, const GradientResult &result,
                        const std::vector<NodeId> &newId);

}  // namespace gradc
