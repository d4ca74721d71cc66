// A memory plan as a picture: addresses upwards, steps to the right, one area per value for as long as it owns its
// bytes. The bound, the arena and the sum of live bytes are lines over it. Tested by tests/tools/drawing_test.cc
#pragma once

#include "passes/memory/lifetimes.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// `lifetimes` are those the plan was made from, in id order. Values outside the arena are not drawn.
void drawPlan(llvm::raw_ostream &os, const Graph &graph, const Lifetimes &lifetimes, const MemoryPlan &plan);

}  // namespace gradc
