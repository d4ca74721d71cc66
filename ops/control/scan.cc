// The loop that gradients of loops emit: it visits its rows upward or downward, and may end early.
// Tested by tests/ops/control_flow_test.cc
#include "ops/control/scan.h"

#include "ir/graph/graph_builder.h"
#include "ops/control/flow_operator.h"
#include "ops/control/loop_gradient.h"
#include "ops/control/rebody.h"
#include "ops/kit/primitives.h"

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

  int64_t numInputs() const { return numArgs; }
  int64_t numVisible() const { return std::min<int64_t>(numOutData + numStates, kMaxIndex + 1); }
  int64_t numHidden() const { return numSaved(saved); }
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
        "which data, state or other input, counted from the first data, each input of the body is given; None: in this "
        "order"),
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

constexpr OpDef scanOperator() {
  OpDef op = flowOperator<ScanParams>(
      "_scan",
      "runs its body for each row of the data, up or down, at most as often as the first input says; stacks what it "
      "yields, rows not run are zero, and carries states from one step to the next",
      kScanAttrs);
  op.flow = scanFlow;
  op.rebody = [](Context &context, const NodeKind &kind, const NewBodies &given) {
    return context.kind(kScan, scanAttrs(context, kind, operandsOf(kind, given, 0), given.numAdded), given.bodies);
  };
  op.gradient = loopGradient;
  op.primitive = {.onnx = "Scan; Loop where the number of steps is an input",
                  .c = "for (t = 0; t < steps; ++t) body(x[t], state, z)"};
  return op;
}

}  // namespace

constinit const OpDef kScan = scanOperator();

Attrs scanAttrs(Context &context, const NodeKind &loop, ArrayRef<uint32_t> operandOf, size_t numAdded) {
  const BodyFlow &flow = *loop.flow;
  const size_t first = flow.countOperand.has_value();
  auto number = [&](BodyFlow::Operand role) { return std::to_string(llvm::count(flow.operands, role)); };
  std::vector<int64_t> locations;
  for (uint32_t operand : operandOf) locations.push_back(static_cast<int64_t>(operand) - static_cast<int64_t>(first));
  size_t numOutData = numAdded;  // stacked outputs that are visible
  for (uint32_t o = 0; o < loop.numVisible; ++o) numOutData += flow.isStacked[o];
  const std::string args = std::to_string(flow.operands.size()), outs = std::to_string(numOutData),
                    data = number(BodyFlow::Operand::Rows), states = number(BodyFlow::Operand::State),
                    text = listText(locations), length = std::to_string(flow.maxSteps);
  SmallVector<AttrText, 16> attrs = {
      {"num_args", args}, {"num_data", data}, {"num_states", states}, {"num_out_data", outs}, {"input_locs", text}};
  if (flow.countOperand) attrs.push_back({"has_steps", "True"});
  if (flow.isReverse) attrs.push_back({"reverse", "True"});
  if (flow.maxSteps != kUnknownDim) attrs.push_back({"length", length});
  std::vector<size_t> zeros;
  for (auto [s, state] : enumerate(flow.states))
    if (state.startsAtZero) zeros.push_back(s);
  const std::string zeroText = listText(zeros);
  if (!zeros.empty()) attrs.push_back({"zero_states", zeroText});
  for (StringRef key : {"stacks", "short_data", "short_out_data"})
    if (const std::optional<StringRef> list = loop.attrs.get(key); list && loop.op == &kScan)
      attrs.push_back({key, *list});
  for (const AttrText &attr : loop.attrs.pairs())
    if (StringRef(attr.key).substr(0, 2) == "__") attrs.push_back(attr);
  return context.attrs(attrs);
}

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

constinit const OpFamily kScanFamily = kOps<kScan>;

}  // namespace gradc
