// How much scratch memory a node's kernel needs, and for how long: facts about kernels that planner and checker share.
#pragma once

#include "passes/memory/plan_memory.h"

namespace gradc {

/// Bytes of scratch of a node: given by `options.workspaceOf`, else what the operator requests for its operands plus
/// the scratch to widen 16-bit ones (ir/rules/widening.h); 0 for none and where a shape is unknown. TooLarge above
/// kMaxTensorBytes.
llvm::Expected<int64_t> workspaceBytes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                       const PlanOptions &options, NodeId n);

/// The step at whose end the workspace of a node is free, of `numSteps`.
uint32_t lastWorkspaceStep(const PlanOptions &options, NodeId n, uint32_t numSteps);

/// Whether what one step computes and a later one reads must outlive the backward part (RET-07).
inline bool isRetained(const PlanOptions &options, uint32_t writer, uint32_t reader) {
  return writer < options.backwardBegin && reader >= options.backwardBegin;
}

}  // namespace gradc
