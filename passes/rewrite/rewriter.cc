// Tested by tests/passes/rewriter_test.cc
#include "passes/rewrite/rewriter.h"

using namespace llvm;

namespace gradc {

void GraphCopy::addKinds() {
  for (const KindRef &kind : old.kinds()) kindOf.push_back(made.kindId(kind));
}

SmallVector<Value, 8> GraphCopy::inputsOf(NodeId n) const {
  SmallVector<Value, 8> inputs;
  for (Value v : old.inputs(n)) inputs.push_back((*this)(v));
  return inputs;
}

static SmallVector<Value, 4> outputsOf(NodeId node, uint32_t number) {
  SmallVector<Value, 4> outputs;
  for (uint32_t o = 0; o < number; ++o) outputs.push_back(Value{node, static_cast<uint16_t>(o), 0});
  return outputs;
}

Value GraphCopy::operator()(Value v) const {
  const Value to = newEntry[old.entry(v).value];
  if (!versions.empty())
    if (auto known = versions.find({v.node.value, v.version}); known != versions.end())
      return Value{to.node, to.index, static_cast<uint16_t>(known->second)};
  return Value{to.node, to.index, versionOf(to, v.version)};
}

NodeId GraphCopy::copyAs(NodeId n, KindId kind, ArrayRef<Value> inputs) {
  const NodeId node = made.addKind(kind, inputs, NodeId());
  setName(node, n);
  replace(n, node);
  return node;
}

void GraphCopy::replace(NodeId n, NodeId node) { replace(n, outputsOf(node, old.numOutputs(n)), node); }

NodeId GraphCopy::copyForShapeAs(NodeId n, KindId kind, ArrayRef<Value> inputs) {
  const NodeId node = made.addKind(kind, inputs, NodeId());
  setName(node, n);
  detach(n, outputsOf(node, old.numOutputs(n)));
  return node;
}

// Whatever waits for n waits for the last of the nodes, or without nodes for the producer of the first output, and n's
// own dependencies are dropped. What has n as its origin gets `originFor`. An output that is a variable some node
// overwrites is replaced by a copy, which becomes the last of the nodes.
void GraphCopy::replace(NodeId n, ArrayRef<Value> results, ArrayRef<NodeId> replacements, ArrayRef<NodeId> waiters) {
  SmallVector<Value, 4> outputs(results);
  SmallVector<NodeId, 4> nodes(replacements), waiting(waiters);
  // Readers of n may run after the variable has been overwritten again.
  for (Value &v : outputs)
    if (!old.isVariable(n) && v.isValid() && overwritten.contains(v.node.value)) {
      const NodeId copy = made.addKind(*made.context().ops.wellKnown.copy, v, NodeId());
      setName(copy, n);
      nodes.push_back(copy);
      waiting.push_back(copy);
      v = Value{copy};
    }
  if (old.isVariable(n) && !mutators.empty() && mutators[n.value].isValid()) overwritten.insert(outputs[0].node.value);
  for (size_t o = 0; o < outputs.size(); ++o) newEntry[old.firstEntry(n).value + o] = outputs[o];
  const NodeId origin = old.origin(n);
  for (NodeId node : waiting)
    for (NodeId dep : old.controlDeps(n))
      if (newNode[dep.value].isValid()) made.addControlDep(node, newNode[dep.value]);
  for (NodeId node : nodes)
    if (origin.isValid()) generated.push_back({node, origin});
  if (nodes.size() > 1) {
    const auto *writer = llvm::find_if(nodes, [&](NodeId node) { return !made.kind(node).mutated.isEmpty(); });
    if (writer != nodes.end()) firstWriter[n.value] = *writer;
  }
  if (!nodes.empty()) newNode[n.value] = nodes.back();
  else if (!outputs.empty()) newNode[n.value] = outputs[0].node;
}

void GraphCopy::detach(NodeId n, ArrayRef<Value> outputs) {
  for (size_t o = 0; o < outputs.size(); ++o) newEntry[old.firstEntry(n).value + o] = outputs[o];
}

// Nodes generated for n read what n read (MUT-03), so they belong before its first write.
NodeId GraphCopy::originFor(NodeId n) const {
  const NodeId writer = firstWriter.lookup(n.value);
  return writer.isValid() ? writer : newNode[n.value];
}

void GraphCopy::setOrigins() {
  for (auto [node, origin] : generated)
    if (const NodeId now = originFor(origin); now.isValid()) made.setOrigin(node, now);
}

GraphRewriter::GraphRewriter(Context &context, const Graph &graph) : GraphCopy(own, graph), own(context) {
  made.adoptKinds(graph);
  made.reserve(graph.numNodes(), graph.columns().inputs.size(), graph.columns().names.size());
  if (llvm::any_of(graph.kinds(), [](const KindRef &kind) { return !kind->mutated.isEmpty(); }))
    mutators = listMutators(graph);
}

BodyCopy::BodyCopy(GraphCopy &around, const Graph &body, StringRef prefix, FreeNames &names)
    : GraphCopy(around.builder(), body), prefix(prefix), names(names) {
  addKinds();
}

void BodyCopy::setName(NodeId node, NodeId of) {
  if (const StringRef name = old.name(of); !name.empty()) made.setName(node, names.take(prefix + name.str()), "");
}

Expected<Rewritten> GraphRewriter::finish(ArrayRef<Value> oldHeads) && {
  setOrigins();
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

Expected<Graph> withKinds(Context &context, const Graph &graph, function_ref<Expected<KindRef>(NodeId)> kindOf) {
  // `kindOf` may rewrite bodies, to any depth: what is large is not on the stack.
  const auto rewriter = std::make_unique<GraphRewriter>(context, graph);
  bool isSame = true;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    Expected<KindRef> kind = kindOf(NodeId(n));
    if (!kind) return kind.takeError();
    isSame &= *kind == graph.kindHandle(NodeId(n));
    rewriter->copy(NodeId(n), *kind);
  }
  if (isSame) return graph;
  Expected<Rewritten> made = std::move(*rewriter).finish();
  if (!made) return made.takeError();
  return made->graph;
}

}  // namespace gradc
