// The page of primitives: how hosts express each, and what every other operator ends in. Tested by tests/golden_test.cc
#pragma once

#include "ir/context.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Markdown: docs/primitives.md is what this prints. What operators end in is found by trying: a node of each, attributes at
/// their defaults, and its gradient.
void printPrimitives(llvm::raw_ostream &os, Context &context);

}  // namespace gradc
