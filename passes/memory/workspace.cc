// Tested by tests/passes/plan_memory_test.cc
#include "passes/memory/workspace.h"
#include "passes/order/requests.h"

#include "ir/base/error.h"
#include "ir/rules/widening.h"
#include "ir/tensor/tensor.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace gradc {
namespace {

struct Operands {
  SmallVector<TensorRef, 8> in, out;
  SmallVector<Request, 4> requests;
  bool areKnown = true;
};

Operands operandsOf(const Graph &graph, const Inference &inference, const RequestTable &requests, NodeId n) {
  Operands operands;
  auto describe = [&](EntryId e, SmallVectorImpl<TensorRef> &to) {
    operands.areKnown &= inference.isKnownShape(e);
    to.push_back({nullptr, inference.dtype[e], inference.shapeOf(e).dims()});
  };
  for (Value v : graph.inputs(n)) describe(graph.entry(v), operands.in);
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    const EntryId e(graph.firstEntry(n).value + o);
    describe(e, operands.out);
    operands.requests.push_back(requests.request[e]);
  }
  return operands;
}

/// The bytes that the operator requests for its operands, as its kernel receives them, plus the scratch to widen them.
uint64_t ofReference(const Graph &graph, const Inference &inference, const RequestTable &requests, NodeId n) {
  const NodeKind &kind = graph.kind(n);
  if (!kind.op->workspace && !hasHalf(graph, inference, n)) return 0;
  Operands operands = operandsOf(graph, inference, requests, n);
  if (!operands.areKnown) return 0;
  const uint64_t ofWidening = Widening(kind, operands.in, operands.out, operands.requests).scratchBytes();
  if (!kind.op->workspace) return ofWidening;
  for (size_t i = 0; i < operands.in.size(); ++i) operands.in[i].dtype = kernelInputType(kind, i, operands.in[i].dtype);
  for (TensorRef &out : operands.out) out.dtype = kernelOutputType(kind, out.dtype);
  return ofWidening + kind.op->workspace(kind, operands.in, operands.out);
}

}  // namespace

Expected<int64_t> workspaceBytes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                 const PlanOptions &options, NodeId n) {
  if (hasNothingToDo(graph, requests, inference, n)) return 0;
  if (graph.kind(n).flow) {
    const FlowPlan *flow = options.flows ? findFlowPlan(*options.flows, n) : nullptr;
    return flow ? flow->bytes : 0;
  }
  const int64_t given = options.workspaceOf ? options.workspaceOf(options.user, n) : -1;
  const uint64_t bytes = given < 0 ? ofReference(graph, inference, requests, n) : static_cast<uint64_t>(given);
  if (bytes <= static_cast<uint64_t>(kMaxTensorBytes)) return static_cast<int64_t>(bytes);
  return Failure(ErrorKind::TooLarge, "operator '" + graph.opName(n) + "', " + graph.describe(n) +
                                          ": its workspace would be larger than 2^48 bytes")
      .at(n);
}

uint32_t lastWorkspaceStep(const PlanOptions &options, NodeId n, uint32_t numSteps) {
  const NodeId reader = options.workspaceReader ? options.workspaceReader(options.user, n) : NodeId();
  const uint32_t last = options.schedule.stepOf(reader.isValid() ? reader : n);
  return isRetained(options, options.schedule.stepOf(n), last) ? numSteps - 1 : last;
}

}  // namespace gradc
