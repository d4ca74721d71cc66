// A graph as SVG. Tested by tests/tools/drawing_test.cc
#pragma once

#include "drawing/graph_drawing.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// A panel per graph, titled with the path to it.
void drawSvg(llvm::raw_ostream &os, const Drawing &drawing);

}  // namespace gradc
