// Writes the canonical JSON form: streaming, keys sorted, one node per line, a fixed point of readJson ∘ writeJson.
#pragma once

#include "ir/program.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Only MXNet's loader refuses what its format does not know; both forms use graph attributes of the kinds of A-14.
void writeJson(llvm::raw_ostream &os, const Program &program);
void writeJson(llvm::raw_ostream &os, const Graph &graph);

}  // namespace gradc
