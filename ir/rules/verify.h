// Checks the invariants every graph must have; run after each pass in tests and by default in the command line tool.
#pragma once

#include "ir/graph/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// Checks that ids are in post-order (every input and control dependency before its reader), output indices (E-48) and
/// origins are in range, arity (E-42), mutation targets and versions (E-30), that sums have inputs (E-45), and that
/// control dependency 0 of backward operators is their forward node (IR-19). Bodies are checked the same way, each once
/// (IR-10). Joins up to `limit` errors into one; linear.
llvm::Error verifyGraph(const Graph &graph, size_t limit);

/// E-30 if bodies of the node overwrite one variable as two inputs: such writes have no order. An earlier version that
/// the node also reads is in order: orderMutations saves it first (MUT-03).
llvm::Error checkWrittenTwice(const Graph &graph, NodeId n);

}  // namespace gradc
