// The SVG of a graph. Tested by tests/tools/drawing_test.cc
#include "drawing/graph_svg.h"

#include "drawing/graph_routes.h"
#include "drawing/svg.h"
#include "drawing/table.h"

#include "ir/graph/body_roles.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <deque>

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kNameLimit = 28;
constexpr double kMargin = 24, kHeader = 118, kRadius = 5, kLine = 14;
constexpr double kPanelGap = 64;  // from one panel to the next, with its title
constexpr size_t kPathLimit = 120;

StringRef roleClass(NodeRole role) {
  constexpr StringRef kClasses[] = {"variable", "aux", "operator", "backward", "sum", "other", "update"};
  return kClasses[static_cast<size_t>(role)];
}

StringRef edgeClass(EdgeKind kind) {
  constexpr StringRef kClasses[] = {"forward", "gradient", "saved", "control"};
  return kClasses[static_cast<size_t>(kind)];
}

void printText(raw_ostream &os, double x, double y, StringRef style, StringRef text) {
  os << "<text class=\"" << style << "\" x=\"" << svg::number(x) << "\" y=\"" << svg::number(y) << "\">"
     << svg::escaped(text) << "</text>\n";
}

void printRect(raw_ostream &os, const Box &box, double radius, StringRef style) {
  os << "<rect class=\"" << style << "\" x=\"" << svg::number(box.x) << "\" y=\"" << svg::number(box.y) << "\" width=\""
     << svg::number(box.width) << "\" height=\"" << svg::number(box.height) << "\" rx=\"" << svg::number(radius)
     << "\"/>";
}

double radiusOf(NodeRole role, double height) {
  const bool isRound = role == NodeRole::Variable || role == NodeRole::Aux || role == NodeRole::Sum;
  return isRound ? height / 2 : role == NodeRole::Operator ? 4 : 10;
}

/// One graph on the page: the root, or a body below it.
class Panel {
 public:
  /// Drawn from y = `top` downwards.
  Panel(raw_ostream &os, const Drawing &drawing, const BodyNumbers &numbers, size_t position, double top)
      : os(os), graphs(drawing.graphs), position(position), graph(graphs[position].graph),
        inference(drawing.inferences[position]), numbers(numbers), layout(layoutGraph(graph)),
        labels(headLabels(graphs, position)), prefix(position ? "b" + std::to_string(position) : ""), top(top) {
    picture = routeGraph(graph, layout, measure(), {kMargin, top + 26});
  }

