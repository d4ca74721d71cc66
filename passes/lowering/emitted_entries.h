// What lowering knows of the entries of the graph it builds: shapes and types, inferred node by node as rules emit
// them, and which entries were replaced by which.
#pragma once

#include "ir/base/dense_map.h"
#include "passes/inference/backward_link.h"
#include "passes/inference/infer.h"

#include "ir/graph/graph_builder.h"

namespace gradc {

class EmittedEntries {
 public:
  /// `known` is of `graph`; both may be null.
  EmittedEntries(const GraphBuilder &builder, const Graph *graph, const Inference *known)
      : builder(builder), graph(graph), known(known), shapes(known ? *known->shapes : ShapeTable()),
        summaries(builder.context()) {}

  /// Adds the next node of the builder, which replaces node `of` of the graph.
  void add(NodeId node, NodeId of);
  /// Adds the nodes before `end`, which rules emitted.
  void addUpTo(uint32_t end);

  ShapeRef shape(Value v);
  DType dtype(Value v);

  /// The forward node of a gradient operator that a rule emitted.
  void setForward(NodeId node, NodeId forward) { forwards[node.value] = forward; }
  NodeId forward(NodeId node) const { return forwards.lookup(node.value); }

  void setRead(Value v) { entry(v).isRead = true; }
  bool isRead(Value v) { return entry(v).isRead; }
  /// Whether an output of the node is read, or it overwrites something.
  bool isNeeded(NodeId node);

  /// Replaces the entry by `by`, or by whatever replaces that.
  void replace(Value v, Value by);
  bool isReplaced(NodeId node) { return entry(Value{node}).isReplaced; }
  /// The entry, or what replaces it; invalid where nothing does.
  Value place(Value v) { return entry(v).isReplaced ? entry(v).by : v; }

 private:
  struct Entry {
    ShapeId shape = kUnknownShape;
    DType dtype = DType::Unknown;
    bool isRead = false, isReplaced = false;
    Value by = {};
  };

  Entry &entry(Value v) { return entries[firstEntry[v.node.value] + v.index]; }
  void inferShapes(NodeId node);
  void inferTypes(NodeId node);

  const GraphBuilder &builder;
  const Graph *graph;
  const Inference *known;
  ShapeTable shapes;  // of `known` and of what rules emit
  RuleSummaries summaries;
  std::vector<uint32_t> firstEntry;  // by node of the builder
  std::vector<Entry> entries;
  DenseMap<uint32_t, NodeId> forwards;  // by emitted node
};

}  // namespace gradc
