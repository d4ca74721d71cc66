// The coordinates of a drawing in pixels: boxes on the grid of a GraphLayout, and edges as polylines between them.
//
// Edges run where no box can be: horizontally in the gaps between rows, vertically in the gutters between columns, or
// straight down a column that is empty there. Each gap and gutter has as many tracks as its edges need side by side;
// edges that carry the same value share one. n log n in the number of edges. Tested by tests/tools/drawing_test.cc
#pragma once

#include "drawing/graph_layout.h"

namespace gradc {

struct Point {
  double x, y;
};
struct Box {
  double x = 0, y = 0, width = 0, height = 0;  // x, y: the upper left corner
};

enum class EdgeKind : uint8_t { Forward, Gradient, Saved, Control };

struct RoutedEdge {
  Value from;  // of a control dependency: output 0 of the node
  NodeId to;
  EdgeKind kind;
  std::vector<Point> points;  // from the source's border to the target's
};

/// The sizes that must be known before anything is placed.
struct NodeSizes {
  NodeMap<double> width, height;  // of boxes, and of the pills of variables beside their readers
  std::vector<double> headWidth;  // of the pill of each head
  double pillHeight = 0;
};

struct GraphPicture {
  double width = 0, height = 0;
  NodeMap<Box> boxes;      // nodes with a place and variables alike
  std::vector<Box> heads;  // parallel to the heads of the graph
  std::vector<RoutedEdge> edges;
  double laneLeft[kNumLanes] = {}, laneRight[kNumLanes] = {};
};

/// Coordinates start at `origin`, to leave room for a title.
GraphPicture routeGraph(const Graph &graph, const GraphLayout &layout, const NodeSizes &sizes, Point origin);

}  // namespace gradc