  double width() const { return picture.width; }
  double bottom() const { return picture.height; }
  bool has(NodeRole role) const {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (layout.role[NodeId(n)] == role) return true;
    return false;
  }
  size_t numGenerated() const {
    size_t count = 0;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) count += layout.lane[NodeId(n)] != Lane::Forward;
    return count;
  }

  void print() {
    printLanes();
    for (EdgeKind kind : {EdgeKind::Saved, EdgeKind::Control, EdgeKind::Forward, EdgeKind::Gradient})
      for (const RoutedEdge &edge : picture.edges)
        if (edge.kind == kind) printEdge(edge);
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      layout.isPlaced(NodeId(n)) ? printBox(NodeId(n)) : printPill(NodeId(n));
    for (size_t i = 0; i < labels.size(); ++i) printHead(i);
  }

 private:
  std::string operatorText(NodeId n) const { return graph.isVariable(n) ? "variable" : graph.opName(n).str(); }
  std::string nameText(NodeId n) const { return svg::shortened(graph.name(n), kNameLimit); }
  /// The bodies of a node, the role of an input.
  std::string bodyText(NodeId n) const {
    const StringRef role = roleText(graphs, position, n);
    return role.empty() ? svg::shortened(bodiesText(graph, n, numbers), kNameLimit) : role.str();
  }
  std::string pillText(NodeId n) const {
    const StringRef role = roleText(graphs, position, n);
    return role.empty() ? nameText(n) : nameText(n) + (" (" + role + ")").str();
  }

  NodeSizes measure() const {
    NodeSizes sizes{NodeMap<double>(graph, 0), NodeMap<double>(graph, 0), {}, 19};
    for (uint32_t i = 0; i < graph.numNodes(); ++i) {
      const NodeId n(i);
      if (!layout.isPlaced(n)) {
        sizes.width[n] = svg::textWidth(pillText(n), 10.5) + 16;
        continue;
      }
      const double text =
          std::max({svg::textWidth(operatorText(n), 12.5), svg::textWidth(nameText(n), 12),
                    svg::textWidth(entryText(graph, inference, Value{n}), 10.5), svg::textWidth(bodyText(n), 10.5)});
      sizes.width[n] = std::max(84.0, text + 22);
      sizes.height[n] =
          40 + (entryText(graph, inference, Value{n}).empty() ? 0 : kLine) + (bodyText(n).empty() ? 0 : kLine);
    }
    for (const std::string &label : labels)
      sizes.headWidth.push_back(svg::textWidth(svg::shortened(label, kNameLimit + 8), 10.5) + 24);
    return sizes;
  }

  void printLanes() {
    constexpr StringRef kNames[] = {"forward \u2193", "gradient \u2191", "after the gradient"};
    for (size_t lane = 0; lane < kNumLanes; ++lane) {
      if (layout.firstColumn[lane] == layout.firstColumn[lane + 1]) continue;
      const double left = picture.laneLeft[lane] - 10, right = picture.laneRight[lane] + 10;
      printRect(os, {left, top, right - left, picture.height - top + 6}, 8, "lane");
      os << '\n';
      printText(os, left + 12, top + 20, "h2", kNames[lane]);
    }
  }

  // ---- edges

  void printPath(ArrayRef<Point> points) {
    auto at = [&](Point p) { os << svg::number(p.x) << ' ' << svg::number(p.y); };
    os << 'M';
    at(points[0]);
    for (size_t i = 1; i < points.size(); ++i) {
      if (i + 1 == points.size()) {
        os << 'L';
        at(points[i]);
        break;
      }
      // Corners are rounded as far as both legs have room.
      auto toward = [&](Point from, Point to) {
        const double dx = to.x - from.x, dy = to.y - from.y, length = std::abs(dx) + std::abs(dy);
        const double step = std::min(kRadius, length / 2) / std::max(length, 1e-9);
        return Point{from.x + dx * step, from.y + dy * step};
      };
      os << 'L';
      at(toward(points[i], points[i - 1]));
      os << 'Q';
      at(points[i]);
      os << ' ';
      at(toward(points[i], points[i + 1]));
    }
  }

  void printEdge(const RoutedEdge &edge) {
    const StringRef style = edgeClass(edge.kind);
    const NodeId from = edge.from.node;
    os << "<g><path class=\"e " << style << "\" marker-end=\"url(#m" << style[0] << ")\" d=\"";
    printPath(edge.points);
    std::string text = nodeText(from) + " \u2192 " + nodeText(edge.to);
    if (edge.kind == EdgeKind::Control) text += "\nruns before it, gives it no value";
    else text = graph.numOutputs(from) > 1 ? "output " + std::to_string(edge.from.index) + " of " + text : text;
    if (std::string shape = entryText(graph, inference, edge.from); edge.kind != EdgeKind::Control && !shape.empty())
      text += "\n" + shape;
    os << "\"/><title>" << svg::escaped(text) << "</title></g>\n";
    if (edge.kind != EdgeKind::Control && edge.from.index > 0 && edge.points.size() > 1) {
      const Point &start = edge.points[0];
      const bool isUp = edge.points[1].y < start.y;
      printText(os, start.x - 3, start.y + (isUp ? -3 : 9), "t3 end", std::to_string(edge.from.index));
    }
  }

  // ---- nodes

  std::string nodeText(NodeId n) const {
    return graph.name(n).empty() ? "%" + std::to_string(n.value) : graph.name(n).str();
  }

  void printTitle(NodeId n) {
    std::string text = "%" + std::to_string(n.value) + " " + operatorText(n) + " '" + graph.name(n).str() + "'";
    for (const AttrText &pair : graph.attrs(n).pairs()) text += ("\n" + pair.key + " = " + pair.value).str();
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      std::string shape = entryText(graph, inference, Value{n, static_cast<uint16_t>(o)});
      if (!shape.empty()) text += "\n" + (graph.isVariable(n) ? "" : "output " + std::to_string(o) + ": ") + shape;
    }
    if (std::string bodies = bodiesText(graph, n, numbers); !bodies.empty()) text += "\n" + bodies;
    if (graph.isVariable(n))
      if (const BodyRole role = inputRole(graphs, position, n); role.isKnown()) text += "\n" + role.text;
    os << "<title>" << svg::escaped(text) << "</title>";
  }

  void printBox(NodeId n) {
    const Box &box = picture.boxes[n];
    const NodeRole role = layout.role[n];
    os << "<g class=\"node\" id=\"" << prefix << 'n' << n.value << "\">";
    printTitle(n);
    printRect(os, box, radiusOf(role, box.height), roleClass(role));
    os << '\n';
    const double x = box.x + box.width / 2;
    printText(os, x, box.y + 17, "t1 mid", operatorText(n));
    printText(os, x, box.y + 32, "t2 mid", nameText(n));
    double y = box.y + 46;
    for (const std::string &line : {entryText(graph, inference, Value{n}), bodyText(n)}) {
      if (line.empty()) continue;
      printText(os, x, y, "t3 mid", line);
      y += kLine;
    }
    os << "</g>\n";
  }

  void printPill(NodeId n) {
    const Box &box = picture.boxes[n];
    os << "<g class=\"node\" id=\"" << prefix << 'n' << n.value << "\">";
    printTitle(n);
    printRect(os, box, box.height / 2, roleClass(layout.role[n]));
    os << '\n';
    printText(os, box.x + box.width / 2, box.y + 13, "t3 mid", pillText(n));
    os << "</g>\n";
  }

  void printHead(size_t i) {
    const Value head = graph.heads()[i];
    const Box &from = picture.boxes[head.node], &box = picture.heads[i];
    const double y = box.y + box.height / 2, start = std::clamp(y, from.y + 8, from.y + from.height - 8);
    const StringRef style = layout.lane[head.node] == Lane::Forward ? "forward" : "gradient";
    os << "<path class=\"e " << style << "\" d=\"M" << svg::number(from.x + from.width) << ' ' << svg::number(start)
       << 'L' << svg::number(box.x) << ' ' << svg::number(y) << "\"/>\n<g class=\"node\" id=\"" << prefix << 'h' << i
       << "\"><title>head " << i << ": " << svg::escaped(labels[i]);
    if (std::string shape = entryText(graph, inference, head); !shape.empty()) os << '\n' << shape;
    if (const BodyRole role = headRole(graphs, position, i); role.isKnown()) os << '\n' << svg::escaped(role.text);
    os << "</title>";
    printRect(os, box, 3, "head");
    os << '\n';
    printText(os, box.x + box.width / 2, box.y + 13, "ht mid", svg::shortened(labels[i], kNameLimit + 8));
    os << "</g>\n";
  }

  raw_ostream &os;
  const ArrayRef<NestedGraph> graphs;
  const size_t position;
  const Graph &graph;
  const std::optional<Inference> &inference;
  const BodyNumbers &numbers;
  GraphLayout layout;
  std::vector<std::string> labels;
  std::string prefix;  // of the ids of nodes, which are unique in the whole file
  double top;
  GraphPicture picture;
};

