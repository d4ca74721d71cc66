// Copies a graph with changes: the way of every pass that does.
//
//   GraphRewriter rewriter(context, graph);
//   for (uint32_t n = 0; n < graph.numNodes(); ++n) rewriter.copy(NodeId(n));   // or replace it
//   Expected<Rewritten> result = std::move(rewriter).finish();
//
// What a pass does not change is kept: names, origins, control dependencies, bodies, heads, the graph's table. Nodes are visited in id order; a graph of which every node is copied and nothing else is added
// keeps its ids. Tested by tests/rewriter_test.cc
#pragma once

#include "ir/graph_builder.h"

namespace gradc {

struct Rewritten {
  Graph graph;
  std::vector<NodeId> newId;    // by old node: its copy, or the last node that replaces it; invalid: no head needs one
  std::vector<Value> newValue;  // by old entry; invalid likewise
};

class GraphRewriter {
 public:
  GraphRewriter(Context &context, const Graph &graph);

  const Graph &graph() const { return old; }
  GraphBuilder &builder() { return made; }

  /// Node n with its inputs where they went, under its name and dependencies; as another kind where one is given.
  NodeId copy(NodeId n) { return copyAs(n, old.kindId(n)); }
  NodeId copy(NodeId n, const KindRef &kind) { return copyAs(n, made.kindId(kind)); }
  /// Node n with its inputs where they went and nothing else, for rules to read from. Unless something reads it, it is not
  /// in the result.
  NodeId draft(NodeId n);
  /// From now on the outputs of n are these. What waited for n waits for the last of `nodes`, which all wait for what n
  /// waited for and have its origin; without nodes, for the one that yields the first output.
  void replace(NodeId n, llvm::ArrayRef<Value> outputs, llvm::ArrayRef<NodeId> nodes);
  /// From now on the outputs of n are these, invalid where nobody reads them. Node n is not in the result: nothing waits for
  /// it any more, and nothing has it as origin.
  void detach(NodeId n, llvm::ArrayRef<Value> outputs);

  /// Where an entry or a node of the old graph is in the builder. A value read at a version keeps it.
  Value operator()(Value v) const;
  NodeId operator()(NodeId n) const { return newNode[n.value]; }

  /// The graph, with the old heads and table.
  llvm::Expected<Rewritten> finish() &&;
  /// The graph of these old entries alone, with an empty table.
  llvm::Expected<Rewritten> finish(llvm::ArrayRef<Value> heads) &&;

 private:
  NodeId copyAs(NodeId n, KindId kind);

  Graph old;
  GraphBuilder made;
  std::vector<NodeId> newNode;                       // by old node
  std::vector<Value> newEntry;                       // by old entry
  std::vector<std::pair<NodeId, NodeId>> generated;  // node of the builder, old node that its origin is
};

}  // namespace gradc
