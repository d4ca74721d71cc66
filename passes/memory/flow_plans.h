// Plans of bodies, which a node with a flow runs in its workspace. Used by passes/memory/plan_memory.cc.
#pragma once

#include "passes/memory/plan_memory.h"

#include <map>

namespace gradc {

/// One call of planMemory, bodies included: bodies with equal shapes and equal requests are planned once.
class FlowPlanner {
 public:
  explicit FlowPlanner(bool allowInplace) : allowInplace(allowInplace) {}

  llvm::Expected<MemoryPlan> plan(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                  const PlanOptions &options);

 private:
  using Key = std::pair<const Inference *, std::vector<Request>>;

  llvm::Expected<std::vector<FlowPlan>> planFlows(const Graph &graph, const Inference &inference,
                                                  const RequestTable &requests);
  llvm::Expected<std::shared_ptr<const BodyPlan>> planBody(const Graph &body,
                                                           const std::shared_ptr<const Inference> &inference,
                                                           std::vector<Request> headRequests);

  const bool allowInplace;
  std::map<Key, std::shared_ptr<const BodyPlan>> plans;
};

/// BadPlan where the plan of a body is wrong, or does not fit into the workspace of its node.
llvm::Error checkFlowPlans(const Graph &graph, const std::vector<FlowPlan> &flows);

}  // namespace gradc
