// Tested by tests/tools/drawing_test.cc
#include "drawing/graph_drawing.h"

#include "ir/graph/body_roles.h"
#include "passes/gradient/gradient.h"

using namespace llvm;

namespace gradc {

StringRef roleText(ArrayRef<NestedGraph> graphs, size_t position, NodeId n) {
  return graphs[position].graph.isVariable(n) ? inputRole(graphs, position, n).name : "";
}

std::vector<std::string> headLabels(ArrayRef<NestedGraph> graphs, size_t position) {
  const Graph &graph = graphs[position].graph;
  std::vector<std::string> labels;
  for (Value head : graph.heads()) labels.push_back(graph.listedName(head));
  Expected<std::optional<GradientTable>> table = readGradientTable(graph);
  if (!table) consumeError(table.takeError());
  else if (*table)
    for (size_t i = 0; i < labels.size() && i < (*table)->heads.size(); ++i)
      if (const GradientTable::Head &head = (*table)->heads[i]; head.kind != GradientTable::HeadKind::Forward)
        labels[i] = "grad of " + head.of;
  for (size_t i = 0; i < labels.size(); ++i)
    if (const BodyRole role = headRole(graphs, position, i); role.isKnown())
      labels[i] += (" (" + role.name + ")").str();
  return labels;
}

std::string bodyTitle(ArrayRef<NestedGraph> graphs, size_t position) {
  return "@" + std::to_string(position) + " " + bodyPath(graphs, position);
}

std::string entryText(const Graph &graph, const std::optional<Inference> &inference, Value value) {
  if (!inference || graph.numOutputs(value.node) == 0) return "";
  const EntryId entry = graph.entry(value);
  const ShapeRef shape = inference->shapeOf(entry);
  if (!shape.hasRank()) return "";
  std::string text;
  for (int64_t dim : shape.dims()) {
    if (!text.empty()) text += "\u00d7";
    text += dim == kUnknownDim ? "?" : std::to_string(dim);
  }
  if (text.empty()) text = "scalar";
  const DType dtype = inference->dtype[entry];
  return dtype == DType::Unknown ? text : text + " " + dtypeName(dtype).str();
}

}  // namespace gradc
