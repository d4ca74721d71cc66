// The human-readable form of a graph: one line per node. Made for people and golden files; not read back.
#pragma once

#include "ir/graph/graph.h"
#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// `%4 = FullyConnected(%0, %2, %3) {num_hidden=10} "fc1"   ; after %1` per node, then `heads %4, %7:1`. A node with
/// bodies lists them, `; body @1`; each follows once, indented, under `@1: body of %4`, with the roles of its inputs
/// and heads.
void printText(llvm::raw_ostream &os, const Graph &graph);

}  // namespace gradc
