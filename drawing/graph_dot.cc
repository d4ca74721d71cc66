// The Graphviz form of a graph. Tested by tests/tools/drawing_test.cc
#include "drawing/graph_dot.h"

#include "drawing/graph_layout.h"
#include "ir/base/printable.h"

using namespace llvm;

namespace gradc {
namespace {

std::string dotLabel(StringRef text) {
  std::string label;
  for (char c : printable(text)) {
    if (c == '"' || c == '\\') label += '\\';
    label += c;
  }
  return label;
}

StringRef nodeStyle(NodeRole role) {
  switch (role) {
    case NodeRole::Variable: return "shape=ellipse, fillcolor=\"#e6f6ec\", color=\"#2f9e5b\"";
    case NodeRole::Aux: return "shape=ellipse, style=\"filled,dashed\", fillcolor=\"#f3eefb\", color=\"#8a63c9\"";
    case NodeRole::Operator: return "shape=box, fillcolor=\"#e7f0fd\", color=\"#3a72c4\"";
    case NodeRole::Backward: return "shape=box, style=\"filled,rounded\", fillcolor=\"#fdeede\", color=\"#d27d22\"";
    case NodeRole::Sum: return "shape=octagon, fillcolor=\"#fbe4e6\", color=\"#cc4b59\"";
    case NodeRole::GradientOperator:
      return "shape=box, style=\"filled,rounded\", fillcolor=\"#fdf8e1\", color=\"#b3952a\"";
    case NodeRole::Update: return "shape=hexagon, fillcolor=\"#dff4f5\", color=\"#228a94\"";
  }
  return "";
}

/// Prints what is inside the braces of one graph.
class DotGraph {
 public:
  DotGraph(raw_ostream &os, const Drawing &drawing, size_t position, size_t depth)
      : os(os), graphs(drawing.graphs), position(position), graph(graphs[position].graph),
        inference(drawing.inferences[position]), layout(layoutGraph(graph)),
        prefix(position ? "b" + std::to_string(position) : ""), indent(2 * depth, ' ') {}

  void print() {
    constexpr StringRef kLanes[] = {"forward", "gradient", "after_the_gradient"};
    for (size_t lane = 0; lane < kNumLanes; ++lane)
      if (layout.firstColumn[lane] < layout.firstColumn[lane + 1]) printLane(static_cast<Lane>(lane), kLanes[lane]);
    printRanks();
    for (uint32_t n = 0; n < graph.numNodes(); ++n) printEdges(NodeId(n));
    printHeads();
  }

 private:
  std::string idOf(NodeId n) const { return prefix + "n" + std::to_string(n.value); }

  void printLane(Lane lane, StringRef name) {
    std::string label = name.str();
    for (char &c : label)
      if (c == '_') c = ' ';
    os << indent << "subgraph cluster_" << (prefix.empty() ? "" : prefix + "_") << name << " {\n"
       << indent << "  label=\"" << label << "\"; color=\"#d5dbe1\";\n";
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id);
      if (laneOf(n) != lane) continue;
      os << indent << "  " << idOf(n) << " [label=\"%" << id;
      if (!graph.isVariable(n)) os << ' ' << dotLabel(graph.opName(n));
      if (!graph.name(n).empty()) os << "\\n" << dotLabel(graph.name(n));
      if (std::string text = entryText(graph, inference, Value{n}); !text.empty()) os << "\\n" << text;
      if (const StringRef role = roleText(graphs, position, n); !role.empty()) os << "\\n" << role;
      os << "\", " << nodeStyle(layout.role[n]) << "];\n";
    }
    os << indent << "}\n";
  }

  // A variable belongs to its first reader.
  Lane laneOf(NodeId n) const { return layout.isPlaced(n) ? layout.lane[n] : layout.lane[layout.host[n]]; }

