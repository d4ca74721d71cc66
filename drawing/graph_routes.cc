// Ports, channels, coordinates, polylines. Tested by tests/tools/drawing_test.cc
#include "drawing/graph_routes.h"

#include "drawing/channels.h"

#include "llvm/ADT/SmallVector.h"

#include <map>

using namespace llvm;

namespace gradc {
namespace {

constexpr double kTrack = 6;                      // from one track to the next
constexpr double kGutter = 22, kLaneGutter = 56;  // of a gutter without tracks; between lanes
constexpr double kGapAbove = 9, kGapBelow = 15;   // of a gap, before and after its tracks
constexpr double kInPort = 12, kOutPort = 20;     // from one port of a box to the next
constexpr double kPillGap = 4, kPillArm = 16, kStub = 5;
constexpr uint32_t kControl = 0x10000;  // the output number of a control dependency

/// How a net of one source gets to one reader.
struct Route {
  uint32_t net;
  uint32_t fromGap, toGap;
  bool isInColumn;  // vertical above or below the reader, else in `gutter`
  uint32_t gutter;
  double port;  // of the reader, from its middle
};

struct Net {
  NodeId source;
  uint32_t output;
  double port = 0;  // from the middle of the source; of a pill: from its left end
};

class Router {
 public:
  Router(const Graph &graph, const GraphLayout &layout, const NodeSizes &sizes)
      : graph(graph), layout(layout), sizes(sizes), nets(), gutters(layout.numColumns() + 1), gaps(layout.numRows + 1),
        pillsOf(graph, {}), headsOf(graph, {}), numNets(graph, 0) {
    picture.boxes = NodeMap<Box>(graph, Box());
    picture.heads.resize(graph.heads().size());
  }

  GraphPicture run(Point origin) {
    listCells();
    for (uint32_t n = 0; n < graph.numNodes(); ++n) addReader(NodeId(n));
    setOutPorts();
    for (const Route &route : routes)
      if (!route.isInColumn) gutters.add(route.gutter, route.net, route.fromGap, route.toGap);
    gutters.assign(0);
    placeColumns(origin.x);
    for (size_t i = 0; i < routes.size(); ++i) addGapSpans(i);
    gaps.assign(4);
    placeRows(origin.y);
    for (size_t i = 0; i < routes.size(); ++i) draw(i);
    drawPills();
    return std::move(picture);
  }

 private:
  NodeId place(NodeId n) const { return layout.isPlaced(n) ? n : layout.host[n]; }
  bool flowsUp(NodeId n) const { return layout.lane[n] == Lane::Gradient; }
  // A pill's value leaves downwards, whatever its host does.
  uint32_t outGap(NodeId n) const { return layout.row[place(n)] + (layout.isPlaced(n) && flowsUp(n) ? 0 : 1); }
  uint32_t inGap(NodeId n) const { return layout.row[n] + (flowsUp(n) ? 1 : 0); }

  void listCells() {
    cells.resize(layout.numColumns());
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (layout.isPlaced(NodeId(n))) cells[layout.column[NodeId(n)]].push_back(layout.row[NodeId(n)]);
      else pillsOf[layout.host[NodeId(n)]].push_back(NodeId(n));
    }
    for (std::vector<uint32_t> &rows : cells) llvm::sort(rows);
    for (uint32_t i = 0; i < graph.heads().size(); ++i) headsOf[graph.heads()[i].node].push_back(i);
  }

  EdgeKind kindOf(NodeId from, NodeId to) const {
    if (layout.lane[from] != Lane::Forward) return EdgeKind::Gradient;
    return layout.lane[to] == Lane::Forward ? EdgeKind::Forward : EdgeKind::Saved;
  }

  uint32_t netOf(NodeId source, uint32_t output) {
    auto [at, isNew] = netNumbers.insert({{source.value, output}, static_cast<uint32_t>(nets.size())});
    if (isNew) nets.push_back({source, output});
    return at->second;
  }

