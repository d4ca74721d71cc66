// MXNet's cond: one of two bodies runs, as a third decides. Tested by tests/ops/control_flow_test.cc
#include "ops/control/branch_gradient.h"
#include "ops/control/flow_operator.h"
#include "ops/control/rebody.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

struct CondParams {
  int64_t numArgs, numOutputs;
  Dims conditionLocs, thenLocs, elseLocs;
  std::optional<Dims> saved;

  size_t numInputs() const { return static_cast<size_t>(numArgs - 3); }
  int64_t numVisible() const { return numOutputs; }
  int64_t numHidden() const { return saved ? 1 + numSaved(saved) : 0; }
};

constexpr AttrSpec kCondAttrs[] = {
    required<&CondParams::numArgs>("num_args", "number of inputs plus three, one per body").atLeast(3).atMost(1 << 16),
    required<&CondParams::numOutputs>("num_outputs", "number of outputs, heads of each branch")
        .atLeast(1)
        .atMost(kMaxIndex),
    required<&CondParams::conditionLocs>("cond_input_locs", "which input each input of the condition is given"),
    required<&CondParams::thenLocs>("then_input_locs", "which input each input of the first branch is given"),
    required<&CondParams::elseLocs>(
        "else_input_locs",
        "which input each input of the second branch is given; without that branch, which one each output is"),
    savedAttr<&CondParams::saved>(),
};

// Outputs: those of the branches; then, if a gradient was requested, the decision and the outputs added for the
// gradient.
Expected<BodyFlow> condFlow(const NodeKind &kind) {
  const CondParams &p = kind.params<CondParams>();
  const size_t numOutputs = static_cast<size_t>(p.numOutputs);
  FlowBuilder flow(kind, BodyFlow::Form::Branch);
  expectSaved(flow, p.saved, 2);
  flow.addOperands(BodyFlow::Operand::Whole, p.numInputs());
  flow.addBody("cond_input_locs", p.conditionLocs);
  if (p.saved) flow.flow().decisionOutput = static_cast<uint32_t>(numOutputs);
  for (size_t branch : {0, 1}) {
    flow.addBody(branch ? "else_input_locs" : "then_input_locs", branch ? p.elseLocs : p.thenLocs);
    flow.addHeads(numOutputs, 0, false);
    size_t firstOutput = numOutputs + 1;
    for (auto [i, count] : enumerate(p.saved.value_or(Dims()))) {
      if (i % 2 == branch) flow.addHeads(static_cast<size_t>(count), firstOutput, false);
      firstOutput += static_cast<size_t>(count);
    }
  }
  return std::move(flow).finish();
}

constexpr OpDef condOperator() {
  OpDef op = flowOperator<CondParams>(
      "_cond", "runs its second body if the first yields a nonzero number, else its third", kCondAttrs);
  op.flow = condFlow;
  op.rebody = [](Context &context, const NodeKind &kind, const NewBodies &given) {
    return rebodied(context, kind, given,
                    {{"cond_input_locs", listText(operandsOf(kind, given, 0))},
                     {"then_input_locs", listText(operandsOf(kind, given, 1))},
                     {"else_input_locs", listText(operandsOf(kind, given, 2))}});
  };
  op.gradient = branchGradient;
  op.primitive = {.onnx = "If", .c = "if (decision(x)) first(x); else second(x)"};
  return op;
}

}  // namespace

constinit const OpDef kCond = condOperator();

constinit const OpFamily kCondFamily = kOps<kCond>;

}  // namespace gradc
