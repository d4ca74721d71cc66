// Lanes, rows, columns. Tested by tests/tools/drawing_test.cc
#include "drawing/graph_layout.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// A path of nodes that share a column.
struct Chain {
  std::vector<NodeId> nodes;
  uint32_t first, last;  // rows in the direction of flow
};

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const Graph &graph) : graph(graph), mutators(listMutators(graph)) {
    layout.role = NodeMap<NodeRole>(graph, NodeRole::Operator);
    layout.lane = NodeMap<Lane>(graph, Lane::Forward);
    layout.host = layout.anchor = NodeMap<NodeId>(graph, NodeId());
    layout.row = layout.column = NodeMap<uint32_t>(graph, 0);
  }

  GraphLayout build() {
    setHosts();
    for (uint32_t n = 0; n < graph.numNodes(); ++n) classify(NodeId(n));
    setRows();
    for (size_t lane = 0; lane < kNumLanes; ++lane) setColumns(static_cast<Lane>(lane));
    return std::move(layout);
  }

 private:
  template <class Visit> void forSources(NodeId n, Visit visit) const {
    for (Value v : graph.inputs(n)) visit(v.node);
    for (NodeId dep : graph.controlDeps(n)) visit(dep);
  }

  // Variables and constants go beside their first reader, except those that are heads themselves.
  void setHosts() {
    auto isLeaf = [&](NodeId n) {
      return graph.inputs(n).empty() && graph.controlDeps(n).empty() && graph.bodies(n).empty();
    };
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      for (Value v : graph.inputs(NodeId(n)))
        if (isLeaf(v.node) && graph.numOutputs(v.node) == 1 && !layout.host[v.node].isValid())
          layout.host[v.node] = NodeId(n);
    for (Value head : graph.heads()) layout.host[head.node] = NodeId();
  }

  // The forward node that a node was generated for: its origin or, in files without origins, the first control
  // dependency of a fused gradient operator.
  NodeId originOf(NodeId n) const {
    if (graph.origin(n).isValid()) return graph.origin(n);
    const bool isLinked = graph.op(n)->flags.isBackward && !graph.controlDeps(n).empty();
    return isLinked ? graph.controlDeps(n)[0] : NodeId();
  }

  void classify(NodeId n) {
    if (graph.isVariable(n)) {
      // A weight that some optimiser overwrites in the end is still read first as a weight.
      const bool isAux =
          mutators[n.value].isValid() && (!layout.host[n].isValid() || layout.host[n] == mutators[n.value]);
      layout.role[n] = isAux ? NodeRole::Aux : NodeRole::Variable;
      return;
    }
    const OpDef *op = graph.op(n);
    NodeId origin = originOf(n);
    if (origin.isValid()) {
      const bool isHosted = layout.host[origin].isValid();
      layout.anchor[n] = layout.anchor[origin].isValid() ? layout.anchor[origin]
                         : isHosted                      ? layout.host[origin]
                                                         : origin;
      layout.lane[n] = Lane::Gradient;
      layout.role[n] = op->flags.isBackward ? NodeRole::Backward
                       : op->flags.isSum    ? NodeRole::Sum
                                            : NodeRole::GradientOperator;
      return;
    }
    // What the user's file does with gradients: a step of an optimiser, a norm of them.
    for (Value v : graph.inputs(n)) {
      if (layout.lane[v.node] == Lane::Forward) continue;
      layout.lane[n] = Lane::Update;
      layout.role[n] = NodeRole::Update;
      layout.anchor[n] = layout.anchor[v.node];
      return;
    }
  }

  void setRows() {
    std::vector<uint32_t> rank(graph.numNodes(), 0), above(graph.numNodes(), 0), height(1, 1);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (layout.lane[NodeId(n)] != Lane::Forward || !layout.isPlaced(NodeId(n))) continue;
      forSources(NodeId(n), [&](NodeId s) {
        if (layout.isPlaced(s) && layout.lane[s] == Lane::Forward) rank[n] = std::max(rank[n], rank[s.value] + 1);
      });
      height.resize(std::max<size_t>(height.size(), rank[n] + 1), 1);
    }
    // Among the gradient nodes with one anchor, those that none of the others reads are level with it.
    for (uint32_t n = graph.numNodes(); n-- > 0;) {
      if (layout.lane[NodeId(n)] != Lane::Gradient) continue;
      const NodeId anchor = layout.anchor[NodeId(n)];
      forSources(NodeId(n), [&](NodeId s) {
        if (layout.lane[s] == Lane::Gradient && layout.anchor[s] == anchor)
          above[s.value] = std::max(above[s.value], above[n] + 1);
      });
      uint32_t &rows = height[rank[anchor.value]];
      rows = std::max(rows, above[n] + 1);
    }
    std::vector<uint32_t> base;
    for (uint32_t rows : height) {
      base.push_back(layout.numRows);
      layout.numRows += rows;
    }
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      const NodeId anchor = layout.anchor[NodeId(n)];
      layout.row[NodeId(n)] = base[rank[anchor.isValid() ? anchor.value : n]] + above[n];
    }
  }

  // ---- columns

  std::vector<NodeId> placedIn(Lane lane) const {
    std::vector<NodeId> nodes;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (layout.isPlaced(NodeId(n)) && layout.lane[NodeId(n)] == lane) nodes.push_back(NodeId(n));
    return nodes;
  }

  // Rows counted in the direction the lane flows in.
  uint32_t flowRow(NodeId n) const {
    return layout.lane[n] == Lane::Gradient ? layout.numRows - 1 - layout.row[n] : layout.row[n];
  }

  // A node continues the column of the source with the longest path to it; a source is continued by the reader with the
  // longest path onwards. Chains are where both agree.
  std::vector<Chain> findChains(ArrayRef<NodeId> nodes) const {
    NodeMap<uint32_t> toEnd(graph, 0), fromStart(graph, 0);
    NodeMap<NodeId> next(graph, NodeId()), previous(graph, NodeId());
    auto forLaneSources = [&](NodeId n, auto visit) {
      forSources(n, [&](NodeId s) {
        const bool isBefore = layout.isPlaced(s) && layout.lane[s] == layout.lane[n] && flowRow(s) < flowRow(n);
        if (isBefore) visit(s);
      });
    };
    for (NodeId n : llvm::reverse(nodes))
      forLaneSources(n, [&](NodeId s) {
        if (toEnd[n] + 1 < toEnd[s] || (toEnd[n] + 1 == toEnd[s] && next[s].isValid() && next[s] < n)) return;
        toEnd[s] = toEnd[n] + 1;
        next[s] = n;
      });
    for (NodeId n : nodes)
      forLaneSources(n, [&](NodeId s) {
        fromStart[n] = std::max(fromStart[n], fromStart[s] + 1);
        const bool isBetter = !previous[n].isValid() || fromStart[s] > fromStart[previous[n]];
        if (next[s] == n && isBetter) previous[n] = s;
      });
    std::vector<Chain> chains;
    for (NodeId n : nodes) {
      if (previous[n].isValid()) continue;
      Chain chain{{n}, flowRow(n), flowRow(n)};
      for (NodeId m = next[n]; m.isValid() && previous[m] == chain.nodes.back(); m = next[m]) chain.nodes.push_back(m);
      chain.last = flowRow(chain.nodes.back());
      chains.push_back(std::move(chain));
    }
    llvm::stable_sort(chains, [](const Chain &a, const Chain &b) {
      return a.first != b.first ? a.first < b.first : a.last - a.first > b.last - b.first;
    });
    return chains;
  }

  // Beside the forward node, or where the chain branches off.
  uint32_t preferredColumn(NodeId n) const {
    if (layout.anchor[n].isValid()) return layout.column[layout.anchor[n]];
    uint32_t column = 0;
    forSources(n, [&](NodeId s) {
      if (layout.isPlaced(s) && layout.lane[s] == layout.lane[n] && flowRow(s) < flowRow(n)) column = layout.column[s];
    });
    return column;
  }

  void setColumns(Lane lane) {
    const size_t index = static_cast<size_t>(lane);
    std::vector<int64_t> busyUntil;  // by column: the last row taken
    for (const Chain &chain : findChains(placedIn(lane))) {
      const uint32_t wanted = preferredColumn(chain.nodes[0]);
      auto isFree = [&](uint32_t c) { return c >= busyUntil.size() || busyUntil[c] < int64_t{chain.first}; };
      uint32_t distance = 0;
      while (!isFree(wanted + distance) && !(distance <= wanted && isFree(wanted - distance))) ++distance;
      const uint32_t column = isFree(wanted + distance) ? wanted + distance : wanted - distance;
      busyUntil.resize(std::max<size_t>(busyUntil.size(), column + 1), -1);
      busyUntil[column] = chain.last;
      for (NodeId n : chain.nodes) layout.column[n] = column;
    }
    const uint32_t first = layout.firstColumn[index];
    layout.firstColumn[index + 1] = first + static_cast<uint32_t>(busyUntil.size());
    // Columns stay relative until all lanes are done, as later lanes prefer those of the forward lane.
    if (index + 1 < kNumLanes) return;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      layout.column[NodeId(n)] += layout.firstColumn[static_cast<size_t>(layout.lane[NodeId(n)])];
  }

  const Graph &graph;
  std::vector<NodeId> mutators;
  GraphLayout layout;
};

}  // namespace

GraphLayout layoutGraph(const Graph &graph) { return LayoutBuilder(graph).build(); }

StringRef roleName(NodeRole role) {
  switch (role) {
    case NodeRole::Variable: return "variable";
    case NodeRole::Aux: return "auxiliary state";
    case NodeRole::Operator: return "operator";
    case NodeRole::Backward: return "backward operator";
    case NodeRole::Sum: return "sum of gradients";
    case NodeRole::GradientOperator: return "other gradient operator";
    case NodeRole::Update: return "reader of gradients";
  }
  return "";
}

}  // namespace gradc
