// A graph as a picture: SVG, ready to look at, and Graphviz, for those who want to lay it out themselves.
//
// Both show forward and gradient side by side (graph_layout.h). The same graph gives the same bytes.
// Tested by tests/drawing_test.cc
#pragma once

#include "passes/infer.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Shapes and types are written where `inference` (may be null) knows them.
void drawSvg(llvm::raw_ostream &os, const Graph &graph, const Inference *inference);
/// Gradient nodes have the rank of their forward node; their edges do not take part in the ranking.
void drawDot(llvm::raw_ostream &os, const Graph &graph, const Inference *inference);

/// What the head is: its listed name, or "grad of x" from the side table of an emitted graph.
std::vector<std::string> headLabels(const Graph &graph);
/// "8×20×24×24 float32", "? float32"; empty when nothing is known.
std::string entryText(const Graph &graph, const Inference *inference, Value value);

}  // namespace gradc
