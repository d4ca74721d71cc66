// Keep-lists, read off the gradient of a single node. Tested by tests/passes/gradient/gradient_requests_test.cc
#include "passes/gradient/higher_order/keep_lists.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/graph_builder.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/order/requests.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

Expected<SingleNode> singleNode(Context &context, const KindRef &kind) {
  if (kind->numInputs == NodeKind::kAnyInputs)
    return Failure(ErrorKind::UnknownOp, "operator '" + kind->spelling + "' is unknown, so its keep-list is unknown");
  GraphBuilder builder(context);
  SmallVector<Value, 8> heads;
  const NodeId node = builder.addOverVariables(kind);
  for (uint32_t o = 0; o < kind->numVisible; ++o) heads.push_back({node, static_cast<uint16_t>(o), 0});
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  SingleNode single{frozen->graph, frozen->newId[node.value], {}};
  for (uint32_t i = 0; i < kind->numInputs; ++i) single.variables.push_back(frozen->newId[i]);
  return single;
}

/// Which entries of the node and of its variables are read by generated nodes.
class Reads {
 public:
  Reads(const SingleNode &single, InputReads readsInput)
      : single(single), readsInput(readsInput), inputs(static_cast<unsigned>(single.variables.size())),
        outputs(single.graph.numOutputs(single.node)) {}

  /// `numForward`: nodes of the result before the first generated one.
  void add(const GradientResult &result, uint32_t numForward) {
    const Graph &graph = result.graph;
    const RequestTable requests = countRequests(graph, {});
    BitVector isRead(graph.numEntries());
    for (uint32_t id = numForward; id < graph.numNodes(); ++id) {
      const NodeId n(id);
      if (graph.isVariable(n)) continue;
      for (auto [i, value] : enumerate(graph.inputs(n)))
        if (isReadBy(graph, n, i, requests)) isRead.set(graph.entry(value).value);
    }
    auto now = [&](NodeId n) { return result.forwardIds.empty() ? n : result.forwardIds[n.value]; };
    for (auto [i, variable] : enumerate(single.variables))
      if (isRead[graph.firstEntry(now(variable)).value]) inputs.set(i);
    const NodeId node = now(single.node);
    outputs.resize(graph.numOutputs(node));
    for (uint32_t o = 0; o < graph.numOutputs(node); ++o)
      if (isRead[graph.firstEntry(node).value + o]) outputs.set(o);
  }
  bool isReadBy(const Graph &graph, NodeId n, size_t input, const RequestTable &requests) const {
    const NodeKind &kind = graph.kind(n);
    if (!readsInput) return !kind.isIgnored(input);
    const uint32_t first = graph.firstEntry(n).value;
    return readsInput(kind, input, [&](uint32_t o) { return requests.request[EntryId(first + o)] != Request::Null; });
  }
  KeepList list() const {
    KeepList kept;
    llvm::append_range(kept.inputs, inputs.set_bits());
    llvm::append_range(kept.outputs, outputs.set_bits());
    return kept;
  }

 private:
  const SingleNode &single;
  const InputReads readsInput;
  BitVector inputs, outputs;
};

/// Whether a generated node is differentiated through its decomposition, which may read more of the forward node.
bool decomposesLater(const GradientResult &result) {
  return llvm::any_of(result.graph.kinds(), [](const KindRef &kind) {
    return kind->op && kind->op->flags.isBackward && !kind->op->gradient && kind->op->decompose;
  });
}

Expected<KeepList> keepListOf(Context &context, const SingleNode &single, const GradientRequest &request,
                              const GradientOptions &options, bool isRecorded, InputReads readsInput) {
  Expected<GradientResult> result = buildGradient(context, single.graph, request, options);
  if (!result) return result.takeError();
  Reads reads(single, readsInput);
  const uint32_t numForward = result->stats.numForwardNodes;
  reads.add(*result, numForward);
  if (!isRecorded || !decomposesLater(*result)) return reads.list();
  Expected<GradientResult> second = buildGradientOfOrder(context, single.graph, request, options, 2);
  // If there is no such gradient, requesting it reports the error.
  if (second) reads.add(*second, numForward);
  else if (Error error = onlyTooLarge(second.takeError())) return error;
  return reads.list();
}

}  // namespace

static GradientRequest requestOf(const SingleNode &single, const KeepQuery &query) {
  const NodeKind &kind = single.graph.kind(single.node);
  GradientRequest request;
  for (uint32_t o = 0; o < (query.isAnyOrder ? kind.numOutputs : kind.numVisible); ++o)
    request.heads.push_back({{single.node, static_cast<uint16_t>(o), 0}, {}, {}});
  for (uint32_t i : query.wanted) request.wrt.push_back({{single.variables[i], 0, 0}});
  return request;
}

Expected<KindRef> savingKind(Context &context, const SingleNode &single, const KeepQuery &query) {
  const GradientRequest request = requestOf(single, query);
  const KindRef kind = single.graph.kindHandle(single.node);
  if (!kind->flow || request.wrt.empty()) return kind;
  GradientOptions options = query.options;
  options.unused = UnusedPolicy::None;
  Expected<GradientResult> result = buildGradient(context, single.graph, request, options);
  if (!result) return result.takeError();
  const NodeId node = result->forwardIds.empty() ? single.node : result->forwardIds[single.node.value];
  return result->graph.kindHandle(node);
}

Expected<KeepList> keepListOf(Context &context, const SingleNode &single, const KeepQuery &query) {
  const GradientRequest request = requestOf(single, query);
  if (request.wrt.empty()) return KeepList();
  GradientOptions options = query.options;
  options.unused = UnusedPolicy::None;
  return keepListOf(context, single, request, options, query.isRecorded, query.reads);
}

Expected<KeepList> keepListOf(Context &context, const KindRef &kind) {
  Expected<SingleNode> single = singleNode(context, kind);
  if (!single) return single.takeError();
  GradientRequest request;
  request.wrt = allTargets(single->graph, nullptr).targets;
  if (request.wrt.empty()) return KeepList();
  return keepListOf(context, *single, request, GradientOptions(), false, nullptr);
}

}  // namespace gradc
