// MXNet stacks the first heads of a body and carries the others as states, so heads that a gradient added move in front
// of the states. Tested by tests/passes/lowering/lower_loops_test.cc
#include "passes/targets/mxnet/mxnet_loops.h"

#include "passes/targets/mxnet/mxnet_body.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Role = BodyFlow::Operand;

// The type of step numbers: MXNet compares only operands of one type.
constexpr StringRef kCountType = "float64";

// Refuses if a body yields what it drew: MXNet's executor runs bodies outside training, where Dropout keeps nothing.
bool yieldsDraws(DecomposeRule &d) {
  for (const Graph &body : d.kind().bodies)
    for (Value head : body.heads())
      if (body.kind(head.node).draws && head.index > 0)
        return d.refuse(ErrorKind::UnsupportedOption,
                        "reads what " + body.describe(head.node) + " draws, which MXNet does not keep in a body"),
               true;
  return false;
}

// Zeros whose shape and type follow only from the other branch, which MXNet does not know inside a branch.
bool isShapelessZero(const Graph &body, Value head) {
  return !body.isVariable(head.node) && body.op(head.node) == &kZerosPlaceholder;
}

// Counts and decisions keep their type, so that the other branch of a `_cond` around them yields zeros of the same one.
Value castToInt64(DecomposeRule &d, Value v) { return d.emit(kCast, {v}, {{"dtype", "int64"}}); }

bool isFull(ShapeRef shape) { return shape.hasRank() && shape.numUnknown() == 0; }

const OpDef &op(DecomposeRule &d, StringRef name) { return *d.context().ops.find(name); }

StringRef countText(DecomposeRule &d, size_t count) { return d.number(static_cast<int64_t>(count)); }

StringRef placesText(DecomposeRule &d, ArrayRef<uint32_t> operandOf) {
  return d.tuple(DimsBuffer(operandOf.begin(), operandOf.end()));
}

/// Variables of a body, each with the node's operand for it.
struct Ports {
  SmallVector<NodeId, 8> variables;
  SmallVector<Value, 8> operands;

  void add(NodeId variable, Value operand) {
    variables.push_back(variable);
    operands.push_back(operand);
  }
  StringRef locations(DecomposeRule &d, const MxnetBody::Finished &body) const {
    DimsBuffer places;
    for (NodeId v : variables) places.push_back(static_cast<int64_t>(body.positionOf[v.value]));
    return d.tuple(places);
  }
};

/// A state of a `_foreach`: its next value, computed in the body, and its start value.
struct State {
  Value next, start;
  NodeId variable = {};  // invalid: the body does not read it
};

class ForeachRule {
 public:
  explicit ForeachRule(DecomposeRule &d)
      : d(d), flow(*d.kind().flow), ports(flow.bodies.back()), old(d.kind().bodies.back()), body(d.context(), old) {}

  void run() {
    if (yieldsDraws(d)) return;
    giveInputs();
    if (flow.countOperand) maskByCount();
    if (flow.isDecision(0)) maskByCondition();
    if (data.variables.empty()) addLength();
    if (d.hasRefused()) return;
    if (mask.isValid() && !d.kind().mutated.isEmpty())
      return d.refuse(ErrorKind::UnsupportedOption, "overwrites a variable in steps that may not run");
    yieldRows();
    yieldStates();
    emit();
  }

 private:
  Value inOrder(Value rows) { return flow.isReverse ? d.emit(kReverse, {rows}, {{"axis", "(0,)"}}) : rows; }

  // MXNet has no values without axes: a row of a vector has one.
  Value rowsOf(uint32_t operand) {
    const ShapeRef shape = d.shape(d.x(operand));
    if (flow.isStack[operand] && shape.hasRank() && shape.rank() == 1)
      d.refuse(ErrorKind::UnsupportedOption,
               "reads values without axes that a loop stacked as input " + Twine(operand) + ", and MXNet has none");
    return d.x(operand);
  }

