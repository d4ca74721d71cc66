// The page of operators, docs/operators.md, from their definitions. Tested by tests/tools/golden_test.cc
#pragma once

#include "ir/graph/context.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Markdown: every operator that a model may contain. What gradients and lowerings are made of is found by trying.
void printOperators(llvm::raw_ostream &os, Context &context);

}  // namespace gradc
