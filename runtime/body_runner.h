// Instructions of a body, prepared once and run at every step: binding an input or a head writes one address into the few
// operands that have it, and nothing is allocated. Tested by tests/control_flow_test.cc
#pragma once

#include "runtime/instructions.h"

namespace gradc {

/// TooLarge where bodies within bodies are used so often that there would be no end to instructions: each place where a body
/// is used has its own.
llvm::Error checkUses(const std::vector<FlowPlan> &flows);

struct PreparedBody {
  std::unique_ptr<MovableRunner> runner;
  size_t ownedBytes = 0;  // beside the arena
};

/// Of body b of a node. What `options` says of the graph around, its heads, schedule, overrides and monitor, is not the body's.
/// Errors of prepareInstructions, without the path to the body.
llvm::Expected<PreparedBody> prepareBody(const Graph &graph, NodeId n, uint32_t b, const BodyPlan &plan,
                                         const ExecOptions &options, const BodySite &site);

}  // namespace gradc
