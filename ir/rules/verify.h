// Checks the invariants every graph must have; run after each pass in tests and by default in the command line tool.
#pragma once

#include "ir/graph/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// Ids in post-order (every input and control dependency before its reader), output indices in range (E-48), arity
/// (E-42), mutation targets and versions (E-30), at least one input of a sum (E-45), backward operators with their
/// forward node as control dep 0 (IR-19), origins in range. Bodies are checked the same way, each once (IR-10).
/// Collects up to `limit` errors into one joined llvm::Error. Linear.
llvm::Error verifyGraph(const Graph &graph, size_t limit);

/// E-30 if bodies of the node overwrite one variable as two inputs: such writes have no order. An earlier version that
/// the node also reads is in order: orderMutations saves it first (MUT-03).
llvm::Error checkWrittenTwice(const Graph &graph, NodeId n);

}  // namespace gradc
