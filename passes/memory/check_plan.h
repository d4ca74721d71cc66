// The independent checker of memory plans: replays the schedule byte range by byte range and shares nothing with the
// planner but the plan itself (MEM-03) and the sizes that kernels request. Tested by tests/passes/check_plan_test.cc
#pragma once

#include "passes/memory/plan_memory.h"

namespace gradc {

/// checkPlan of one graph without the bodies of its nodes; `options.flows` has their workspaces.
llvm::Error replayPlan(const Graph &graph, const Inference &inference, const RequestTable &requests,
                       const MemoryPlan &plan, const PlanOptions &options);
}  // namespace gradc
