// Running the bodies of control flow. Tested by tests/ops/control_flow_test.cc
#pragma once

#include "ir/graph/body_flow.h"
#include "ir/rules/kernel.h"

namespace gradc {

/// OpDef::kernel of operators with a flow: runs the bodies. The random numbers of a step depend on the node's key and
/// the row.
void runFlow(const KernelCall &call);
/// Bytes that runFlow needs besides the workspace of the bodies: two alternating buffers per state, or one if it is in
/// place. A requested output serves as one of them. Endless beyond 64 bits.
Dim flowWorkspace(const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<Request> requests);
/// By head of a body, Write or Null: whether it must be computed, because its output is requested, the next step reads
/// it, or it is a decision. Linear.
std::vector<Request> headRequests(const BodyFlow &flow, size_t body, size_t numHeads, llvm::ArrayRef<Request> requests);

/// Whether a loop that may end early leaves the rows of this stacked output unwritten for steps that do not run: true
/// for outputs added for a gradient and for those in attribute `short_out_data`. Other outputs have zeros there.
bool isShortOutput(const NodeKind &kind, uint32_t output);

}  // namespace gradc
