// The page of primitives: how hosts express each, and what every other operator ends in. Tested by
// tests/tools/golden_test.cc
#pragma once

#include "ir/graph/context.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Markdown: prints docs/primitives.md. What operators end in is determined by trying a node of each, with default
/// attributes, and its gradient.
void printPrimitives(llvm::raw_ostream &os, Context &context);

}  // namespace gradc
