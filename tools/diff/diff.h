// Structural comparison of two graphs: operators, edges, and attributes after defaults are filled in.
//
// Both graphs are walked together from their heads, so an inserted node is one difference and does not shift everything
// after it. Two nodes are paired the first time they are met; each node has one partner. Operators are compared after
// resolving aliases, unknown ones also by their number of outputs, attributes of the operator in their canonical
// spelling, all other attributes as text, bodies in the same way. Graph-level attributes and source positions are
// ignored. Linear in nodes + edges; recursive only in bodies.
#pragma once

#include "ir/graph/graph.h"

#include <string>
#include <vector>

namespace gradc {

struct DiffOptions {
  bool ignoreNames = false;
  size_t limit = 10;  // differences reported; the rest is only counted
};

struct Difference {
  NodeId left, right;  // where, in each graph; invalid when the difference has no node there
  std::string text;    // "node 'fc1' (FullyConnected): attribute 'num_hidden' is '10' on the left, '12' on the right"
};

struct DiffResult {
  std::vector<Difference> differences;  // in the order of the walk, at most `limit`
  size_t numDifferences = 0;
};

/// Both graphs belong to one Context.
DiffResult diffGraphs(const Graph &left, const Graph &right, const DiffOptions &options);

}  // namespace gradc
