// A graph to draw, and the texts that its pictures share: SVG (graph_svg.h), ready to look at, and Graphviz
// (graph_dot.h), for those who want to lay it out themselves.
//
// Both show forward and gradient side by side (graph_layout.h), and below the graph each body once, however many nodes
// contain it. The same graph gives the same bytes. Tested by tests/tools/drawing_test.cc
#pragma once

#include "ir/graph/bodies.h"
#include "passes/inference/infer.h"

#include <optional>

namespace gradc {

/// A graph and everything below it.
struct Drawing {
  std::vector<NestedGraph> graphs;                   // as nestedGraphs lists them
  std::vector<std::optional<Inference>> inferences;  // of each: shapes and types are written where they are known
};

/// "@1 node 'loop' > body".
std::string bodyTitle(llvm::ArrayRef<NestedGraph> graphs, size_t position);

/// What the head is: its listed name, or "grad of x" from the side table of an emitted graph; in a body with its role:
/// "h (next state)".
std::vector<std::string> headLabels(llvm::ArrayRef<NestedGraph> graphs, size_t position);
/// "sliced" of a variable in a body (ir/graph/body_roles.h); empty for other nodes.
llvm::StringRef roleText(llvm::ArrayRef<NestedGraph> graphs, size_t position, NodeId n);
/// "8×20×24×24 float32", "? float32"; empty when nothing is known.
std::string entryText(const Graph &graph, const std::optional<Inference> &inference, Value value);

}  // namespace gradc
