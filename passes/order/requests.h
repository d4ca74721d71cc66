// Which outputs are requested, and how: one request per entry, from the heads and the reads of a graph (REQ-*, RC-*).
// From these follows which nodes a run skips.
#pragma once

#include "ir/graph/tables.h"
#include "passes/inference/infer.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct RequestTable {
  EntryMap<Request> request;  // Null: nothing reads the entry and it is not a head (REQ-03)
  EntryMap<uint32_t> reads;   // one per input position, except ignored ones (RC-03), and one per head
};

/// `headRequests` has one request per head or is empty (all Write). A head with request Null keeps only what other
/// readers need. Linear.
RequestTable countRequests(const Graph &graph, llvm::ArrayRef<Request> headRequests);

/// RUN-01: whether the node is dead: none of its outputs is requested and it has no effects, so it does not run. Its
/// inputs are then not counted as read (RequestTable::reads). False for variables.
bool isDead(const Graph &graph, const RequestTable &requests, NodeId n);

/// RUN-01: whether the executor skips an operator, which then needs no workspace: none of its requested outputs has an
/// element, and it has no effects.
bool hasNothingToDo(const Graph &graph, const RequestTable &requests, const Inference &inference, NodeId n);

}  // namespace gradc
