// The loop that gradients of loops emit: it visits its rows upward or downward, and may end early.
// Tested by tests/ops/control_flow_test.cc
#include "ops/control/flow_operator.h"
#include "ops/kit/primitives.h"

#include "ir/graph/graph_builder.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

struct ScanParams {
  int64_t numArgs, numData, numStates, numOutData;
  bool hasSteps, isReverse;
  std::optional<int64_t> length;
  std::optional<Dims> inputLocs, zeroStates, stacks, shortData, shortOutData, saved;
};

constexpr AttrSpec kScanAttrs[] = {
    required<&ScanParams::numArgs>("num_args", "number of inputs").atLeast(1).atMost(1 << 16),
    required<&ScanParams::numData>("num_data", "inputs that are sliced").atLeast(0).atMost(1 << 16),
    required<&ScanParams::numStates>("num_states", "inputs that start states").atLeast(0).atMost(1 << 16),
    required<&ScanParams::numOutData>("num_out_data", "number of stacked outputs, before the final states")
        .atLeast(0)
        .atMost(kMaxIndex),
    attr<&ScanParams::hasSteps>("has_steps", "False", "whether the first input is a number of steps"),
    attr<&ScanParams::isReverse>("reverse", "False", "the last row first"),
    attr<&ScanParams::length>("length", "None", "number of rows; None: that of the sliced inputs").atLeast(0),
    attr<&ScanParams::inputLocs>(
        "input_locs", "None",
        "which data, state or other input, counted from the first data, each input of the body is given; None: in this order"),
    attr<&ScanParams::zeroStates>(
        "zero_states", "None",
        "which states, counted from the first, start as zeros: their inputs only give shape and type; None: none "
        "of them"),
    attr<&ScanParams::stacks>(
        "stacks", "None",
        "data that loops stacked, or gradients of such stacks: rows of a vector have shape (), others (1,); None: "
        "none of them"),
    attr<&ScanParams::shortData>(
        "short_data", "None",
        "data with values only in the rows of executed steps, such as outputs that a loop stacked for its gradient; "
        "the same holds for their gradients; None: none of them"),
    attr<&ScanParams::shortOutData>(
        "short_out_data", "None",
        "which stacked outputs have values only in the rows of executed steps; the others have zeros elsewhere; "
        "None: none of them"),
    savedAttr<&ScanParams::saved>(),
};

void expectPlaces(FlowBuilder &flow, StringRef name, const std::optional<Dims> &list, int64_t end) {
  const Dims elements = list.value_or(Dims());
  for (auto [i, element] : enumerate(elements))
    flow.expect(element >= 0 && element < end, "element " + Twine(i) + " of attribute '" + name + "' is " +
                                                   Twine(element) + ", expected 0 to " + Twine(end) + " exclusive");
}

void expectShort(FlowBuilder &flow, const ScanParams &p, StringRef name, const std::optional<Dims> &list, int64_t end) {
  flow.expect(!list || list->empty() || p.hasSteps, "attribute '" + name + "' is given, and 'has_steps' is not");
  expectPlaces(flow, name, list, end);
}

