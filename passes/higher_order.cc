// Repeated differentiation. Tested by tests/higher_order_test.cc
#include "passes/gradient.h"

using namespace llvm;

namespace gradc {
namespace {

void renumber(GradientRequest &request, ArrayRef<NodeId> newId) {
  for (std::vector<GradientTarget> *targets : {&request.wrt, &request.retained})
    for (GradientTarget &target : *targets) target.x.node = newId[target.x.node.value];
  for (std::vector<Value> *values : {&request.noGrad, &request.stop})
    for (Value &value : *values) value.node = newId[value.node.value];
}

}  // namespace

Expected<GradientResult> buildGradientOfOrder(Context &context, const Graph &graph, const GradientRequest &request,
                                              const GradientOptions &options, uint32_t order) {
  GradientOptions current = options;
  GradientRequest next = request;
  // Lower orders keep the forward heads, or ids would not be a stable prefix.
  current.gradientOnly = options.gradientOnly && order <= 1;
  Expected<GradientResult> result = buildGradient(context, graph, request, current);
  for (uint32_t k = 2; result && k <= order; ++k) {
    // Forward ids are a stable prefix, so the x keep theirs; the heads are the gradients of the order before.
    if (!result->forwardIds.empty()) renumber(next, result->forwardIds);
    next.heads.clear();
    for (const GradientSlot &slot : result->wrt)
      if (slot.status != SlotStatus::None) next.heads.push_back({slot.value, std::nullopt, ""});
    next.retained.clear();
    if (next.heads.empty()) break;
    current.order = options.order + k - 1;
    current.headPolicy = HeadPolicy::Ones;
    current.inference = nullptr;
    current.gradientOnly = options.gradientOnly && k == order;
    if (current.unused == UnusedPolicy::Error) current.unused = UnusedPolicy::Zeros;
    Graph base = result->graph;
    result = buildGradient(context, base, next, current);
  }
  return result;
}

}  // namespace gradc