  // Adds the routes to node n; its ports are in the order of the sources from left to right.
  void addReader(NodeId n) {
    SmallVector<uint32_t, 8> incoming;
    auto add = [&](NodeId source, uint32_t output, EdgeKind kind) {
      if (layout.host[source] == n) return;  // a pill beside it
      const uint32_t net = netOf(source, output);
      if (llvm::is_contained(incoming, net)) return;
      incoming.push_back(net);
      const uint16_t index = output == kControl ? uint16_t{0} : static_cast<uint16_t>(output);
      picture.edges.push_back({Value{source, index}, n, kind, {}});
      routes.push_back(routeFor(net, n));
    };
    for (Value v : graph.inputs(n)) add(v.node, v.index, kindOf(v.node, n));
    for (NodeId dep : graph.controlDeps(n)) add(dep, kControl, EdgeKind::Control);
    setInPorts(n, routes.size() - incoming.size());
  }

  void setInPorts(NodeId n, size_t first) {
    SmallVector<size_t, 8> order;
    for (size_t i = first; i < routes.size(); ++i) order.push_back(i);
    auto column = [&](size_t i) { return layout.column[place(nets[routes[i].net].source)]; };
    auto distance = [&](size_t i) {
      return std::max(routes[i].fromGap, inGap(n)) - std::min(routes[i].fromGap, inGap(n));
    };
    // The nearest of several in one column comes straight, the others from the gutter on the right.
    llvm::stable_sort(order, [&](size_t a, size_t b) {
      return std::pair(column(a), distance(a)) < std::pair(column(b), distance(b));
    });
    // The source in the same column gets the middle, so that chains are straight; without one the middle stays free.
    size_t middle = order.size();
    for (size_t i = order.size(); i-- > 0;)
      if (column(order[i]) == layout.column[n] && layout.isPlaced(nets[routes[order[i]].net].source)) middle = i;
    const double center =
        middle < order.size() ? static_cast<double>(middle) : static_cast<double>(order.size() / 2) - 0.5;
    const double room = sizes.width[n] / 2 - 8;
    const double pitch = std::min(kInPort, room / std::max<double>(1, static_cast<double>(order.size())));
    for (size_t i = 0; i < order.size(); ++i) routes[order[i]].port = (static_cast<double>(i) - center) * pitch;
  }

  bool isColumnEmpty(uint32_t column, uint32_t firstRow, uint32_t lastRow) const {
    auto at = llvm::lower_bound(cells[column], firstRow);
    return at == cells[column].end() || *at > lastRow;
  }

  Route routeFor(uint32_t net, NodeId to) const {
    Route route{net, outGap(nets[net].source), inGap(to), true, 0, 0};
    if (route.fromGap == route.toGap) return route;
    const auto [low, high] = std::minmax(route.fromGap, route.toGap);
    const uint32_t column = layout.column[to];
    route.isInColumn = isColumnEmpty(column, low, high - 1);
    route.gutter = column + (layout.column[place(nets[net].source)] >= column ? 1 : 0);
    return route;
  }

  void setOutPorts() {
    for (Net &net : nets) {
      const double k = numNets[net.source]++;
      const bool isOdd = numNets[net.source] % 2 == 0;
      if (layout.isPlaced(net.source)) net.port = (isOdd ? 1 : -1) * kOutPort * std::ceil(k / 2);
      else net.port = -kStub;
    }
  }

  // Stubs of a host's pills side by side, left of the pills.
  double stubsOf(NodeId host) const {
    double width = 0;
    for (NodeId pill : pillsOf[host])
      if (numNets[pill]) width += kStub;
    return width;
  }

  double widest(ArrayRef<NodeId> pills) const {
    double width = 0;
    for (NodeId pill : pills) width = std::max(width, sizes.width[pill]);
    return width;
  }

