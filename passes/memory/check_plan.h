// The checker of memory plans: replays the schedule byte range by byte range (MEM-03). With the planner it shares only
// which nodes run (passes/order/requests.h) and how much scratch kernels need (passes/memory/workspace.h). Tested by
// tests/passes/check_plan_test.cc
#pragma once

#include "passes/memory/plan_memory.h"

namespace gradc {

/// checkPlan of one graph without the bodies of its nodes; `options.flows` has their workspaces.
llvm::Error replayPlan(const Graph &graph, const Inference &inference, const RequestTable &requests,
                       const MemoryPlan &plan, const PlanOptions &options);
}  // namespace gradc
