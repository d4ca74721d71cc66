// Why a graph cannot run. Tested by tests/runtime/executor_errors_test.cc, tests/runtime/session_test.cc
#pragma once

#include "passes/inference/infer.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct ExecOptions;

/// InferMissing: the shape or type of entry e of node n is not known.
llvm::Error unknownTensor(const Graph &graph, const Inference &inference, NodeId n, EntryId e);
/// UnknownOp: nothing computes node n.
llvm::Error noKernel(const Graph &graph, NodeId n);
/// BindingSurplus (E-72) for something that is not a variable of the graph, or for a head that it does not have. `what`
/// begins the message: "a shape is given for".
llvm::Error checkIsVariable(const Graph &graph, NodeId n, llvm::StringRef what = "memory is given for");
llvm::Error checkIsHead(const Graph &graph, size_t i, llvm::StringRef what = "memory is given for");
/// BindingMismatch for columns of the options that do not have a row for each node or head of the graph.
llvm::Error checkColumns(const Graph &graph, const ExecOptions &options);

}  // namespace gradc