  void placeColumns(double x) {
    const uint32_t numColumns = layout.numColumns();
    std::vector<double> left(numColumns), box(numColumns), right(numColumns);
    for (uint32_t i = 0; i < graph.numNodes(); ++i) {
      const NodeId n(i);
      if (!layout.isPlaced(n)) continue;
      const uint32_t c = layout.column[n];
      box[c] = std::max(box[c], sizes.width[n]);
      if (!pillsOf[n].empty()) left[c] = std::max(left[c], widest(pillsOf[n]) + kPillArm + stubsOf(n));
      for (uint32_t head : headsOf[n]) right[c] = std::max(right[c], sizes.headWidth[head] + kPillArm);
    }
    gutterX.resize(numColumns + 1);
    boxX.resize(numColumns);
    for (uint32_t c = 0; c <= numColumns; ++c) {
      const bool isLaneStart = c > 0 && (c == layout.firstColumn[1] || c == layout.firstColumn[2]) && c < numColumns;
      const double space = (isLaneStart ? kLaneGutter : kGutter);
      gutterX[c] = x + space / 2;
      x += space + kTrack * gutters.count(c);
      if (c == numColumns) break;
      boxX[c] = x + left[c];
      for (size_t lane = 0; lane < kNumLanes; ++lane) {
        if (c < layout.firstColumn[lane] || c >= layout.firstColumn[lane + 1]) continue;
        if (c == layout.firstColumn[lane]) picture.laneLeft[lane] = x;
        picture.laneRight[lane] = boxX[c] + box[c] + right[c];
      }
      x = boxX[c] + box[c] + right[c];
      boxWidth.push_back(box[c]);
    }
    picture.width = x;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (layout.isPlaced(NodeId(n))) placeAcross(NodeId(n));
  }

  void placeAcross(NodeId n) {
    const uint32_t c = layout.column[n];
    picture.boxes[n] = {boxX[c], 0, boxWidth[c], sizes.height[n]};
    double stub = 0;
    for (NodeId pill : pillsOf[n]) {
      const double x = boxX[c] - kPillArm - sizes.width[pill];
      picture.boxes[pill] = {x, 0, sizes.width[pill], sizes.pillHeight};
      if (!numNets[pill]) continue;
      stub += kStub;
      stubX[pill.value] = boxX[c] - kPillArm - widest(pillsOf[n]) - stub;
    }
    for (uint32_t head : headsOf[n])
      picture.heads[head] = {boxX[c] + boxWidth[c] + kPillArm, 0, sizes.headWidth[head], sizes.pillHeight};
  }

  double sourceX(const Net &net) const {
    const Box &box = picture.boxes[net.source];
    return layout.isPlaced(net.source) ? box.x + box.width / 2 + net.port : stubX.at(net.source.value);
  }
  double targetX(size_t i) const {
    const Box &box = picture.boxes[picture.edges[i].to];
    return box.x + box.width / 2 + routes[i].port;
  }
  double verticalX(size_t i) const {
    const Route &route = routes[i];
    if (route.isInColumn) return targetX(i);
    return gutterX[route.gutter] + kTrack * gutters.track(route.gutter, route.net);
  }

  void addGapSpans(size_t i) {
    const Route &route = routes[i];
    const double from = sourceX(nets[route.net]), middle = verticalX(i), to = targetX(i);
    if (from != middle) gaps.add(route.fromGap, route.net, from, middle);
    if (middle != to) gaps.add(route.toGap, route.net, middle, to);
  }

