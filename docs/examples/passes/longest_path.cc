// One sweep in id order, which is an execution order. Tested by tests/longest_path_test.cc
#include "passes/longest_path.h"

#include "ir/graph/tables.h"

using namespace llvm;

namespace gradc {

LongestPath longestPath(const Graph &graph) {
  LongestPath longest;
  NodeMap<uint32_t> length(graph, 0);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    if (graph.isVariable(id)) continue;
    uint32_t before = 0;
    for (Value input : graph.inputs(id)) before = std::max(before, length[input.node]);
    for (NodeId dep : graph.controlDeps(id)) before = std::max(before, length[dep]);
    length[id] = before + 1;
    if (length[id] > longest.numOperators) longest = {length[id], id};
  }
  return longest;
}

}  // namespace gradc
