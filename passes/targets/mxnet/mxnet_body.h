// Builds a body with added variables and other heads.
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/body_flow.h"
#include "ir/graph/graph_builder.h"
#include "ops/kit/primitives.h"
#include "ir/graph/free_names.h"

#include <set>

namespace gradc {

/// `value` if `condition`, of shape (1,), is not 0, else `other`, of the same shape; `emit(op, operands, attrs)` makes
/// nodes. A condition with one axis selects rows, so values are reshaped to a single row to be selected as a whole.
template <class Emit> Value chosen(Emit emit, const OpDef &where, Value condition, Value value, Value other) {
  auto asRow = [&](Value v) { return emit(kReshape, {v}, {{"shape", "(1,-1)"}}); };
  return emit(kReshapeLike, {emit(where, {condition, asRow(value), asRow(other)}, {}), value}, {});
}

/// The heads of a graph whose variables are these values, in id order; `emit(graph, node, operands)` makes nodes.
template <class Emit>
llvm::SmallVector<Value, 8> inlinedHeads(Emit emit, const Graph &graph, llvm::ArrayRef<Value> given) {
  std::vector<Value> nodes(graph.numNodes());  // output 0
  auto at = [&](Value v) {
    const Value base = nodes[v.node.value];
    return Value{base.node, static_cast<uint16_t>(base.index + v.index), base.version};
  };
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (graph.isVariable(NodeId(n))) {
      nodes[n] = given.front();
      given = given.drop_front();
      continue;
    }
    llvm::SmallVector<Value, 8> operands;
    for (Value v : graph.inputs(NodeId(n))) operands.push_back(at(v));
    nodes[n] = emit(graph, NodeId(n), operands);
  }
  llvm::SmallVector<Value, 8> heads;
  for (Value head : graph.heads()) heads.push_back(at(head));
  return heads;
}

class MxnetBody {
 public:
  MxnetBody(Context &context, const Graph &body);

  /// A new variable; the name is made unique.
  Value variable(llvm::StringRef name);
  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands, llvm::ArrayRef<AttrText> attrs = {});
  Value select(Value condition, Value value, Value other);
  /// The same value, computed so that it also reads the variable: MXNet's lists name only variables that a body reads.
  Value reading(Value value, NodeId variable);
  /// Zeros of a type; where that is Unknown, of the type of `like`.
  Value zeros(DType type, Value like, llvm::ArrayRef<int64_t> shape);
  /// The head of a graph without control dependencies.
  Value inlined(const Graph &graph, llvm::ArrayRef<Value> given);
  /// Adds a head: a copy if the value is a variable or a head already.
  void yield(Value value);

  struct Finished {
    Graph graph;
    std::vector<size_t> positionOf;  // by variable of the builder: its position among the inputs of the graph
  };
  Finished finish() &&;

 private:
  struct Write {
    NodeId node;
    uint16_t version = 0;
  };
  /// Of a variable that the body overwrites, the last value; other values stay.
  Value afterWrites(Value value);

  Context &context;
  GraphBuilder builder;
  FreeNames names;
  DenseMap<uint32_t, Write> writes;  // by variable: the last
  llvm::SmallVector<Value, 8> heads;
  std::set<std::pair<uint32_t, uint16_t>> yielded;
};

}  // namespace gradc
