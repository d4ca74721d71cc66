// Which outputs are wanted, and how: one request per entry, from the heads and the reads of a graph (REQ-*, RC-*).
#pragma once

#include "ir/tables.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct RequestTable {
  EntryMap<Request> request;  // Null: nothing reads the entry and it is not a head (REQ-03)
  EntryMap<uint32_t> reads;   // reads by nodes, once per input position, ignored inputs apart (RC-03), + 1 per head
};

/// `headRequests` has one request per head or is empty (all Write). A head asked Null keeps only what other readers need.
/// Linear.
RequestTable countRequests(const Graph &graph, llvm::ArrayRef<Request> headRequests);

}  // namespace gradc
