// Which nodes a run leaves out.
#pragma once

#include "passes/infer.h"
#include "passes/requests.h"

namespace gradc {

/// RUN-01: none of the node's outputs is wanted, and it writes nowhere else, so that it does not run. What it would read is
/// not read (RequestTable::reads). False for variables.
bool isUnwanted(const Graph &graph, const RequestTable &requests, NodeId n);

/// RUN-01: whether the executor leaves an operator out, so that it needs no workspace: none of its outputs is wanted, or none
/// of those has an element, and it writes nowhere else.
bool hasNothingToDo(const Graph &graph, const RequestTable &requests, const Inference &inference, NodeId n);

}  // namespace gradc
