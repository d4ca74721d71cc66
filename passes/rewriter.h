// Copies a graph with changes. Every pass that changes a graph goes through it.
//
//   GraphRewriter rewriter(context, graph);
//   for (uint32_t n = 0; n < graph.numNodes(); ++n) rewriter.copy(NodeId(n));   // or replace it
//   Expected<Rewritten> result = std::move(rewriter).finish();
//
// What a pass does not change is kept: names, origins, control dependencies, bodies, heads, the graph's table. Nodes
// are visited in id order; a graph of which every node is copied and nothing else is added keeps its ids. Tested by
// tests/rewriter_test.cc
#pragma once

#include "ir/dense_map.h"
#include "ir/graph_builder.h"

#include <optional>
#include <string>

namespace gradc {

struct Rewritten {
  Graph graph;
  std::vector<NodeId> newId;    // by old node: its copy, or the last node that replaces it; invalid: no head needs one
  std::vector<Value> newValue;  // by old entry; invalid likewise
};

class GraphRewriter {
 public:
  GraphRewriter(Context &context, const Graph &graph);
  /// Of a body whose nodes take the place of a node that `around` copies: they go to its builder, their names behind the
  /// prefix. `replace` says what the variables of the body are there; `finishBody` ends it.
  GraphRewriter(GraphRewriter &around, const Graph &body, llvm::StringRef prefix);
  GraphRewriter(const GraphRewriter &) = delete;

  const Graph &graph() const { return old; }
  GraphBuilder &builder() { return made; }

  /// Node n with its inputs mapped to the new graph, its name and dependencies; as another kind where one is given.
  NodeId copy(NodeId n) { return copyAs(n, kindId(n)); }
  NodeId copy(NodeId n, const KindRef &kind) { return copyAs(n, made.kindId(kind)); }
  /// Node n with its inputs mapped to the new graph and nothing else, for rules to read from. Unless something reads
  /// it, it is not in the result.
  NodeId draft(NodeId n);
  /// From now on the outputs of n are these. What waited for n waits for the last of `nodes`, which all wait for what n
  /// waited for and have its origin; without nodes, for the one that yields the first output, and what n itself waited
  /// for is dropped. Where an output is a variable that some node overwrites, a copy of it takes the place of n.
  void replace(NodeId n, llvm::ArrayRef<Value> outputs, llvm::ArrayRef<NodeId> nodes);
  /// From now on the outputs of n are these, invalid where nothing reads them. Node n is not in the result: nothing waits for
  /// it any more, and nothing has it as origin.
  void detach(NodeId n, llvm::ArrayRef<Value> outputs);

  /// From now on what reads version `from` of a variable, or writes it, does so with version `to`.
  void setVersion(NodeId variable, uint32_t from, uint32_t to) { versions[{variable.value, from}] = to; }

  /// Where an entry or a node of the old graph is in the builder. A value read at a version keeps it, or has the one that
  /// setVersion said.
  Value operator()(Value v) const;
  NodeId operator()(NodeId n) const { return newNode[n.value]; }

  /// The graph, with the old heads and table.
  llvm::Expected<Rewritten> finish() &&;
  /// The graph of these old entries alone, with an empty table.
  llvm::Expected<Rewritten> finish(llvm::ArrayRef<Value> heads) &&;
  /// Of a body: gives its nodes their origins. Where its heads are, the rewriter knows.
  void finishBody();

 private:
  KindId kindId(NodeId n) const { return own ? old.kindId(n) : kindOf[old.kindId(n).value]; }
  NodeId copyAs(NodeId n, KindId kind);
  void setName(NodeId node, NodeId of);

  Graph old;
  std::optional<GraphBuilder> own;  // none: of a body
  GraphBuilder &made;
  const std::string prefix;
  std::vector<KindId> kindOf;                        // of a body: by its kinds, in the builder
  std::vector<NodeId> newNode;                       // by old node
  std::vector<Value> newEntry;                       // by old entry
  std::vector<std::pair<NodeId, NodeId>> generated;  // node of the builder, old node that its origin is
  std::vector<NodeId> mutators;                      // by old node, as listMutators; empty: nothing is overwritten
  DenseSet<uint32_t> overwritten;                    // variables of the builder
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> versions;  // by variable and version
};

}  // namespace gradc