  // The last of the gradient nodes of a forward node has its rank; those that feed it follow below.
  void printRanks() {
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id), anchor = layout.anchor[n];
      if (anchor.isValid() && layout.row[n] == layout.row[anchor])
        os << indent << "{rank=same; " << idOf(anchor) << "; " << idOf(n) << ";}\n";
    }
  }

  void printEdge(NodeId from, NodeId to, std::vector<std::string> style) {
    const bool isForward = laneOf(from) == Lane::Forward && laneOf(to) == Lane::Forward;
    const bool isBelow =
        layout.anchor[from].isValid() && layout.anchor[from] == layout.anchor[to] && layout.row[from] > layout.row[to];
    if (laneOf(from) != Lane::Forward) style.push_back("color=\"#d27d22\"");
    else if (!isForward && layout.host[from] != to) style.push_back("color=\"#93a7be\"");
    if (isBelow) {
      std::swap(from, to);  // ranks count downwards, gradients flow up
      style.push_back("dir=back");
    } else if (!isForward && layout.host[from] != to) {
      style.push_back("constraint=false");
    }
    os << indent << idOf(from) << " -> " << idOf(to);
    if (!style.empty()) os << " [";
    for (size_t i = 0; i < style.size(); ++i) os << (i ? ", " : "") << style[i];
    os << (style.empty() ? ";\n" : "];\n");
  }

  void printEdges(NodeId to) {
    for (Value input : graph.inputs(to)) {
      std::vector<std::string> style;
      if (input.index) style.push_back("label=\"" + std::to_string(input.index) + "\"");
      printEdge(input.node, to, std::move(style));
    }
    for (NodeId dep : graph.controlDeps(to)) printEdge(dep, to, {"style=dashed"});
  }

  void printHeads() {
    std::vector<std::string> labels = headLabels(graphs, position);
    for (size_t i = 0; i < labels.size(); ++i) {
      const Value head = graph.heads()[i];
      os << indent << prefix << "h" << i << " [label=\"" << dotLabel(labels[i])
         << "\", shape=cds, fillcolor=\"#52606d\", fontcolor=white, color=\"#52606d\"];\n"
         << indent << idOf(head.node) << " -> " << prefix << "h" << i;
      std::string style = laneOf(head.node) == Lane::Forward ? "" : "color=\"#d27d22\"";
      if (head.index) style += (style.empty() ? "label=\"" : ", label=\"") + std::to_string(head.index) + "\"";
      if (!style.empty()) os << " [" << style << ']';
      os << ";\n";
    }
  }

  raw_ostream &os;
  const ArrayRef<NestedGraph> graphs;
  const size_t position;
  const Graph &graph;
  const std::optional<Inference> &inference;
  GraphLayout layout;
  std::string prefix, indent;  // prefix: of the names of nodes, which are unique in the whole file
};

class DotPrinter {
 public:
  DotPrinter(raw_ostream &os, const Drawing &drawing) : os(os), drawing(drawing) {}

  void print() {
    os << "digraph gradc {\n"
          "  newrank=true; fontname=\"sans-serif\"; bgcolor=white;\n"
          "  node [style=filled, fontname=\"sans-serif\", fontsize=11, margin=\"0.12,0.05\"];\n"
          "  edge [color=\"#3a72c4\", fontname=\"sans-serif\", fontsize=9, arrowsize=0.7];\n";
    DotGraph(os, drawing, 0, 1).print();
    printBodies();
    printOwners();
    os << "}\n";
  }

 private:
  // Clusters within clusters, without a call per level.
  void printBodies() {
    std::vector<SmallVector<size_t, 2>> inside(drawing.graphs.size());
    for (size_t i = drawing.graphs.size(); i-- > 1;) inside[drawing.graphs[i].parent].push_back(i);
    std::vector<size_t> open = {0};
    while (!open.empty()) {
      SmallVector<size_t, 2> &rest = inside[open.back()];
      if (rest.empty()) {
        open.pop_back();
        if (!open.empty()) os.indent(2 * open.size()) << "}\n";
        continue;
      }
      const size_t body = rest.pop_back_val(), depth = open.size();
      os.indent(2 * depth) << "subgraph cluster_b" << body << " {\n";
      os.indent(2 * depth) << "  label=\"" << dotLabel(bodyTitle(drawing.graphs, body)) << "\"; color=\"#52606d\";\n";
      os.indent(2 * depth) << "  b" << body << " [shape=point, color=\"#52606d\"];\n";
      DotGraph(os, drawing, body, depth + 1).print();
      open.push_back(body);
    }
  }

  void printOwners() {
    const BodyNumbers numbers = numberBodies(drawing.graphs);
    for (size_t i = 0; i < drawing.graphs.size(); ++i) {
      const Graph &graph = drawing.graphs[i].graph;
      for (uint32_t n = 0; n < graph.numNodes(); ++n) {
        ArrayRef<Graph> bodies = graph.bodies(NodeId(n));
        for (size_t b = 0; b < bodies.size(); ++b)
          os << "  " << (i ? "b" + std::to_string(i) : "") << 'n' << n << " -> b" << numbers.lookup(keyOf(bodies[b]))
             << " [label=\"" << bodyName(bodies.size(), b) << "\", style=dotted, color=\"#52606d\"];\n";
      }
    }
  }

  raw_ostream &os;
  const Drawing &drawing;
};

}  // namespace

void drawDot(raw_ostream &os, const Drawing &drawing) { DotPrinter(os, drawing).print(); }

}  // namespace gradc
