// A graph as a node: a body that several places invoke. Tested by tests/control_flow_test.cc
#include "ops/control/saved.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct CallParams {
  int64_t numArgs, numOutputs;
  std::optional<Dims> inputLocs, saved;
};

constexpr AttrSpec kCallAttrs[] = {
    required<&CallParams::numArgs>("num_args", "number of inputs").atLeast(0).atMost(1 << 16),
    required<&CallParams::numOutputs>("num_outputs", "number of outputs, the heads of the body")
        .atLeast(1)
        .atMost(kMaxIndex),
    attr<&CallParams::inputLocs>("input_locs", "None",
                                 "which input each input of the body is given; None: in their order"),
    savedAttr<&CallParams::saved>(),
};

Expected<BodyFlow> callFlow(const NodeKind &kind) {
  const CallParams &p = kind.params<CallParams>();
  FlowBuilder flow(kind, BodyFlow::Form::Call);
  expectSaved(flow, p.saved, 1);
  flow.addOperands(BodyFlow::Operand::Whole, static_cast<size_t>(p.numArgs));
  SmallVector<int64_t, 16> operandOf;
  if (p.inputLocs) operandOf.assign(p.inputLocs->begin(), p.inputLocs->end());
  else
    for (int64_t i = 0; i < p.numArgs; ++i) operandOf.push_back(i);
  flow.addBody("input_locs", operandOf);
  flow.addHeads(static_cast<size_t>(p.numOutputs + numSaved(p.saved)), 0, false);
  return std::move(flow).finish();
}

constexpr OpDef callOperator() {
  OpDef op = flowOperator("_call", "runs its body");
  op.inputs = {{}, [](const NodeKind &kind) { return static_cast<uint32_t>(kind.params<CallParams>().numArgs); }, true};
  op.outputs = {{}, [](const NodeKind &kind) {
                  const CallParams &p = kind.params<CallParams>();
                  return static_cast<uint32_t>(p.numOutputs + numSaved(p.saved));
                }};
  op.visibleOutputs = [](const NodeKind &kind) { return static_cast<uint32_t>(kind.params<CallParams>().numOutputs); };
  op.attrs = kCallAttrs;
  op.params = paramsOf<CallParams>();
  op.flow = callFlow;
  op.gradient = branchGradient;
  return op;
}

}  // namespace

constinit const OpDef kCall = callOperator();

namespace {
constexpr const OpDef *kOps[] = {&kCall};
}  // namespace

constinit const OpFamily kCallFamily = kOps;

}  // namespace gradc