Expected<BodyFlow> scanFlow(const NodeKind &kind) {
  const ScanParams &p = kind.params<ScanParams>();
  FlowBuilder flow(kind, BodyFlow::Form::Loop);
  const int64_t numOthers = p.numArgs - p.hasSteps - p.numData - p.numStates;
  flow.expect(numOthers >= 0, "attribute 'num_args' is " + Twine(p.numArgs) + ", expected at least the " +
                                  Twine(p.numArgs - numOthers) +
                                  " that 'has_steps', 'num_data' and 'num_states' account for");
  flow.expect(p.numData != 0 || p.length, "attribute 'num_data' is 0, and 'length' is not given");
  expectSaved(flow, p.saved, 1);
  if (flow.hasFailed()) return std::move(flow).finish();
  const size_t first = p.hasSteps, numData = static_cast<size_t>(p.numData),
               numStates = static_cast<size_t>(p.numStates);
  flow.flow().isReverse = p.isReverse;
  if (p.length) flow.flow().maxSteps = *p.length;
  if (p.hasSteps) flow.flow().countOperand = 0;
  flow.addOperands(BodyFlow::Operand::Count, first);
  flow.addOperands(BodyFlow::Operand::Rows, numData);
  flow.addOperands(BodyFlow::Operand::State, numStates);
  flow.addOperands(BodyFlow::Operand::Whole, static_cast<size_t>(numOthers));
  SmallVector<int64_t, 16> operandOf;
  for (auto [i, at] : enumerate(p.inputLocs.value_or(Dims()))) {
    flow.expect(at >= 0 && at < p.numArgs - p.hasSteps,
                "element " + Twine(i) + " of attribute 'input_locs' is " + Twine(at) +
                    ", expected an input of the node behind the number of steps, 0 to " +
                    Twine(p.numArgs - p.hasSteps) + " exclusive");
    if (flow.hasFailed()) return std::move(flow).finish();
    operandOf.push_back(at + p.hasSteps);
  }
  if (!p.inputLocs)
    for (int64_t i = p.hasSteps; i < p.numArgs; ++i) operandOf.push_back(i);
  flow.addBody("input_locs", operandOf);
  flow.addHeads(static_cast<size_t>(p.numOutData), 0, true);
  BitVector isZero(static_cast<unsigned>(numStates));
  for (auto [i, state] : enumerate(p.zeroStates.value_or(Dims()))) {
    flow.expect(state >= 0 && state < p.numStates, "element " + Twine(i) + " of attribute 'zero_states' is " +
                                                       Twine(state) + ", expected a state, 0 to " + Twine(numStates) +
                                                       " exclusive");
    if (!flow.hasFailed()) isZero.set(static_cast<unsigned>(state));
  }
  expectPlaces(flow, "stacks", p.stacks, p.numData);
  expectShort(flow, p, "short_data", p.shortData, p.numData);
  expectShort(flow, p, "short_out_data", p.shortOutData, p.numOutData);
  if (flow.hasFailed()) return std::move(flow).finish();
  for (int64_t data : p.stacks.value_or(Dims())) flow.flow().isStack[first + static_cast<size_t>(data)] = true;
  for (int64_t output : p.shortOutData.value_or(Dims())) flow.flow().isShort[static_cast<size_t>(output)] = true;
  for (unsigned s = 0; s < numStates; ++s)
    flow.addState(first + numData + s, static_cast<size_t>(p.numOutData) + s, isZero[s]);
  flow.addHeads(static_cast<size_t>(numSaved(p.saved)), static_cast<size_t>(p.numOutData) + numStates, true);
  return std::move(flow).finish();
}

uint32_t numVisibleOf(const NodeKind &kind) {
  const ScanParams &p = kind.params<ScanParams>();
  return static_cast<uint32_t>(std::min<int64_t>(p.numOutData + p.numStates, kMaxIndex + 1));
}

constexpr OpDef scanOperator() {
  OpDef op = flowOperator(
      "_scan",
      "runs its body for each row of the data, up or down, at most as often as the first input says; stacks what it "
      "yields, rows not run are zero, and carries states from one step to the next");
  op.inputs = {{}, [](const NodeKind &kind) { return static_cast<uint32_t>(kind.params<ScanParams>().numArgs); }, true};
  op.outputs = {{}, [](const NodeKind &kind) {
                  return numVisibleOf(kind) + static_cast<uint32_t>(numSaved(kind.params<ScanParams>().saved));
                }};
  op.visibleOutputs = numVisibleOf;
  op.attrs = kScanAttrs;
  op.params = paramsOf<ScanParams>();
  op.flow = scanFlow;
  op.gradient = loopGradient;
  op.irreducible = {};
  op.primitive = {.onnx = "Scan; Loop where the number of steps is an input",
                  .c = "for (t = 0; t < steps; ++t) body(x[t], state, z)"};
  return op;
}

}  // namespace

constinit const OpDef kScan = scanOperator();

bool isShortData(const NodeKind &kind, uint32_t operand) {
  if (kind.op != &kScan) return false;
  const ScanParams &p = kind.params<ScanParams>();
  return p.shortData && is_contained(*p.shortData, static_cast<int64_t>(operand) - p.hasSteps);
}

// A loop of as many steps, which touches no other rows (CF-20).
Expected<KindRef> sumOfRows(Context &context, size_t count, int64_t length) {
  GraphBuilder body(context);
  SmallVector<Value, 4> rows;
  std::string places = "(";
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(body.addVariable("row_" + utostr(i), Attrs()));
    places += utostr(i) + ",";
  }
  places += ")";
  const std::string stacks = utostr(count), args = utostr(count + 1),
                    numRows = length == kUnknownDim ? "None" : itostr(length);
  const Attrs sumAttrs = context.attrs(AttrText{"num_args", stacks});
  const NodeId sum = body.addKind(cantFail(context.kind(kElementWiseSum, sumAttrs)), rows, NodeId());
  body.setName(sum, "sum", "");
  const Attrs attrs = context.attrs({{"num_args", args},
                                     {"num_data", stacks},
                                     {"num_states", "0"},
                                     {"num_out_data", "1"},
                                     {"has_steps", "True"},
                                     {"length", numRows},
                                     {"stacks", places},
                                     {"short_data", places},
                                     {"short_out_data", "(0,)"}});
  return context.kind(kScan, attrs, cantFail(std::move(body).freeze({Value{sum}}, {})).graph);
}

namespace {
constexpr const OpDef *kOps[] = {&kScan};
}  // namespace

constinit const OpFamily kScanFamily = kOps;

}  // namespace gradc