  void placeRows(double y) {
    std::vector<double> heights(layout.numRows);
    auto stack = [&](size_t count) { return static_cast<double>(count) * (sizes.pillHeight + kPillGap) - kPillGap; };
    for (uint32_t i = 0; i < graph.numNodes(); ++i) {
      const NodeId n(i);
      if (!layout.isPlaced(n)) continue;
      double &height = heights[layout.row[n]];
      height = std::max({height, sizes.height[n], stack(pillsOf[n].size()), stack(headsOf[n].size())});
    }
    std::vector<double> middles(layout.numRows);
    for (uint32_t r = 0; r <= layout.numRows; ++r) {
      gapY.push_back(y + kGapAbove);
      y += kGapAbove + kGapBelow + kTrack * gaps.count(r);
      if (r == layout.numRows) break;
      middles[r] = y + heights[r] / 2;
      y += heights[r];
    }
    picture.height = y;
    for (uint32_t i = 0; i < graph.numNodes(); ++i) {
      const NodeId n(i);
      if (!layout.isPlaced(n)) continue;
      const double middle = middles[layout.row[n]];
      picture.boxes[n].y = middle - sizes.height[n] / 2;
      double at = middle - stack(pillsOf[n].size()) / 2;
      for (NodeId pill : pillsOf[n]) {
        picture.boxes[pill].y = at;
        at += sizes.pillHeight + kPillGap;
      }
      at = middle - stack(headsOf[n].size()) / 2;
      for (uint32_t head : headsOf[n]) {
        picture.heads[head].y = at;
        at += sizes.pillHeight + kPillGap;
      }
    }
  }

  double trackY(uint32_t gap, uint32_t net) const { return gapY[gap] + kTrack * gaps.track(gap, net); }

  void draw(size_t i) {
    const Route &route = routes[i];
    const Net &net = nets[route.net];
    RoutedEdge &edge = picture.edges[i];
    const Box &from = picture.boxes[net.source], &to = picture.boxes[edge.to];
    const double startX = sourceX(net), x = verticalX(i), endX = targetX(i);
    auto add = [&](double px, double py) {
      if (edge.points.empty() || edge.points.back().x != px || edge.points.back().y != py)
        edge.points.push_back({px, py});
    };
    if (!layout.isPlaced(net.source)) {
      add(from.x, from.y + from.height / 2);
      add(startX, from.y + from.height / 2);
    } else {
      add(startX, flowsUp(net.source) ? from.y : from.y + from.height);
    }
    if (startX != x) {
      add(startX, trackY(route.fromGap, route.net));
      add(x, trackY(route.fromGap, route.net));
    }
    if (x != endX) {
      add(x, trackY(route.toGap, route.net));
      add(endX, trackY(route.toGap, route.net));
    }
    add(endX, flowsUp(edge.to) ? to.y + to.height : to.y);
  }

  // A straight line from each variable to the box beside it, from middle to middle as far as the box reaches.
  void drawPills() {
    for (uint32_t i = 0; i < graph.numNodes(); ++i) {
      const Box &to = picture.boxes[NodeId(i)];
      for (NodeId pill : pillsOf[NodeId(i)]) {
        const Box &from = picture.boxes[pill];
        const double y = from.y + from.height / 2, end = std::clamp(y, to.y + 8, to.y + to.height - 8);
        picture.edges.push_back(
            {Value{pill}, NodeId(i), kindOf(pill, NodeId(i)), {{from.x + from.width, y}, {to.x, end}}});
      }
    }
  }

  const Graph &graph;
  const GraphLayout &layout;
  const NodeSizes &sizes;
  GraphPicture picture;
  std::vector<Net> nets;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> netNumbers;  // by source and output
  std::vector<Route> routes;                                     // parallel to the picture's edges
  Channels gutters, gaps;
  NodeMap<SmallVector<NodeId, 4>> pillsOf;
  NodeMap<SmallVector<uint32_t, 2>> headsOf;
  NodeMap<uint32_t> numNets;
  std::vector<std::vector<uint32_t>> cells;  // rows taken, by column
  std::vector<double> gutterX, boxX, boxWidth, gapY;
  std::map<uint32_t, double> stubX;  // by variable
};

}  // namespace

GraphPicture routeGraph(const Graph &graph, const GraphLayout &layout, const NodeSizes &sizes, Point origin) {
  return Router(graph, layout, sizes).run(origin);
}

}  // namespace gradc
