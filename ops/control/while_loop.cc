// MXNet's while_loop: a body that runs while a condition holds. Tested by tests/ops/control_flow_test.cc
#include "ops/control/flow_operator.h"
#include "ops/control/loop_gradient.h"
#include "ops/control/rebody.h"

#include "llvm/ADT/BitVector.h"

using namespace llvm;

namespace gradc {
namespace {

struct WhileParams {
  int64_t numArgs, numOutputs, numOutData, maxIterations;
  Dims conditionLocs, bodyLocs, varLocs;
  bool mustEnd;
  std::optional<Dims> saved;

  size_t numInputs() const { return static_cast<size_t>(numArgs - 2); }
  int64_t numVisible() const { return numOutputs; }
  int64_t numHidden() const { return saved ? 1 + numSaved(saved) : 0; }
};

constexpr AttrSpec kWhileAttrs[] = {
    required<&WhileParams::numArgs>("num_args", "number of inputs plus one per body").atLeast(2).atMost(1 << 16),
    required<&WhileParams::numOutputs>("num_outputs", "number of outputs: stacked ones, then final loop variables")
        .atLeast(1)
        .atMost(kMaxIndex),
    required<&WhileParams::numOutData>("num_out_data", "number of stacked outputs").atLeast(0).atMost(kMaxIndex),
    required<&WhileParams::maxIterations>("max_iterations", "largest number of steps").atLeast(0),
    required<&WhileParams::conditionLocs>("cond_input_locs", "which input each input of the condition is given"),
    required<&WhileParams::bodyLocs>("func_input_locs", "which input each input of the body is given"),
    required<&WhileParams::varLocs>("func_var_locs", "which input of the body each loop variable is"),
    attr<&WhileParams::mustEnd>("__must_end__", "False",
                                "whether it is an error if the condition still holds after max_iterations steps; in "
                                "MXNet the loop then ends"),
    savedAttr<&WhileParams::saved>(),
};

// Outputs: stacked ones; loop variables; then, if a gradient was requested, the number of steps and the outputs added
// for the gradient.
Expected<BodyFlow> whileFlow(const NodeKind &kind) {
  const WhileParams &p = kind.params<WhileParams>();
  FlowBuilder flow(kind, BodyFlow::Form::Loop);
  const size_t numOutData = static_cast<size_t>(p.numOutData);
  flow.expect(p.numOutputs == p.numOutData + static_cast<int64_t>(p.varLocs.size()),
              "attribute 'num_outputs' is " + Twine(p.numOutputs) + ", expected " +
                  Twine(p.numOutData + static_cast<int64_t>(p.varLocs.size())) +
                  ": 'num_out_data', and one for each element of 'func_var_locs'");
  expectSaved(flow, p.saved, 1);
  flow.flow().maxSteps = p.maxIterations;
  flow.flow().mustEnd = p.mustEnd;
  flow.addOperands(BodyFlow::Operand::Whole, p.numInputs());
  flow.addBody("cond_input_locs", p.conditionLocs);
  flow.addBody("func_input_locs", p.bodyLocs);
  flow.addHeads(numOutData, 0, true);
  for (size_t s = 0; s < p.varLocs.size() && !flow.hasFailed(); ++s) {
    const int64_t at = p.varLocs[s];
    const std::string element =
        "element " + std::to_string(s) + " of attribute 'func_var_locs' is " + std::to_string(at);
    flow.expect(at >= 0 && static_cast<uint64_t>(at) < p.bodyLocs.size(),
                element + ", expected an input of body 1, 0 to " + Twine(p.bodyLocs.size()) + " exclusive");
    if (flow.hasFailed()) break;
    const size_t operand = static_cast<size_t>(p.bodyLocs[static_cast<size_t>(at)]);
    flow.expect(flow.flow().operands[operand] != BodyFlow::Operand::State,
                element + ", and input " + Twine(operand) + " of the node is another loop variable already");
    flow.flow().operands[operand] = BodyFlow::Operand::State;
    flow.addState(operand, numOutData + s);
  }
  if (p.saved) {
    flow.flow().countOutput = static_cast<uint32_t>(p.numOutputs);
    flow.addHeads(static_cast<size_t>(numSaved(p.saved)), static_cast<size_t>(p.numOutputs) + 1, true);
  }
  return std::move(flow).finish();
}

// Null if a loop variable is no longer an input of the body.
Expected<KindRef> whileWithBodies(Context &context, const NodeKind &kind, const NewBodies &given) {
  const std::vector<uint32_t> operandOf = operandsOf(kind, given, 1);
  const std::vector<BodyReads> reads = readsOf(*kind.flow, operandOf);
  std::vector<size_t> variables;  // the position of each among the inputs of the body
  for (const BodyFlow::State &state : kind.flow->states) {
    if (!reads[state.operand].count) return KindRef();
    variables.push_back(reads[state.operand].first);
  }
  return rebodied(context, kind, given,
                  {{"cond_input_locs", listText(operandsOf(kind, given, 0))},
                   {"func_input_locs", listText(operandOf)},
                   {"func_var_locs", listText(variables)}});
}

constexpr OpDef whileOperator() {
  OpDef op = flowOperator<WhileParams>("_while_loop",
                                       "runs its second body while the first yields a nonzero number, at most "
                                       "max_iterations times; stacks what it yields, rows of steps not run are zero",
                                       kWhileAttrs);
  op.flow = whileFlow;
  op.rebody = whileWithBodies;
  op.gradient = loopGradient;
  op.primitive = {.onnx = "Loop", .c = "for (t = 0; t < max && condition(state, z); ++t) body(state, z)"};
  return op;
}

constinit const OpDef kWhileLoop = whileOperator();

}  // namespace

constinit const OpFamily kWhileLoopFamily = kOps<kWhileLoop>;

}  // namespace gradc
