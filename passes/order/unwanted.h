// Which nodes a run skips.
#pragma once

#include "passes/inference/infer.h"
#include "passes/order/requests.h"

namespace gradc {

/// RUN-01: whether the node does not run because none of its outputs is requested and it has no effects. Its inputs are
/// then not counted as read (RequestTable::reads). False for variables.
bool isUnwanted(const Graph &graph, const RequestTable &requests, NodeId n);

/// RUN-01: whether the executor skips an operator, which then needs no workspace: none of its requested outputs has an
/// element, and it has no effects.
bool hasNothingToDo(const Graph &graph, const RequestTable &requests, const Inference &inference, NodeId n);

}  // namespace gradc
