// Places the nodes of a drawing on a grid of rows and columns, forward and gradient side by side.
//
// Lanes, from left to right: forward nodes, gradient nodes, updates that follow them. Forward nodes flow down, one row
// per step of the longest path. A gradient node goes in the row of its forward node; of several, the last one is level
// with it and those that feed it are below, so gradients flow up. Within a lane, chains of nodes keep their column and
// a branch takes the nearest column that is free while it lasts, as in a drawing of a version history: near linear,
// straight where the network is, nothing random. Variables and constants have no cell; they go beside their first
// reader. Nothing here depends on pixels. Tested by tests/tools/drawing_test.cc
#pragma once

#include "ir/graph/tables.h"

namespace gradc {

enum class NodeRole : uint8_t { Variable, Aux, Operator, Backward, Sum, GradientOperator, Update };
enum class Lane : uint8_t { Forward, Gradient, Update };
inline constexpr size_t kNumLanes = 3;

struct GraphLayout {
  NodeMap<NodeRole> role;
  NodeMap<Lane> lane;
  NodeMap<NodeId> host;           // of a variable or constant: the node it goes beside; invalid: it has a place
  NodeMap<NodeId> anchor;         // of a gradient node: the forward node whose row it shares; invalid for others
  NodeMap<uint32_t> row, column;  // of nodes with a place; columns count over all lanes
  uint32_t numRows = 0;
  uint32_t firstColumn[kNumLanes + 1] = {};  // of each lane; the last element is the number of columns

  bool isPlaced(NodeId n) const { return !host[n].isValid(); }
  uint32_t numColumns() const { return firstColumn[kNumLanes]; }
};

GraphLayout layoutGraph(const Graph &graph);

/// What a legend calls the role.
llvm::StringRef roleName(NodeRole role);

}  // namespace gradc
