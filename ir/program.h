// A program: graphs that refer to one another. Nodes of control flow, and fused nodes of other vendors, own sub-graphs.
#pragma once

#include "ir/graph.h"

namespace gradc {

struct Program {
  std::vector<Graph> graphs;  // a node's `subgraphs` are GraphIds into this list; a graph precedes those that refer to it
  GraphId root;

  const Graph &rootGraph() const { return graphs[root.value]; }
};

}  // namespace gradc
