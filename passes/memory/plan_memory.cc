// Memory planning: lifetimes, bound, placement, and the table that ties them to entries. Tested by
// tests/passes/plan_memory_test.cc
#include "passes/memory/plan_memory.h"

#include "ir/base/out_of_memory.h"
#include "passes/memory/flow_plans.h"
#include "passes/memory/lifetimes.h"
#include "passes/memory/place_intervals.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Expected<MemoryPlan> planMemory(Context &, const Graph &graph, const Inference &inference, const RequestTable &requests,
                                const PlanOptions &options) {
  return FlowPlanner(options.allowInplace).plan(graph, inference, requests, options);
}

Expected<MemoryPlan> FlowPlanner::plan(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                       const PlanOptions &given) {
  return catchingBadAlloc("to plan memory", [&]() -> Expected<MemoryPlan> {
    Expected<std::vector<FlowPlan>> flows = planFlows(graph, inference, requests);
    if (!flows) return flows.takeError();
    PlanOptions options = given;
    options.flows = &*flows;
    Expected<Lifetimes> lifetimes = computeLifetimes(graph, inference, requests, options);
    if (!lifetimes) return lifetimes.takeError();
    Placement placement = placeIntervals(lifetimes->intervals, graph.numNodes());
    Placement scratch = placeScratch(lifetimes->scratch, lifetimes->intervals, placement, graph.numNodes());
    LiveBound bound = liveBound(lifetimes->intervals, graph.numNodes());
    const int64_t valueBound = bound.bytes;
    if (!lifetimes->scratch.empty()) {
      std::vector<Interval> all = lifetimes->intervals;
      llvm::append_range(all, lifetimes->scratch);
      bound = liveBound(all, graph.numNodes());
    }

    MemoryPlan plan;
    plan.offset = EntryMap<int64_t>(graph, kUnused);
    plan.workspace = NodeMap<int64_t>(graph, kUnused);
    plan.plannedBytes = scratch.bytes;
    plan.valueBytes = placement.bytes;
    plan.boundBytes = bound.bytes;
    plan.valueBoundBytes = valueBound;
    if (bound.bytes > 0) plan.peakNode = options.schedule.nodeAt(bound.step);
    plan.liveBytes = std::move(bound.live);
    plan.externalBytes = lifetimes->externalBytes;
    plan.numUnplanned = lifetimes->numUnplanned;
    for (size_t i = 0; i < lifetimes->scratch.size(); ++i) {
      plan.workspace[options.schedule.nodeAt(lifetimes->scratch[i].begin)] = scratch.offsets[i];
      plan.workspaceBytes = std::max(plan.workspaceBytes, lifetimes->scratch[i].bytes);
    }
    for (uint32_t i = 0; i < graph.numEntries(); ++i) {
      const EntryId e(i);
      const uint32_t interval = lifetimes->intervalOf[e];
      if (interval != Lifetimes::kNoInterval) plan.offset[e] = placement.offsets[interval];
      else if (options.groups && options.groups->isInside(e)) plan.offset[e] = kInside;
      else if (lifetimes->isExternal[e]) plan.offset[e] = kExternal;
      else if (requests.request[e] != Request::Null) plan.offset[e] = kUnplanned;
    }
    plan.inplaceOf = std::move(lifetimes->inplaceOf);
    plan.flows = std::move(*flows);
    return plan;
  });
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

}  // namespace gradc
