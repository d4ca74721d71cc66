// Writes the canonical JSON form: streaming, keys sorted, one node per line, a fixed point of readJson ∘ writeJson.
#pragma once

#include "ir/graph/graph.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Bodies are written inside their nodes, each time they are used: linear in what is written.
void writeJson(llvm::raw_ostream &os, const Graph &graph);

}  // namespace gradc
