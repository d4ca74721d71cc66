// Tested by tests/passes/plan_memory_test.cc
#include "passes/memory/plan_memory.h"

#include "passes/memory/check_plan.h"
#include "passes/memory/flow_plans.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Expected<MemoryPlan> planMemory(Context &, const Graph &graph, const Inference &inference, const RequestTable &requests,
                                const PlanOptions &options) {
  return FlowPlanner(options.allowInplace).plan(graph, inference, requests, options);
}

Graph annotatePlan(const Graph &graph, const Inference &inference, const MemoryPlan &plan) {
  PlanNotes notes{{}, plan.plannedBytes, plan.boundBytes};
  for (uint32_t i = 0; i < graph.numEntries(); ++i) {
    EntryId e(i);
    const int64_t bytes = std::max<int64_t>(inference.elements(e), 0) * dtypeBytes(inference.dtype[e]);
    notes.places.push_back({plan.offset[e], bytes});
  }
  GraphTable table = graph.table();
  table.plan = std::move(notes);
  return graph.withTable(std::move(table));
}

const FlowPlan *findFlowPlan(const std::vector<FlowPlan> &plans, NodeId n) {
  auto at = llvm::lower_bound(plans, n, [](const FlowPlan &plan, NodeId key) { return plan.node < key; });
  return at != plans.end() && at->node == n ? &*at : nullptr;
}

Error checkPlan(const Graph &graph, const Inference &inference, const RequestTable &requests, const MemoryPlan &plan,
                const PlanOptions &given) {
  PlanOptions options = given;
  options.flows = &plan.flows;
  if (Error error = replayPlan(graph, inference, requests, plan, options)) return error;
  return checkFlowPlans(graph, plan.flows);
}

}  // namespace gradc
