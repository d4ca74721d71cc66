// Lifetimes, bound, placement, and the table that ties them to entries, of a graph and of the bodies in it. Tested by
// tests/passes/plan_memory_test.cc, tests/ops/control_flow_test.cc
#include "passes/memory/flow_plans.h"

#include "passes/memory/check_plan.h"
#include "passes/memory/lifetimes.h"
#include "passes/memory/place_intervals.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/tensor/dim.h"
#include "ir/tensor/tensor.h"

#include "ir/base/dense_map.h"
#include "ir/rules/run_flow.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {

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

Expected<std::vector<FlowPlan>> FlowPlanner::planFlows(const Graph &graph, const Inference &inference,
                                                       const RequestTable &requests) {
  std::vector<FlowPlan> flows;
  for (const NodeBodies &row : inference.bodies) {
    const NodeId n = row.node;
    const NodeKind &kind = graph.kind(n);
    SmallVector<TensorRef, 8> in;
    bool isKnown = llvm::all_of(row.bodies, [](const auto &body) { return body != nullptr; });
    for (Value v : graph.inputs(n)) {
      const EntryId e = graph.entry(v);
      isKnown &= inference.isKnownShape(e);
      in.push_back({nullptr, inference.dtype[e], inference.shapeOf(e).dims()});
    }
    SmallVector<Request, 8> outputRequests;
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      outputRequests.push_back(requests.request[EntryId(graph.firstEntry(n).value + o)]);
    const bool isWanted = llvm::any_of(outputRequests, [](Request request) { return request != Request::Null; });
    if (!isKnown || (!isWanted && kind.mutated.isEmpty())) continue;
    FlowPlan flow;
    flow.node = n;
    const Dim ownBytes = flowWorkspace(kind, in, outputRequests);
    flow.ownBytes = ownBytes.nearest();
    int64_t most = 0;
    for (uint32_t b = 0; b < kind.bodies.size(); ++b) {
      auto planned = planBody(kind.bodies[b], row.bodies[b],
                              headRequests(*kind.flow, b, kind.bodies[b].heads().size(), outputRequests));
      if (!planned) return withinBody(planned.takeError(), graph, n, b);
      most = std::max(most, (*planned)->plan->plannedBytes);
      flow.bodies.push_back(std::move(*planned));
    }
    const Dim bytes = ownBytes + most;
    if (bytes > kMaxTotalBytes)
      return Failure(ErrorKind::TooLarge,
                     "operator '" + graph.opName(n) + "', " + graph.describe(n) +
                         ": its states and the plan of its body have more than 2^62 bytes together, "
                         "which no memory plan can hold")
          .at(n);
    flow.bytes = bytes.nearest();
    flows.push_back(std::move(flow));
  }
  return flows;
}

// Recursion is as deep as bodies are nested.
Expected<std::shared_ptr<const BodyPlan>> FlowPlanner::planBody(const Graph &body,
                                                                const std::shared_ptr<const Inference> &inference,
                                                                std::vector<Request> headRequests) {
  const Key key(inference.get(), headRequests);
  if (auto known = plans.find(key); known != plans.end()) return known->second;
  BodyPlan made{body, std::move(headRequests), {}, nullptr, inference};
  made.requests = countRequests(body, made.headRequests);
  PlanOptions options;
  options.allowInplace = allowInplace;
  Expected<MemoryPlan> planned = plan(body, *inference, made.requests, options);
  if (!planned) return planned.takeError();
  made.plan = std::make_shared<const MemoryPlan>(std::move(*planned));
  return plans[key] = std::make_shared<const BodyPlan>(std::move(made));
}

Error checkFlowPlans(const Graph &graph, const std::vector<FlowPlan> &flows) {
  // With the owner of the body, for messages.
  struct Open {
    const BodyPlan *body;
    std::string place;
  };
  std::vector<Open> open;
  DenseSet<const BodyPlan *> seen;
  auto add = [&](const Graph &of, const std::vector<FlowPlan> &list) -> Error {
    for (const FlowPlan &flow : list)
      for (const std::shared_ptr<const BodyPlan> &body : flow.bodies) {
        if (Dim(flow.ownBytes) + body->plan->plannedBytes > flow.bytes || flow.ownBytes % kPlanAlignment != 0)
          return Failure(ErrorKind::BadPlan, "at " + of.describe(flow.node) + ": a body takes " +
                                                 Twine(body->plan->plannedBytes) + " bytes of a workspace of " +
                                                 Twine(flow.bytes))
              .at(flow.node);
        if (seen.insert(body.get()).second) open.push_back({body.get(), of.describe(flow.node)});
      }
    return Error::success();
  };
  if (Error error = add(graph, flows)) return error;
  while (!open.empty()) {
    const Open next = open.back();
    open.pop_back();
    const BodyPlan &body = *next.body;
    PlanOptions options;
    options.flows = &body.plan->flows;
    Error error = replayPlan(body.graph, *body.inference, body.requests, *body.plan, options);
    if (!error) error = add(body.graph, body.plan->flows);
    if (error)
      return amend(std::move(error), [&](GradcError &info) {
        info.message = next.place + " > body > " + info.message;
        info.place = {};
      });
  }
  return Error::success();
}

}  // namespace gradc
