// How much scratch memory a node's kernel will ask for, and how long: facts about kernels that the planner and its judge both need.
#pragma once

#include "passes/memory/plan_memory.h"

namespace gradc {

/// Bytes of scratch of a node: what `options.workspaceOf` says, else what the operator asks for its operands and what it
/// takes to widen those of 16 bits (ir/widening.h); 0 for none and where a shape is unknown. TooLarge above kMaxTensorBytes.
llvm::Expected<int64_t> workspaceBytes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                       const PlanOptions &options, NodeId n);

/// The step at whose end the workspace of a node is free.
uint32_t lastWorkspaceStep(const PlanOptions &options, NodeId n);

}  // namespace gradc
