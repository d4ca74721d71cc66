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
#include "ir/graph/free_names.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace gradc {

struct Rewritten {
  Graph graph;
  std::vector<NodeId> newId;    // by old node: its copy, or the last node that replaces it; invalid: no head needs one
  std::vector<Value> newValue;  // by old entry; invalid likewise
};

/// Copies the nodes of a graph into a builder, node by node: what every copy shares.
class GraphCopy {
 public:
  GraphCopy(const GraphCopy &) = delete;

  const Graph &graph() const { return old; }
  GraphBuilder &builder() { return made; }

  /// Copies node n with its name and dependencies, inputs mapped to the new graph; as another kind if one is given.
  NodeId copy(NodeId n) { return copyAs(n, kindId(n)); }
  NodeId copy(NodeId n, const KindRef &kind) { return copyAs(n, kindId(n, kind)); }
  /// Copies node n, but with these inputs, which are values of the new graph.
  NodeId copy(NodeId n, llvm::ArrayRef<Value> inputs) { return copyAs(n, kindId(n), inputs); }
  /// Copies node n with its name for the shapes of its outputs alone: the copy has no dependencies and no origin, and
  /// is neither for other nodes. As another kind and with other inputs, values of the new graph, if they are given.
  NodeId copyForShape(NodeId n) { return copyForShapeAs(n, kindId(n), inputsOf(n)); }
  NodeId copyForShape(NodeId n, const KindRef &kind, llvm::ArrayRef<Value> inputs) {
    return copyForShapeAs(n, kindId(n, kind), inputs);
  }
  /// Copies node n with its inputs mapped to the new graph and nothing else, for rules to read from. It is in the
  /// result only if something reads it. With other inputs, values of the new graph, if they are given.
  NodeId draft(NodeId n) { return draft(n, inputsOf(n)); }
  NodeId draft(NodeId n, llvm::ArrayRef<Value> inputs) { return made.addKind(kindId(n), inputs, NodeId()); }
  /// Maps the outputs of n to these, and puts `nodes`, the last of them above all, in the place of n in control
  /// dependencies and origins.
  void replace(NodeId n, llvm::ArrayRef<Value> outputs, llvm::ArrayRef<NodeId> nodes) {
    replace(n, outputs, nodes, nodes);
  }
  /// The same, but of `nodes` only `waiting` get n's control dependencies.
  void replace(NodeId n, llvm::ArrayRef<Value> outputs, llvm::ArrayRef<NodeId> nodes, llvm::ArrayRef<NodeId> waiting);
  /// By a node of the builder, output by output.
  void replace(NodeId n, NodeId node);
  /// Maps the outputs of n to these, invalid where nothing reads them, and leaves n out of the result: nothing waits
  /// for it or has it as its origin.
  void detach(NodeId n, llvm::ArrayRef<Value> outputs);

  /// From now on, copied nodes read or write version `to` of a variable where the original has version `from`.
  void setVersion(NodeId variable, uint32_t from, uint32_t to) { versions[{variable.value, from}] = to; }

  /// The counterpart of an old entry or node in the builder.
  Value operator()(Value v) const;
  NodeId operator()(NodeId n) const { return newNode[n.value]; }

 protected:
  GraphCopy(GraphBuilder &into, const Graph &graph)
      : old(graph), made(into), newNode(graph.numNodes()), newEntry(graph.numEntries()) {}
  ~GraphCopy() = default;

  /// Finds the kinds of the graph in a builder that has others too.
  void addKinds();
  /// Sets the origins of the nodes that take the place of generated ones.
  void setOrigins();
  /// Names `node` like the old one.
  virtual void setName(NodeId node, NodeId of) = 0;
  /// The version of `to` that a reader of `version` of the old entry reads, unless setVersion determines it.
  virtual uint16_t versionOf(Value to, uint16_t version) const = 0;

  Graph old;
  GraphBuilder &made;
  std::vector<NodeId> newNode;   // by old node
  std::vector<Value> newEntry;   // by old entry
  std::vector<NodeId> mutators;  // by old node, as listMutators; empty: nothing is overwritten

 private:
  KindId kindId(NodeId n) const { return kindOf.empty() ? old.kindId(n) : kindOf[old.kindId(n).value]; }
  KindId kindId(NodeId n, const KindRef &kind) { return kind == old.kindHandle(n) ? kindId(n) : made.kindId(kind); }
  llvm::SmallVector<Value, 8> inputsOf(NodeId n) const;
  NodeId copyAs(NodeId n, KindId kind) { return copyAs(n, kind, inputsOf(n)); }
  NodeId copyAs(NodeId n, KindId kind, llvm::ArrayRef<Value> inputs);
  NodeId copyForShapeAs(NodeId n, KindId kind, llvm::ArrayRef<Value> inputs);
  NodeId originFor(NodeId n) const;

  std::vector<KindId> kindOf;                        // by kind of the graph; empty: the builder has the same ids
  std::vector<std::pair<NodeId, NodeId>> generated;  // node of the builder, its origin in the old graph
  DenseMap<uint32_t, NodeId> firstWriter;  // by old node: of several nodes in its place, the first that overwrites
  DenseSet<uint32_t> overwritten;          // variables of the builder
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> versions;  // by variable and version
};

/// Copies a whole graph into a builder made for it. A value keeps its version.
class GraphRewriter final : public GraphCopy {
 public:
  GraphRewriter(Context &context, const Graph &graph);

  /// The graph, with the old heads and table.
  llvm::Expected<Rewritten> finish() &&;
  /// The graph with these old entries as its heads, and an empty table.
  llvm::Expected<Rewritten> finish(llvm::ArrayRef<Value> heads) &&;

 private:
  void setName(NodeId node, NodeId of) override { made.setName(node, old.name(of), ""); }
  uint16_t versionOf(Value to, uint16_t version) const override { return version ? version : to.version; }

  GraphBuilder own;
};

/// Copies a body in place of a node of another graph, whose copy is `around`; names begin with `prefix`, and `names`
/// gives them. Map the variables of the body with `replace`: versions are those given there.
class BodyCopy final : public GraphCopy {
 public:
  BodyCopy(GraphCopy &around, const Graph &body, llvm::StringRef prefix, FreeNames &names);

  /// Call it after the last node. Heads can be mapped afterwards too.
  void finish() { setOrigins(); }

 private:
  void setName(NodeId node, NodeId of) override;
  uint16_t versionOf(Value to, uint16_t) const override { return to.version; }

  const std::string prefix;
  FreeNames &names;
};

/// Adds the nodes of a graph, without names, to a builder that has others too. Map variables of the graph with
/// `replace`: versions count on from those given there.
class GraphInsertion final : public GraphCopy {
 public:
  GraphInsertion(GraphBuilder &into, const Graph &graph) : GraphCopy(into, graph) { addKinds(); }

 private:
  void setName(NodeId, NodeId) override {}
  uint16_t versionOf(Value to, uint16_t version) const override { return static_cast<uint16_t>(to.version + version); }
};

/// The graph with other kinds of nodes, `kindOf` each; the graph itself if all kinds stay. Ids stay.
llvm::Expected<Graph> withKinds(Context &context, const Graph &graph,
                                llvm::function_ref<llvm::Expected<KindRef>(NodeId)> kindOf);

}  // namespace gradc
