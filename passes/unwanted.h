// Which nodes a run leaves out.
#pragma once

#include "passes/requests.h"

namespace gradc {

/// RUN-01: none of the node's outputs is wanted, and it writes nowhere else, so that it does not run. What it would read is
/// not read (RequestTable::reads). False for variables.
bool isUnwanted(const Graph &graph, const RequestTable &requests, NodeId n);

}  // namespace gradc
