// The instructions of a body, prepared once and run at every step. Binding an input or a head writes one address into
// the few operands that view it, and nothing is allocated. Tested by tests/ops/control_flow_test.cc
#pragma once

#include "runtime/executor/instructions.h"

namespace gradc {

/// TooLarge where nested bodies are used so often that instructions would multiply without bound, because each use of a
/// body has separate instructions.
llvm::Error checkUses(const std::vector<FlowPlan> &flows);

struct PreparedBody {
  std::unique_ptr<MovableRunner> runner;
  size_t ownedBytes = 0;  // in addition to the arena
};

/// Prepares body b of a node. Heads, schedule, monitor and overrides of nodes in `options` belong to the enclosing
/// graph and do not apply to the body. Errors are those of prepareInstructions, without the path to the body.
llvm::Expected<PreparedBody> prepareBody(const Graph &graph, NodeId n, uint32_t b, const BodyPlan &plan,
                                         const ExecOptions &options, const BodySite &site);

}  // namespace gradc