class SvgPrinter {
 public:
  SvgPrinter(raw_ostream &os, const Drawing &drawing)
      : os(os), drawing(drawing), numbers(numberBodies(drawing.graphs)) {}

  void print() {
    double width = kLegendWidth + kMargin, top = kHeader;
    for (size_t i = 0; i < drawing.graphs.size(); ++i) {
      tops.push_back(top);
      panels.emplace_back(os, drawing, numbers, i, top);
      width = std::max(width, panels.back().width());
      if (i > 0) width = std::max(width, kMargin + svg::textWidth(panelTitle(i), 17));
      top = panels.back().bottom() + kPanelGap;
    }
    svg::open(os, width + kMargin, panels.back().bottom() + kMargin, title());
    printMarkers();
    printHeader();
    for (size_t i = 0; i < panels.size(); ++i) {
      if (i > 0) printText(os, kMargin, tops[i] - 16, "h1", panelTitle(i));
      panels[i].print();
    }
    svg::close(os);
  }

 private:
  static constexpr double kLegendWidth = 720;

  std::string panelTitle(size_t i) const { return svg::shortened(bodyTitle(drawing.graphs, i), kPathLimit); }

  std::string title() const {
    std::string text = countOf(drawing.graphs[0].graph.numNodes(), "node");
    if (size_t count = panels[0].numGenerated()) text += ", " + std::to_string(count) + " of them for gradients";
    const size_t numBodies = drawing.graphs.size() - 1;
    if (numBodies == 0) return text;
    size_t numInside = 0;
    for (const NestedGraph &body : ArrayRef(drawing.graphs).drop_front()) numInside += body.graph.numNodes();
    return text + ", and " + std::to_string(numInside) + " in " +
           (numBodies == 1 ? "a body" : std::to_string(numBodies) + " bodies");
  }

