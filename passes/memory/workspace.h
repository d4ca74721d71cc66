// How much scratch memory a node's kernel needs, and for how long: facts about kernels that planner and checker share.
#pragma once

#include "passes/memory/plan_memory.h"

namespace gradc {

/// Bytes of scratch of a node: given by `options.workspaceOf`, else what the operator requests for its operands plus the scratch
/// to widen 16-bit ones (ir/widening.h); 0 for none and where a shape is unknown. TooLarge above kMaxTensorBytes.
llvm::Expected<int64_t> workspaceBytes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                       const PlanOptions &options, NodeId n);

/// The step at whose end the workspace of a node is free.
uint32_t lastWorkspaceStep(const PlanOptions &options, NodeId n);

}  // namespace gradc
