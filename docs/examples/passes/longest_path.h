// The longest chain of operators, each of which waits for the one before: no number of threads makes it shorter.
#pragma once

#include "ir/graph/graph.h"

namespace gradc {

struct LongestPath {
  uint32_t numOperators = 0;  // along the path; variables are not counted
  NodeId last;                // where it ends: the earliest such node; invalid in a graph without operators
};

/// Data edges and control dependencies both count. Linear.
LongestPath longestPath(const Graph &graph);

}  // namespace gradc