  void giveInputs() {
    for (const BodyFlow::State &state : flow.states) {
      stateOf[state.operand] = states.size();
      const Value given = d.x(state.operand);
      states.push_back({old.heads()[state.head], state.startsAtZero ? d.emit(kZerosLike, {given}) : given});
    }
    for (size_t i = 0; i < ports.inputs.size(); ++i) {
      const uint32_t operand = ports.operandOf[i];
      if (flow.operands[operand] == Role::Whole) others.add(ports.inputs[i], d.x(operand));
      if (flow.operands[operand] == Role::Rows) data.add(ports.inputs[i], inOrder(rowsOf(operand)));
      if (flow.operands[operand] != Role::State) continue;
      State &state = states[stateOf.lookup(operand)];
      // A state that two inputs read becomes two states.
      if (state.variable.isValid()) states.push_back({state.next, state.start, ports.inputs[i]});
      else state.variable = ports.inputs[i];
    }
  }

  /// The first sliced operand; invalid if there is none.
  Value firstRows() {
    auto at = llvm::find(flow.operands, Role::Rows);
    return at == flow.operands.end() ? Value() : d.x(static_cast<size_t>(at - flow.operands.begin()));
  }

  int64_t length() { return flow.maxSteps != kUnknownDim ? flow.maxSteps : d.size(firstRows(), 0); }

  Value rowNumbers() {
    const int64_t rows = length();
    if (rows == 0) d.refuse(ErrorKind::UnsupportedOption, "has no rows, and MXNet does not support empty arrays");
    return d.emit(op(d, "_arange"), {},
                  {{"start", "0"}, {"stop", d.number(std::max<int64_t>(rows, 1))}, {"dtype", kCountType}});
  }

  void maskByCount() {
    const Value count = d.emit(kCast, {d.x(*flow.countOperand)}, {{"dtype", kCountType}});
    mask = body.variable("is_run");
    data.add(mask.node, inOrder(d.emit(kBroadcastLesser, {rowNumbers(), count})));
  }

  // A step runs if all earlier ones did and the condition holds: the number of steps run is a state.
  void maskByCondition() {
    const Value row = body.variable("row"), count = body.variable("num_run");
    data.add(row.node, rowNumbers());
    SmallVector<Value, 8> given;
    const BodyFlow::Body &condition = flow.bodies[0];
    for (uint32_t operand : condition.operandOf) given.push_back(operandInside(operand));
    const Value holds = body.emit(kReshape, body.inlined(d.kind().bodies[0], given), {{"shape", "(1,)"}});
    const Value runs = body.emit(kNotEqualScalar, holds, {{"scalar", "0"}});
    const Value isNext = body.emit(kEqual, {row, count});
    mask = body.emit(op(d, "where"), {isNext, runs, body.emit(kZerosLike, runs)});
    numRun = states.size();
    const Value zero = d.emit(kFull, {}, {{"shape", "(1,)"}, {"dtype", kCountType}, {"value", "0"}});
    states.push_back({body.emit(kPlusScalar, count, {{"scalar", "1"}}), zero, count.node});
  }

  /// The value of the node's operand inside a step.
  Value operandInside(uint32_t operand) {
    if (auto state = stateOf.find(operand); state != stateOf.end()) return Value{states[state->second].variable};
    for (size_t i = 0; i < ports.inputs.size(); ++i)
      if (ports.operandOf[i] == operand) return Value{ports.inputs[i]};
    const Value v = body.variable("in_" + std::to_string(operand));
    others.add(v.node, d.x(operand));
    return v;
  }

  // MXNet requires a sliced operand that the body reads.
  void addLength() {
    const Value rows = firstRows();
    unread = body.variable("row").node;
    data.add(unread, rows.isValid() ? rows : rowNumbers());
  }

  void yieldRows() {
    for (size_t h = 0; h < ports.outputOf.size(); ++h) {
      if (!flow.isStacked[ports.outputOf[h]]) continue;
      stacked.push_back(ports.outputOf[h]);
      const Value row = old.heads()[h];
      yield(mask.isValid() ? body.select(mask, row, body.emit(kZerosLike, row)) : row);
    }
  }

  void yieldStates() {
    for (State &state : states) {
      const bool isRead = state.variable.isValid();
      if (!isRead) state.variable = body.variable("state").node;
      if (mask.isValid()) yield(body.select(mask, state.next, Value{state.variable}));
      else yield(isRead ? state.next : body.reading(state.next, state.variable));
      starts.add(state.variable, state.start);
    }
  }

  void yield(Value value) {
    if (unread.isValid()) value = body.reading(value, std::exchange(unread, NodeId()));
    body.yield(value);
  }

