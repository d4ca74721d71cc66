// MXNet's foreach: a body run for every slice of its data. Tested by tests/ops/control_flow_test.cc
#include "ir/rules/grad_rule.h"
#include "ops/control/flow_operator.h"
#include "ops/control/loop_gradient.h"
#include "ops/control/rebody.h"
#include "ops/control/scan.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct ForeachParams {
  int64_t numArgs, numOutputs, numOutData;
  Dims dataLocs, stateLocs, remainLocs;
  std::optional<Dims> saved;

  size_t numInputs() const { return dataLocs.size() + stateLocs.size() + remainLocs.size(); }
  int64_t numVisible() const { return numOutputs; }
  int64_t numHidden() const { return numSaved(saved); }
};

constexpr AttrSpec kForeachAttrs[] = {
    required<&ForeachParams::numArgs>("num_args", "number of inputs plus one for the body").atLeast(1).atMost(1 << 16),
    required<&ForeachParams::numOutputs>("num_outputs", "number of outputs: stacked ones, then final states")
        .atLeast(1)
        .atMost(kMaxIndex),
    required<&ForeachParams::numOutData>("num_out_data", "number of stacked outputs").atLeast(0).atMost(kMaxIndex),
    required<&ForeachParams::dataLocs>("in_data_locs", "which input of the body is given a slice of each data"),
    required<&ForeachParams::stateLocs>("in_state_locs", "which input of the body is given each state"),
    required<&ForeachParams::remainLocs>("remain_locs", "which input of the body is given each other input"),
    savedAttr<&ForeachParams::saved>(),
};

Expected<BodyFlow> foreachFlow(const NodeKind &kind) {
  const ForeachParams &p = kind.params<ForeachParams>();
  const size_t numData = p.dataLocs.size(), numStates = p.stateLocs.size();
  FlowBuilder flow(kind, BodyFlow::Form::Loop);
  flow.expect(p.numArgs == static_cast<int64_t>(p.numInputs()) + 1,
              "attribute 'num_args' is " + Twine(p.numArgs) + ", expected " + Twine(p.numInputs() + 1) +
                  ": the body, and an input for each element of 'in_data_locs', 'in_state_locs' and 'remain_locs'");
  flow.expect(
      numData != 0,
      "attribute 'in_data_locs' has no element, expected at least one: the sliced data determine the number of steps");
  flow.expect(p.numOutputs == p.numOutData + static_cast<int64_t>(numStates),
              "attribute 'num_outputs' is " + Twine(p.numOutputs) + ", expected " +
                  Twine(p.numOutData + static_cast<int64_t>(numStates)) +
                  ": 'num_out_data', and one for each element of 'in_state_locs'");
  expectSaved(flow, p.saved, 1);
  flow.addOperands(BodyFlow::Operand::Rows, numData);
  flow.addOperands(BodyFlow::Operand::State, numStates);
  flow.addOperands(BodyFlow::Operand::Whole, p.remainLocs.size());
  flow.addBody({{"in_data_locs", p.dataLocs, 0},
                {"in_state_locs", p.stateLocs, numData},
                {"remain_locs", p.remainLocs, numData + numStates}});
  flow.addHeads(static_cast<size_t>(p.numOutData), 0, true);
  for (size_t s = 0; s < numStates; ++s) flow.addState(numData + s, static_cast<size_t>(p.numOutData) + s);
  flow.addHeads(static_cast<size_t>(numSaved(p.saved)), static_cast<size_t>(p.numOutputs), true);
  return std::move(flow).finish();
}

// For each operand of a role, the input of the body that reads it; none if some operand has not exactly one.
std::optional<std::string> placesOf(const BodyFlow &flow, BodyFlow::Operand role, ArrayRef<BodyReads> reads) {
  std::vector<size_t> places;
  for (uint32_t operand = 0; operand < flow.operands.size(); ++operand) {
    if (flow.operands[operand] != role) continue;
    if (reads[operand].count != 1) return std::nullopt;
    places.push_back(reads[operand].first);
  }
  return listText(places);
}

Expected<KindRef> foreachWithBodies(Context &context, const NodeKind &kind, const NewBodies &given) {
  const std::vector<uint32_t> operandOf = operandsOf(kind, given, 0);
  const std::vector<BodyReads> reads = readsOf(*kind.flow, operandOf);
  const auto data = placesOf(*kind.flow, BodyFlow::Operand::Rows, reads),
             states = placesOf(*kind.flow, BodyFlow::Operand::State, reads),
             others = placesOf(*kind.flow, BodyFlow::Operand::Whole, reads);
  if (data && states && others)
    return rebodied(context, kind, given,
                    {{"in_data_locs", *data}, {"in_state_locs", *states}, {"remain_locs", *others}});
  return context.kind(kScan, scanAttrs(context, kind, operandOf, given.numAdded), given.bodies);
}

constexpr OpDef foreachOperator() {
  OpDef op = flowOperator<ForeachParams>(
      "_foreach",
      "runs its body for each slice of the data along axis 0, from the first; stacks what it yields, and carries "
      "states from one step to the next",
      kForeachAttrs);
  op.flow = foreachFlow;
  op.rebody = foreachWithBodies;
  op.gradient = loopGradient;
  op.decompose = [](DecomposeRule &d) {
    const Value loop = d.emit(kScan, d.operands(), scanAttrs(d.context(), d.kind(), d.kind().flow->bodies[0].operandOf),
                              d.kind().bodies);
    for (size_t o = 0; o < d.numOutputs(); ++o) d.y(o, d.at(loop, o));
  };
  return op;
}

constinit const OpDef kForeach = foreachOperator();

}  // namespace

constinit const OpFamily kForeachFamily = kOps<kForeach>;

}  // namespace gradc
