// Tested by tests/plan_memory_test.cc
#include "passes/memory/workspace.h"

#include "ir/error.h"
#include "ir/tensor.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace gradc {

// What the operator itself asks for.
static uint64_t ownWorkspace(const Graph &graph, const Inference &inference, NodeId n) {
  SmallVector<TensorRef, 8> in, out;
  bool isKnown = true;
  auto describe = [&](EntryId e, SmallVectorImpl<TensorRef> &to) {
    isKnown &= inference.isKnownShape(e);
    to.push_back({nullptr, inference.dtype[e], inference.shapeOf(e).dims()});
  };
  for (Value v : graph.inputs(n)) describe(graph.entry(v), in);
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) describe(EntryId(graph.firstEntry(n).value + o), out);
  return isKnown ? graph.op(n)->workspace(graph.kind(n), in, out) : 0;
}

Expected<int64_t> workspaceBytes(const Graph &graph, const Inference &inference, const PlanOptions &options, NodeId n) {
  if (graph.kind(n).flow) {
    const FlowPlan *flow = options.flows ? findFlowPlan(*options.flows, n) : nullptr;
    return flow ? flow->bytes : 0;
  }
  const int64_t given = options.workspaceOf ? options.workspaceOf(options.user, n) : -1;
  if (given < 0 && !graph.op(n)->workspace) return 0;
  const uint64_t bytes = given < 0 ? ownWorkspace(graph, inference, n) : static_cast<uint64_t>(given);
  if (bytes <= static_cast<uint64_t>(kMaxTensorBytes)) return static_cast<int64_t>(bytes);
  return Failure(ErrorKind::TooLarge, "operator '" + graph.opName(n) + "', " + graph.describe(n) +
                                          ": its workspace would be larger than 2^48 bytes")
      .at(n);
}

}  // namespace gradc