  void emit() {
    const MxnetBody::Finished made = std::move(body).finish();
    SmallVector<Value, 16> operands;
    for (const Ports *list : {&data, &starts, &others}) append_range(operands, list->operands);
    const Attrs attrs = d.context().attrs({{"num_args", countText(d, operands.size() + 1)},
                                           {"num_outputs", countText(d, stacked.size() + states.size())},
                                           {"num_out_data", countText(d, stacked.size())},
                                           {"in_data_locs", data.locations(d, made)},
                                           {"in_state_locs", starts.locations(d, made)},
                                           {"remain_locs", others.locations(d, made)}});
    const Value loop = d.emit(op(d, "_foreach"), operands, attrs, made.graph);
    for (size_t o = 0; o < stacked.size() && !d.hasFailed(); ++o) d.y(stacked[o], inOrder(d.at(loop, o)));
    for (size_t s = 0; s < flow.states.size() && !d.hasFailed(); ++s)
      d.y(ports.outputOf[flow.states[s].head], d.at(loop, stacked.size() + s));
    if (flow.countOutput && !d.hasFailed()) d.y(*flow.countOutput, castToInt64(d, d.at(loop, stacked.size() + numRun)));
  }

  DecomposeRule &d;
  const BodyFlow &flow;
  const BodyFlow::Body &ports;
  const Graph &old;
  MxnetBody body;
  Ports data, starts, others;
  SmallVector<State, 8> states;        // the flow's, then added ones
  DenseMap<uint32_t, size_t> stateOf;  // by operand
  SmallVector<uint32_t, 8> stacked;    // outputs of the node
  size_t numRun = 0;                   // which state counts the steps
  Value mask;                          // of a row: whether its step runs; invalid: all do
  NodeId unread;                       // a variable that something has to read
};

}  // namespace

void mxnetLoop(DecomposeRule &d) { ForeachRule(d).run(); }

void mxnetCond(DecomposeRule &d) {
  const BodyFlow &flow = *d.kind().flow;
  if (yieldsDraws(d)) return;
  SmallVector<Graph, 3> bodies;
  MxnetBody decision(d.context(), d.kind().bodies[0]);
  decision.yield(d.kind().bodies[0].heads()[0]);
  bodies.push_back(std::move(decision).finish().graph);
  for (size_t b : {1, 2}) {
    const Graph &old = d.kind().bodies[b];
    MxnetBody branch(d.context(), old);
    DenseMap<uint32_t, size_t> headOf;  // by output
    Value known;                        // its type is that of zeros of unknown type
    for (size_t h = 0; h < old.heads().size(); ++h) {
      if (isShapelessZero(old, old.heads()[h])) continue;
      headOf[flow.bodies[b].outputOf[h]] = h;
      if (!known.isValid()) known = old.heads()[h];
    }
    for (uint32_t o = 0; o < d.numOutputs() && !d.hasRefused(); ++o) {
      if (auto at = headOf.find(o); at != headOf.end()) branch.yield(old.heads()[at->second]);
      else if (o == flow.decisionOutput)
        branch.yield(branch.emit(kFull, {}, {{"shape", "(1,)"}, {"dtype", "float32"}, {"value", b == 1 ? "1" : "0"}}));
      else {
        const ShapeRef shape = d.shape(d.self(o));
        if (!isFull(shape) || !known.isValid())
          return d.refuse(ErrorKind::InferMissing,
                          "needs the shape of output " + Twine(o) + ", because both branches must yield it");
        branch.yield(branch.zeros(d.dtype(d.self(o)), known, shape.dims()));
      }
    }
    bodies.push_back(std::move(branch).finish().graph);
  }
  SmallVector<Value, 16> operands;
  for (size_t i = 0; i < d.numInputs(); ++i) operands.push_back(d.x(i));
  const Attrs attrs = d.context().attrs({{"num_args", countText(d, operands.size() + 3)},
                                         {"num_outputs", countText(d, d.numOutputs())},
                                         {"cond_input_locs", placesText(d, flow.bodies[0].operandOf)},
                                         {"then_input_locs", placesText(d, flow.bodies[1].operandOf)},
                                         {"else_input_locs", placesText(d, flow.bodies[2].operandOf)}});
  const Value made = d.emit(op(d, "_cond"), operands, attrs, bodies);
  for (size_t o = 0; o < d.numOutputs() && !d.hasFailed(); ++o) d.y(o, d.at(made, o));
}

