// Which outputs are requested, and how: one request per entry, from the heads and the reads of a graph (REQ-*, RC-*).
#pragma once

#include "ir/graph/tables.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct RequestTable {
  EntryMap<Request> request;  // Null: nothing reads the entry and it is not a head (REQ-03)
  EntryMap<uint32_t> reads;   // one per input position, except ignored ones (RC-03), and one per head
};

/// `headRequests` has one request per head or is empty (all Write). A head with request Null keeps only what other
/// readers need. Linear.
RequestTable countRequests(const Graph &graph, llvm::ArrayRef<Request> headRequests);

}  // namespace gradc
