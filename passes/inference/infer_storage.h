// Storage of variables, as their attributes and the annotation of the graph give it. Tested by
// tests/passes/infer_test.cc
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// Fills in the storage of the variables from `firstNode` on. Refused: what spells no storage [bad_hint], and a read of
/// storage other than dense, by an operator or as a head [storage].
llvm::Error readStorage(const Graph &graph, uint32_t firstNode, EntryMap<StorageKind> &storage);

}  // namespace gradc
