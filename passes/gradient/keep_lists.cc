// Keep-lists, read off the gradient of a single node. Tested by tests/gradient_requests_test.cc
#include "passes/gradient/keep_lists.h"

#include "ir/error.h"
#include "ir/graph_builder.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// A node of the kind, and its inputs, each a variable of its own.
struct SingleNode {
  Graph graph;
  NodeId node;
  std::vector<NodeId> variables;  // by position
};

Expected<SingleNode> singleNode(Context &context, const KindRef &kind) {
  if (kind->numInputs == NodeKind::kAnyInputs)
    return Failure(ErrorKind::UnknownOp,
                   "operator '" + kind->spelling + "' is unknown, and so is what its gradient keeps");
  GraphBuilder builder(context);
  SmallVector<Value, 8> inputs, heads;
  for (uint32_t i = 0; i < kind->numInputs; ++i) inputs.push_back(builder.addVariable("", Attrs()));
  const NodeId node = builder.addKind(kind, inputs, NodeId());
  for (uint32_t o = 0; o < kind->numVisible; ++o) heads.push_back({node, static_cast<uint16_t>(o), 0});
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  SingleNode single{frozen->graph, frozen->newId[node.value], {}};
  for (Value input : inputs) single.variables.push_back(frozen->newId[input.node.value]);
  return single;
}

}  // namespace

Expected<KeepList> keepListOf(Context &context, const KindRef &kind) {
  Expected<SingleNode> single = singleNode(context, kind);
  if (!single) return single.takeError();
  GradientRequest request;
  request.wrt = allTargets(single->graph, nullptr).targets;
  if (request.wrt.empty()) return KeepList();
  Expected<GradientResult> result = buildGradient(context, single->graph, request, GradientOptions());
  if (!result) return result.takeError();
  const Graph &graph = result->graph;
  BitVector isRead(graph.numEntries());
  for (uint32_t n = result->stats.numForwardNodes; n < graph.numNodes(); ++n)
    for (auto [i, value] : enumerate(graph.inputs(NodeId(n))))
      if (!graph.kind(NodeId(n)).isIgnored(i)) isRead.set(graph.entry(value).value);
  auto now = [&](NodeId n) { return result->forwardIds.empty() ? n : result->forwardIds[n.value]; };
  KeepList kept;
  for (auto [i, variable] : enumerate(single->variables))
    if (isRead[graph.firstEntry(now(variable)).value]) kept.inputs.push_back(static_cast<uint32_t>(i));
  const NodeId node = now(single->node);
  for (uint32_t o = 0; o < graph.numOutputs(node); ++o)
    if (isRead[graph.firstEntry(node).value + o]) kept.outputs.push_back(o);
  return kept;
}

}  // namespace gradc
