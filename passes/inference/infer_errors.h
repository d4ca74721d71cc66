// What inference refuses. `firstNode`: nodes before it were inferred already and are not examined. Tested by
// tests/passes/infer_test.cc
#pragma once

#include "passes/inference/infer.h"

namespace gradc {

/// An attribute of a variable that does not parse, or that contradicts what is known.
llvm::Error badHint(const Graph &graph, NodeId variable, llvm::StringRef key, llvm::StringRef text,
                    llvm::StringRef expected);

/// The error for an output that exceeds the bytes of one tensor.
llvm::Error tooManyBytes(const Graph &graph, const Inference &inference, NodeId n, uint32_t output);
/// That error for the first such output. Interning bounds the number of elements; the bytes per element are known only
/// here.
llvm::Error checkBytes(const Graph &graph, const Inference &inference, uint32_t firstNode);

/// UnknownOp or InferMissing if something is unknown. Names what the user can fix: the first unknown operator, else the
/// first node or variable with something unknown; a node of a body rather than the loop around it.
llvm::Error checkKnown(const Graph &graph, const Inference &inference, uint32_t firstNode);

}  // namespace gradc