  void printMarkers() {
    os << "<defs>\n";
    for (auto [id, style] : {std::pair("f", "mf"), {"g", "mg"}, {"s", "ms"}, {"c", "mc"}})
      os << "<marker id=\"m" << id
         << "\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
         << "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"" << style
         << "\" d=\"M0 .8 8 4 0 7.2z\"/></marker>\n";
    os << "</defs>\n";
  }

  void printHeader() {
    printText(os, kMargin, 34, "h1", title());
    double x = kMargin;
    for (NodeRole role : {NodeRole::Variable, NodeRole::Aux, NodeRole::Operator, NodeRole::Backward, NodeRole::Sum,
                          NodeRole::GradientOperator, NodeRole::Update}) {
      if (none_of(panels, [&](const Panel &panel) { return panel.has(role); })) continue;
      printRect(os, {x, 52, 26, 16}, std::min(radiusOf(role, 16), 8.0), roleClass(role));
      printText(os, x + 33, 64, "t3", roleName(role));
      x += 33 + svg::textWidth(roleName(role), 10.5) + 18;
    }
    constexpr StringRef kTexts[] = {"value", "gradient", "forward value a gradient needs", "control dependency"};
    x = kMargin;
    for (EdgeKind kind : {EdgeKind::Forward, EdgeKind::Gradient, EdgeKind::Saved, EdgeKind::Control}) {
      const StringRef style = edgeClass(kind);
      os << "<path class=\"e " << style << "\" marker-end=\"url(#m" << style[0] << ")\" d=\"M" << svg::number(x)
         << " 88h34\"/>\n";
      const StringRef text = kTexts[static_cast<size_t>(kind)];
      printText(os, x + 41, 92, "t3", text);
      x += 41 + svg::textWidth(text, 10.5) + 18;
    }
    os << "<rect class=\"head\" x=\"" << svg::number(x) << "\" y=\"80\" width=\"26\" height=\"16\" rx=\"3\"/>\n";
    printText(os, x + 33, 92, "t3", "head of the graph");
  }

  raw_ostream &os;
  const Drawing &drawing;
  const BodyNumbers numbers;
  std::deque<Panel> panels;
  std::vector<double> tops;
};

}  // namespace

void drawSvg(raw_ostream &os, const Drawing &drawing) { SvgPrinter(os, drawing).print(); }

}  // namespace gradc
