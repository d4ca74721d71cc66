// Copies a graph with changes. Every pass that changes a graph goes through it.
//
//   GraphRewriter rewriter(context, graph);
//   for (uint32_t n = 0; n < graph.numNodes(); ++n) rewriter.copy(NodeId(n));   // or replace it
//   Expected<Rewritten> result = std::move(rewriter).finish();
//
// Whatever a pass does not change is kept: names, origins, control dependencies, bodies, heads, the graph's table.
// Nodes are visited in id order; if every node is copied and nothing is added, ids stay the same. Tested by
// tests/passes/rewriter_test.cc
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/graph_builder.h"
#include "passes/rewrite/free_names.h"

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
  /// Copies a body in place of a node of `around`, into its builder, with `prefix` before the names, which `names`
  /// gives. Map the variables of the body with `replace`; versions that setVersion does not map are those given there.
  /// `finishBody` ends the copy.
  GraphRewriter(GraphRewriter &around, const Graph &body, llvm::StringRef prefix, FreeNames &names);
  /// Copies nodes of a graph, without names, into a builder that has others too; `freeze` the builder in place of
  /// `finish`. Map variables of the graph with `replace`: versions count on from those given there.
  GraphRewriter(GraphBuilder &into, const Graph &graph);
  GraphRewriter(const GraphRewriter &) = delete;

  const Graph &graph() const { return old; }
  GraphBuilder &builder() { return made; }

  /// Copies node n with its name and dependencies, inputs mapped to the new graph; as another kind if one is given.
  NodeId copy(NodeId n) { return copyAs(n, kindId(n)); }
  NodeId copy(NodeId n, const KindRef &kind) { return copyAs(n, made.kindId(kind)); }
  /// Copies node n, but with these inputs, which are values of the new graph.
  NodeId copy(NodeId n, llvm::ArrayRef<Value> inputs) { return copyAs(n, kindId(n), inputs); }
  /// Copies node n with its name for the shapes of its outputs alone: it waits for nothing and has no origin, and
  /// nothing waits for it or has it as origin. As another kind and with other inputs, values of the new graph, if they
  /// are given.
  NodeId copyForShape(NodeId n) { return copyForShapeAs(n, kindId(n), inputsOf(n)); }
  NodeId copyForShape(NodeId n, const KindRef &kind, llvm::ArrayRef<Value> inputs) {
    return copyForShapeAs(n, made.kindId(kind), inputs);
  }
  /// Copies node n with its inputs mapped to the new graph and nothing else, for rules to read from. It is in the
  /// result only if something reads it. With other inputs, values of the new graph, if they are given.
  NodeId draft(NodeId n) { return draft(n, inputsOf(n)); }
  NodeId draft(NodeId n, llvm::ArrayRef<Value> inputs) { return made.addKind(kindId(n), inputs, NodeId()); }
  /// Maps the outputs of n to these. All of `nodes` get n's control dependencies and origin, and whatever waits for n
  /// waits for the last of them. What has n as its origin gets the first of them that overwrites something, else also
  /// the last: a generated node reads the versions from before its origin. Without nodes, it waits for the producer of
  /// the first output, and n's own dependencies are dropped. An output that is a variable some node overwrites is
  /// replaced by a copy, which becomes the last of the nodes.
  void replace(NodeId n, llvm::ArrayRef<Value> outputs, llvm::ArrayRef<NodeId> nodes) {
    replace(n, outputs, nodes, nodes);
  }
  /// The same, but of `nodes` only `waiting` get n's control dependencies.
  void replace(NodeId n, llvm::ArrayRef<Value> outputs, llvm::ArrayRef<NodeId> nodes, llvm::ArrayRef<NodeId> waiting);
  /// By a node of the builder, output by output.
  void replace(NodeId n, NodeId node);
  /// Maps the outputs of n to these, invalid where nothing reads them, and leaves n out of the result: nothing waits
  /// for it or has it as origin any more.
  void detach(NodeId n, llvm::ArrayRef<Value> outputs);

  /// From now on, copied nodes read or write version `to` of a variable where the original has version `from`.
  void setVersion(NodeId variable, uint32_t from, uint32_t to) { versions[{variable.value, from}] = to; }

  /// The counterpart of an old entry or node in the builder. A value keeps its version unless setVersion maps it.
  Value operator()(Value v) const;
  NodeId operator()(NodeId n) const { return newNode[n.value]; }

  /// The graph, with the old heads and table.
  llvm::Expected<Rewritten> finish() &&;
  /// The graph with these old entries as its heads, and an empty table.
  llvm::Expected<Rewritten> finish(llvm::ArrayRef<Value> heads) &&;
  /// For a body: sets the origins of its nodes. The rewriter still maps its heads afterwards.
  void finishBody();

 private:
  KindId kindId(NodeId n) const { return own ? old.kindId(n) : kindOf[old.kindId(n).value]; }
  llvm::SmallVector<Value, 8> inputsOf(NodeId n) const;
  NodeId copyAs(NodeId n, KindId kind) { return copyAs(n, kind, inputsOf(n)); }
  NodeId copyAs(NodeId n, KindId kind, llvm::ArrayRef<Value> inputs);
  NodeId copyForShapeAs(NodeId n, KindId kind, llvm::ArrayRef<Value> inputs);
  void setName(NodeId node, NodeId of);
  NodeId originFor(NodeId n) const;

  Graph old;
  std::optional<GraphBuilder> own;  // nullopt: into another's
  GraphBuilder &made;
  const bool hasNames = true, countsVersions = false;
  const std::string prefix;
  FreeNames *const freeNames = nullptr;              // for a body
  std::vector<KindId> kindOf;                        // into another's builder: by kinds of the graph
  std::vector<NodeId> newNode;                       // by old node
  std::vector<Value> newEntry;                       // by old entry
  std::vector<std::pair<NodeId, NodeId>> generated;  // node of the builder, its origin in the old graph
  DenseMap<uint32_t, NodeId> firstWriter;  // by old node: of several nodes in its place, the first that overwrites
  std::vector<NodeId> mutators;            // by old node, as listMutators; empty: nothing is overwritten
  DenseSet<uint32_t> overwritten;          // variables of the builder
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> versions;  // by variable and version
};

}  // namespace gradc
