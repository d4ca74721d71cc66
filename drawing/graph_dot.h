// A graph in the language of Graphviz. Tested by tests/tools/drawing_test.cc
#pragma once

#include "drawing/graph_drawing.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Gradient nodes have the rank of their forward node; their edges do not take part in the ranking. Bodies are clusters
/// inside that of the first graph that has them, and every node points to its bodies.
void drawDot(llvm::raw_ostream &os, const Drawing &drawing);

}  // namespace gradc
