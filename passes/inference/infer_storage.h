// Storage of variables, as their attributes and the annotation of the graph give it. Tested by
// tests/passes/infer_test.cc
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// Fills in the storage of the variables from `firstNode` on. Errors: BadHint for text that names no storage kind;
/// Storage where an operator reads storage other than dense, or a head has it.
llvm::Error readStorage(const Graph &graph, uint32_t firstNode, EntryMap<StorageKind> &storage);

}  // namespace gradc
