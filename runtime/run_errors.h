// Why a graph cannot run. Tested by tests/executor_errors_test.cc, tests/session_test.cc
#pragma once

#include "passes/infer.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// InferMissing: the shape or type of entry e of node n is not known.
llvm::Error unknownTensor(const Graph &graph, const Inference &inference, NodeId n, EntryId e);
/// UnknownOp: nothing computes node n.
llvm::Error noKernel(const Graph &graph, NodeId n);
/// BindingSurplus (E-72) for memory of something that is not a variable of the graph, or of a head that it does not have.
llvm::Error checkIsVariable(const Graph &graph, NodeId n);
llvm::Error checkIsHead(const Graph &graph, size_t i);

}  // namespace gradc
