// Tested by tests/passes/lowering/lower_loops_test.cc
#include "passes/targets/mxnet/mxnet_body.h"

#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

MxnetBody::MxnetBody(Context &context, const Graph &body) : context(context), builder(context, body), names(body, 0) {
  for (uint32_t n = 0; n < body.numNodes(); ++n)
    for (size_t i = 0; i < body.inputs(NodeId(n)).size() && !body.kind(NodeId(n)).mutated.isEmpty(); ++i)
      if (const Value v = body.inputs(NodeId(n))[i]; body.kind(NodeId(n)).isMutated(i)) {
        Write &last = writes[v.node.value];
        if (!last.node.isValid() || v.version >= last.version) last = {NodeId(n), v.version};
      }
}

Value MxnetBody::variable(StringRef name) { return builder.addVariable(names.take(name), Attrs()); }

Value MxnetBody::emit(const OpDef &op, ArrayRef<Value> operands, ArrayRef<AttrText> attrs) {
  const NodeId n = builder.addKind(cantFail(context.kind(op, context.attrs(attrs))), operands, NodeId());
  builder.setName(n, names.take((op.name + "_" + Twine(n.value)).str()), "");
  return Value{n};
}

Value MxnetBody::select(Value condition, Value value, Value other) {
  auto emitHere = [&](const OpDef &op, ArrayRef<Value> operands, ArrayRef<AttrText> attrs) {
    return emit(op, operands, attrs);
  };
  return chosen(emitHere, *context.ops.find("where"), condition, value, other);
}

Value MxnetBody::reading(Value value, NodeId variable) {
  const Value any = emit(kSum, emit(kOnesLike, Value{variable}));
  value = afterWrites(value);
  return select(emit(kReshape, any, {{"shape", "(1,)"}}), value, value);
}

// MXNet reads a dimension of 0 as unknown, or as that of the operand: an empty array is a slice of another.
Value MxnetBody::zeros(DType type, Value like, ArrayRef<int64_t> shape) {
  std::string ones = "(", filled = "(", begin = "(", end = "(";
  for (int64_t dim : shape) {
    ones += "1,", filled += std::to_string(std::max<int64_t>(dim, 1)) + ",";
    begin += "0,", end += std::to_string(dim) + ",";
  }
  for (std::string *list : {&ones, &filled, &begin, &end}) *list += ")";
  Value zero;
  if (type != DType::Unknown) {
    zero = emit(kFull, {}, {{"shape", filled}, {"dtype", dtypeName(type)}, {"value", "0"}});
  } else {
    zero = emit(kReshape, emit(kSum, emit(kZerosLike, like)), {{"shape", ones}});
    zero = emit(*context.ops.find("broadcast_to"), zero, {{"shape", filled}});
  }
  return is_contained(shape, 0) ? emit(kSlice, zero, {{"begin", begin}, {"end", end}}) : zero;
}

Value MxnetBody::inlined(const Graph &graph, ArrayRef<Value> given) {
  GraphInsertion rewriter(builder, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n))) {
      rewriter.replace(NodeId(n), given.front(), {});
      given = given.drop_front();
    } else {
      builder.setName(rewriter.copy(NodeId(n)), names.take(graph.name(NodeId(n))), "");
    }
  return rewriter(graph.heads()[0]);
}

Value MxnetBody::afterWrites(Value value) {
  const Write last = writes.lookup(value.node.value);
  if (!last.node.isValid()) return value;
  value.version = last.version;
  const Value copy = emit(kCopy, value);
  builder.addControlDep(copy.node, last.node);
  return copy;
}

void MxnetBody::yield(Value value) {
  value = afterWrites(value);
  const bool isNew = yielded.insert({value.node.value, value.index}).second;
  heads.push_back(isNew && !builder.kind(value.node).isVariable() ? value : emit(kCopy, value));
}

MxnetBody::Finished MxnetBody::finish() && {
  const Frozen frozen =
      cantFail(std::move(builder).freeze(heads, {}));  // it has no cycles and no invalid output indices
  Finished made{frozen.graph, std::vector<size_t>(frozen.newId.size())};
  const std::vector<NodeId> inputs = bodyInputs(made.graph);
  DenseMap<uint32_t, size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) positions[inputs[i].value] = i;
  for (size_t n = 0; n < frozen.newId.size(); ++n)
    if (frozen.newId[n].isValid()) made.positionOf[n] = positions.lookup(frozen.newId[n].value);
  return made;
}

}  // namespace gradc
