// Tested by tests/passes/gradient/higher_order_test.cc
#include "passes/gradient/higher_order/higher_order.h"

#include "ir/base/dense_map.h"
#include "ir/base/out_of_memory.h"
#include "passes/inference/carry.h"

using namespace llvm;

namespace gradc {
namespace {

void renumber(GradientRequest &request, ArrayRef<NodeId> newId) {
  for (std::vector<GradientTarget> *targets : {&request.wrt, &request.retained})
    for (GradientTarget &target : *targets) target.x.node = newId[target.x.node.value];
  for (std::vector<Value> *values : {&request.noGrad, &request.stop, &request.taps})
    for (Value &value : *values) value.node = newId[value.node.value];
}

// What is known of the entries of `graph`, for those of `next`, so that gradients end at integers at every order
// (P-09). Bodies may have more heads now: the graph is inferred again from what is known of its variables.
Expected<Inference> inferredFor(Context &context, const GradientResult &next, const Graph &graph,
                                const Inference &known) {
  std::vector<NodeId> newId = next.forwardIds;
  for (uint32_t n = 0; newId.size() < graph.numNodes(); ++n) newId.push_back(NodeId(n));
  Inference carried = carry(known, graph, next.graph, sourcesOf(newId, next.graph.numNodes()));
  if (llvm::none_of(graph.kinds(), [](const KindRef &kind) { return kind->flow; })) return carried;
  InferOptions options;
  options.allowUnknown = true;
  return infer(context, next.graph, knownVariables(next.graph, carried), options);
}

// Composes `ids`, the current places of nodes, with `newId`; an empty list means that no node moved.
void follow(std::vector<NodeId> &ids, ArrayRef<NodeId> newId, uint32_t numNodes) {
  if (newId.empty()) return;
  if (ids.empty()) ids.assign(newId.begin(), newId.begin() + numNodes);
  else
    for (NodeId &id : ids) id = id.isValid() ? newId[id.value] : id;
}

using AfterFirst = function_ref<Error(GradientResult &)>;

Expected<GradientResult> buildOrders(Context &context, const Graph &graph, const GradientRequest &request,
                                     const GradientOptions &options, uint32_t order, AfterFirst afterFirst) {
  return catchingBadAlloc("to differentiate the graph", [&]() -> Expected<GradientResult> {
    GradientOptions current = options;
    GradientRequest next = request;
    // Lower orders keep the forward heads, or ids would not be a stable prefix.
    current.gradientOnly = options.gradientOnly && order <= 1;
    Expected<GradientResult> result = buildGradient(context, graph, request, current);
    if (!result) return result;
    if (Error error = afterFirst(*result)) return error;
    std::vector<NodeId> forwardIds = result->forwardIds;
    Graph base = graph;
    Inference known;
    for (uint32_t k = 2; result && k <= order; ++k) {
      // Forward ids are a stable prefix, so the x keep theirs; the heads are the gradients of the preceding order.
      if (!result->forwardIds.empty()) renumber(next, result->forwardIds);
      next.heads.clear();
      for (const GradientSlot &slot : result->wrt)
        if (slot.status != SlotStatus::None) next.heads.push_back({slot.value, std::nullopt, ""});
      next.retained.clear();
      if (next.heads.empty()) break;
      current.headPolicy = HeadPolicy::Ones;
      current.lossScale = 1;
      if (current.inference) {
        Expected<Inference> found = inferredFor(context, *result, base, *current.inference);
        if (!found) return found.takeError();
        known = std::move(*found);
        current.inference = &known;
      }
      base = result->graph;
      current.gradientOnly = options.gradientOnly && k == order;
      result = buildGradient(context, base, next, current);
      if (result) follow(forwardIds, result->forwardIds, graph.numNodes());
    }
    if (result) result->forwardIds = std::move(forwardIds);
    return result;
  });
}

// Each gradient is the head at the same position as before.
void moveSlots(std::vector<GradientSlot> &slots, ArrayRef<Value> before, ArrayRef<Value> now) {
  DenseMap<std::tuple<uint32_t, uint16_t, uint16_t>, size_t> positions;
  auto keyOf = [](Value v) { return std::tuple(v.node.value, v.index, v.version); };
  for (size_t i = 0; i < before.size(); ++i) positions.try_emplace(keyOf(before[i]), i);
  for (GradientSlot &slot : slots)
    if (const auto at = positions.find(keyOf(slot.value)); at != positions.end()) slot.value = now[at->second];
}

}  // namespace

Expected<GradientResult> buildGradientOfOrder(Context &context, const Graph &graph, const GradientRequest &request,
                                              const GradientOptions &options, uint32_t order) {
  return buildOrders(context, graph, request, options, order, [](GradientResult &) { return Error::success(); });
}

Expected<GradientResult> buildGradientRetaining(Context &context, const Graph &graph, const GradientRequest &request,
                                                const GradientOptions &options, uint32_t order,
                                                ArrayRef<std::string> paths, MoreOutputs *moreOutputs) {
  return buildOrders(context, graph, request, options, order, [&](GradientResult &first) -> Error {
    if (paths.empty()) return Error::success();
    Expected<Graph> retaining = retainInside(context, first.graph, paths, moreOutputs);
    if (!retaining) return retaining.takeError();
    for (std::vector<GradientSlot> *slots : {&first.wrt, &first.retained})
      moveSlots(*slots, first.graph.heads(), retaining->heads());
    first.graph = *retaining;
    return Error::success();
  });
}

}  // namespace gradc
