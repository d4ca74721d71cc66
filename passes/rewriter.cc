// Tested by tests/rewriter_test.cc
#include "passes/rewriter.h"

using namespace llvm;

namespace gradc {

GraphRewriter::GraphRewriter(Context &context, const Graph &graph)
    : old(graph), made(context), newNode(graph.numNodes()), newEntry(graph.numEntries()) {
  made.takeKindsOf(graph);
  made.reserve(graph.numNodes(), graph.columns().inputs.size(), graph.columns().names.size());
}

Value GraphRewriter::operator()(Value v) const {
  const Value to = newEntry[old.entry(v).value];
  return Value{to.node, to.index, v.version};
}

NodeId GraphRewriter::draft(NodeId n) {
  SmallVector<Value, 8> inputs;
  for (Value v : old.inputs(n)) inputs.push_back((*this)(v));
  return made.addKind(old.kindId(n), inputs, NodeId());
}

NodeId GraphRewriter::copyAs(NodeId n, KindId kind) {
  SmallVector<Value, 8> inputs;
  for (Value v : old.inputs(n)) inputs.push_back((*this)(v));
  const NodeId node = made.addKind(kind, inputs, NodeId());
  made.setName(node, old.name(n), "");
  SmallVector<Value, 4> outputs;
  for (uint32_t o = 0; o < old.numOutputs(n); ++o) outputs.push_back(Value{node, static_cast<uint16_t>(o), 0});
  replace(n, outputs, node);
  return node;
}

void GraphRewriter::replace(NodeId n, ArrayRef<Value> outputs, ArrayRef<NodeId> nodes) {
  for (size_t o = 0; o < outputs.size(); ++o) newEntry[old.firstEntry(n).value + o] = outputs[o];
  const NodeId origin = old.origin(n);
  for (NodeId node : nodes) {
    for (NodeId dep : old.controlDeps(n))
      if (newNode[dep.value].isValid()) made.addControlDep(node, newNode[dep.value]);
    if (origin.isValid()) generated.push_back({node, origin});
  }
  if (!nodes.empty()) newNode[n.value] = nodes.back();
  else if (!outputs.empty()) newNode[n.value] = outputs[0].node;
}

void GraphRewriter::detach(NodeId n, ArrayRef<Value> outputs) {
  for (size_t o = 0; o < outputs.size(); ++o) newEntry[old.firstEntry(n).value + o] = outputs[o];
}

Expected<Rewritten> GraphRewriter::finish(ArrayRef<Value> oldHeads) && {
  for (auto [node, origin] : generated)
    if (newNode[origin.value].isValid()) made.setOrigin(node, newNode[origin.value]);
  SmallVector<Value, 16> heads;
  for (Value head : oldHeads) heads.push_back((*this)(head));
  Expected<Frozen> frozen = std::move(made).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  Rewritten result;
  for (NodeId n : newNode) result.newId.push_back(n.isValid() ? frozen->newId[n.value] : NodeId());
  for (Value v : newEntry) {
    const bool isKept = v.isValid() && frozen->newId[v.node.value].isValid();
    result.newValue.push_back(isKept ? (*frozen)(v) : Value());
  }
  result.graph = std::move(frozen->graph);
  return result;
}

Expected<Rewritten> GraphRewriter::finish() && {
  const Graph before = old;
  Expected<Rewritten> result = std::move(*this).finish(before.heads());
  if (!result) return result;
  GraphTable table = before.table();
  remap(table, {result->newId, before.columns().entryBegin, result->newValue}, result->graph);
  result->graph = result->graph.withTable(std::move(table));
  return result;
}

}  // namespace gradc