void mxnetSelect(DecomposeRule &d) {
  const BodyFlow &flow = *d.kind().flow;
  if (yieldsDraws(d)) return;
  if (!d.kind().mutated.isEmpty())
    return d.refuse(ErrorKind::UnsupportedOption, "overwrites a variable in a branch that may not be taken");
  auto emit = [&](const OpDef &op, ArrayRef<Value> operands, ArrayRef<AttrText> attrs) {
    return d.emit(op, operands, d.context().attrs(attrs));
  };
  auto copy = [&](const Graph &body, NodeId n, ArrayRef<Value> operands) {
    if (body.op(n)->flags.isOpaque)
      d.refuse(ErrorKind::UnknownOp, "has the unknown operator '" + body.opName(n) + "' in a branch");
    return d.emit(*body.op(n), operands, body.attrs(n), body.bodies(n));
  };
  SmallVector<SmallVector<Value, 8>, 3> outputs;  // by body: by output of the node
  BitVector isShapeless(d.numOutputs());          // of one branch
  for (const auto &[body, ports] : zip(d.kind().bodies, flow.bodies)) {
    SmallVector<Value, 8> given;
    for (uint32_t operand : ports.operandOf) given.push_back(d.x(operand));
    const SmallVector<Value, 8> heads = inlinedHeads(copy, body, given);
    outputs.emplace_back(d.numOutputs());
    for (size_t h = 0; h < ports.outputOf.size(); ++h) {
      Value &output = outputs.back()[ports.outputOf[h]];
      if (isShapelessZero(body, body.heads()[h])) isShapeless.set(ports.outputOf[h]);
      else output = heads[h];
    }
    if (outputs.size() == 1) outputs[0] = {d.emit(kReshape, {heads[0]}, {{"shape", "(1,)"}})};
  }
  const Value decision = outputs[0][0];
  for (uint32_t o = 0; o < d.numOutputs() && !d.hasFailed(); ++o) {
    Value first = outputs[1][o], second = outputs[2][o];
    if (isShapeless[o] && first.isValid() != second.isValid())
      (first.isValid() ? second : first) = d.emit(kZerosLike, {first.isValid() ? first : second});
    if (o == flow.decisionOutput) d.y(o, castToInt64(d, d.emit(kNotEqualScalar, {decision}, {{"scalar", "0"}})));
    else if (first.isValid() && second.isValid()) d.y(o, chosen(emit, op(d, "where"), decision, first, second));
    else d.y(o, first.isValid() ? first : second);  // for the gradient of only one branch
  }
}

void mxnetSumLike(DecomposeRule &d) {
  const ShapeRef from = d.shape(d.x(0)), to = d.shape(d.x(1));
  if (!isFull(from) || !isFull(to)) return;
  DimsBuffer axes;
  const size_t added = from.rank() - to.rank();
  for (size_t i = 0; i < from.rank(); ++i)
    if (i < added || (to[i - added] == 1 && from[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  const Value sum = axes.empty() ? d.x(0) : d.emit(kSum, {d.x(0)}, {{"axis", d.tuple(axes)}});
  d.y(0, d.emit(kReshapeLike, {sum, d.x(1)}));
}

bool isMxnetFlow(const NodeKind &kind) {
  if (kind.numVisible != kind.numOutputs) return false;
  return llvm::all_of(kind.bodies, [](const Graph &body) {
    std::set<std::pair<uint32_t, uint16_t>> seen;
    return llvm::all_of(body.heads(), [&](Value head) {
      return !body.isVariable(head.node) && !isShapelessZero(body, head) &&
             seen.insert({head.node.value, head.index}).second;
    });
  });
}

bool isInMxnetBodies(const NodeKind &kind) {
  static constexpr StringRef kWithout[] = {"_cond", "_slice_assign", "_while_loop"};
  if (kind.op->name == "_backward_gather_nd") return kind.attrs.get("shape").has_value();
  if (kind.op->flags.isBackward)
    return false;  // their shapes come from the forward node, which a step need not compute
  return !is_contained(kWithout, kind.op->name);
}

}  // namespace gradc
