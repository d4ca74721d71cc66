// Checks of location lists and counts. Tested by tests/ops/control_flow_test.cc
#include "ir/graph/body_flow.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/effects.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

std::vector<NodeId> bodyInputs(const Graph &body) {
  std::vector<NodeId> inputs;
  for (uint32_t n = 0; n < body.numNodes(); ++n)
    if (body.isVariable(NodeId(n))) inputs.push_back(NodeId(n));
  return inputs;
}

FlowBuilder::FlowBuilder(const NodeKind &kind, BodyFlow::Form form) : kind(kind) {
  made.form = form;
  made.isStacked.assign(kind.numOutputs, false);
  made.isShort.assign(kind.numOutputs, false);
}

void FlowBuilder::expect(bool holds, const Twine &text) {
  if (holds || failed) return;
  failed = true;
  failure = Failure(ErrorKind::BadAttribute, text);
}

void FlowBuilder::addOperands(BodyFlow::Operand role, size_t count) {
  made.operands.resize(made.operands.size() + count, role);
  made.isStack.resize(made.operands.size(), false);
}

bool FlowBuilder::lacksNextBody() const {
  return !failed && made.form == BodyFlow::Form::Branch && kind.bodies.size() == 2 && made.bodies.size() == 2;
}

const Graph *FlowBuilder::nextBody() {
  const size_t position = made.bodies.size();
  expect(position < kind.bodies.size(),
         "operator '" + kind.op->name + "' takes more bodies than the " + Twine(kind.bodies.size()) + " given");
  if (failed) return nullptr;
  made.bodies.emplace_back().inputs = bodyInputs(kind.bodies[position]);
  return &kind.bodies[position];
}

void FlowBuilder::addBody(StringRef list, ArrayRef<int64_t> operandOf) {
  if (lacksNextBody()) {
    made.bodies.emplace_back();
    passedOn = list;
  } else if (!nextBody()) {
    return;
  }
  BodyFlow::Body &body = made.bodies.back();
  expect(operandOf.size() == body.inputs.size() || !passedOn.empty(),
         "attribute '" + list + "' has " + countOf(operandOf.size(), "element") + ", expected " +
             Twine(body.inputs.size()) + ", one for each input of " +
             bodyName(kind.bodies.size(), made.bodies.size() - 1));
  for (size_t i = 0; i < operandOf.size() && !failed; ++i) {
    expect(operandOf[i] >= 0 && static_cast<uint64_t>(operandOf[i]) < made.operands.size(),
           "element " + Twine(i) + " of attribute '" + list + "' is " + Twine(operandOf[i]) +
               ", expected an input of the node, 0 to " + Twine(made.operands.size()) + " exclusive");
    body.operandOf.push_back(static_cast<uint32_t>(operandOf[i]));
  }
}

void FlowBuilder::addBody(ArrayRef<Locations> lists) {
  if (!nextBody()) return;
  BodyFlow::Body &body = made.bodies.back();
  const size_t count = body.inputs.size();
  const std::string name = bodyName(kind.bodies.size(), made.bodies.size() - 1);
  BitVector isGiven(static_cast<unsigned>(count));
  body.operandOf.assign(count, 0);
  for (const Locations &from : lists)
    for (size_t i = 0; i < from.positions.size() && !failed; ++i) {
      const int64_t at = from.positions[i];
      const std::string element = ("element " + Twine(i) + " of attribute '" + from.list + "' is " + Twine(at)).str();
      expect(at >= 0 && static_cast<uint64_t>(at) < count,
             element + ", expected an input of " + name + ", 0 to " + Twine(count) + " exclusive");
      if (failed) return;
      expect(!isGiven[static_cast<unsigned>(at)], element + ", expected each input of " + name + " once");
      isGiven.set(static_cast<unsigned>(at));
      body.operandOf[static_cast<size_t>(at)] = static_cast<uint32_t>(from.firstOperand + i);
    }
  expect(isGiven.all(),
         "input " + Twine(isGiven.find_first_unset()) + " of " + name + " is missing from all location lists");
}

void FlowBuilder::addHeads(size_t count, size_t firstOutput, bool isStacked) {
  if (failed) return;
  for (size_t i = 0; i < count; ++i) {
    made.bodies.back().outputOf.push_back(static_cast<uint32_t>(firstOutput + i));
    made.isStacked[firstOutput + i] = isStacked;
  }
}

void FlowBuilder::addState(size_t operand, size_t output, bool startsAtZero) {
  if (failed) return;
  std::vector<uint32_t> &outputs = made.bodies.back().outputOf;
  made.states.push_back({static_cast<uint32_t>(operand), static_cast<uint32_t>(outputs.size()), startsAtZero});
  outputs.push_back(static_cast<uint32_t>(output));
}

// By entry: whether the heads, or a node with effects, need its contents.
static BitVector readEntries(const Graph &graph) {
  BitVector isRead(graph.numEntries());
  for (Value head : graph.heads()) isRead.set(graph.entry(head).value);
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    const NodeKind &kind = graph.kind(NodeId(n));
    const uint32_t first = graph.firstEntry(NodeId(n)).value, end = first + graph.numOutputs(NodeId(n));
    if (kind.isVariable() || (!hasEffects(kind) && isRead.find_first_in(first, end) < 0)) continue;
    ArrayRef<Value> inputs = graph.inputs(NodeId(n));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isIgnored(i)) isRead.set(graph.entry(inputs[i]).value);
  }
  return isRead;
}

// Inputs of a body that are given one operand share its memory: what one overwrites, the other must not use. Returns
// the first such pair, the input that is overwritten before the other.
static std::optional<std::pair<size_t, size_t>> sharedWrite(const BodyFlow::Body &body,
                                                            function_ref<bool(size_t)> isMutated,
                                                            function_ref<bool(size_t)> isUsed) {
  DenseMap<uint32_t, size_t> writer;  // by operand: the first input that overwrites it
  for (size_t i = 0; i < body.inputs.size(); ++i)
    if (isMutated(i)) writer.try_emplace(body.operandOf[i], i);
  for (size_t i = 0; i < body.inputs.size() && !writer.empty(); ++i)
    if (auto first = writer.find(body.operandOf[i]); first != writer.end() && first->second != i && isUsed(i))
      return std::pair(first->second, i);
  return std::nullopt;
}

void FlowBuilder::examineOperands(size_t b) {
  const BodyFlow::Body &body = made.bodies[b];
  const std::vector<NodeId> mutators = listMutators(kind.bodies[b]);
  const BitVector isRead = readEntries(kind.bodies[b]);
  const auto isMutated = [&](size_t i) { return mutators[body.inputs[i].value].isValid(); };
  const auto isUsed = [&](size_t i) { return isMutated(i) || isRead[kind.bodies[b].firstEntry(body.inputs[i]).value]; };
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const uint32_t operand = body.operandOf[i];
    if (isUsed(i)) made.isRead[operand] = true;
    if (!isMutated(i)) continue;
    made.isMutated[operand] = true;
    expect(made.operands[operand] == BodyFlow::Operand::Whole,
           bodyName(kind.bodies.size(), b) + " of operator '" + kind.op->name + "' overwrites '" +
               kind.bodies[b].name(body.inputs[i]) + "', which is sliced or carried from step to step");
  }
  if (const auto shared = failed ? std::nullopt : sharedWrite(body, isMutated, isUsed))
    expect(false, bodyName(kind.bodies.size(), b) + " of operator '" + kind.op->name + "' overwrites input " +
                      Twine(shared->first) + ", '" + kind.bodies[b].name(body.inputs[shared->first]) +
                      "', and uses input " + Twine(shared->second) + ", '" +
                      kind.bodies[b].name(body.inputs[shared->second]) + "', and both are given input " +
                      Twine(body.operandOf[shared->first]) + " of the node");
}

// A state is in place if the node of its head may compute the head in the state's memory, and nothing else in the loop
// reads it.
void FlowBuilder::findInPlaceStates() {
  if (made.states.empty()) return;
  const Graph &body = kind.bodies.back();
  std::vector<uint32_t> numReads(body.numNodes(), 0);  // by variable of the body
  for (uint32_t n = 0; n < body.numNodes(); ++n)
    for (Value v : body.inputs(NodeId(n))) ++numReads[v.node.value];
  for (Value head : body.heads()) ++numReads[head.node.value];
  std::vector<uint32_t> numGiven(made.operands.size(), 0);  // inputs of any body that receive the operand
  for (const BodyFlow::Body &ports : made.bodies)
    for (uint32_t operand : ports.operandOf) ++numGiven[operand];
  std::vector<NodeId> given(made.operands.size());  // the input of this body that receives the operand
  for (auto [input, operand] : llvm::zip(made.bodies.back().inputs, made.bodies.back().operandOf))
    given[operand] = input;
  for (BodyFlow::State &state : made.states) {
    const Value head = body.heads()[state.head];
    const NodeId variable = given[state.operand];
    if (numGiven[state.operand] != 1 || !variable.isValid() || body.isVariable(head.node)) continue;
    state.isInPlace = numReads[variable.value] == 1 && !body.kind(head.node).flow &&
                      llvm::any_of(body.op(head.node)->inplace, [&](InplacePair pair) {
                        ArrayRef<Value> inputs = body.inputs(head.node);
                        return pair.output == head.index && pair.input < inputs.size() &&
                               inputs[pair.input].node == variable && !body.kind(head.node).isIgnored(pair.input);
                      });
  }
}

Expected<BodyFlow> FlowBuilder::finish() && {
  if (!passedOn.empty()) {
    const size_t found = made.bodies.back().operandOf.size(), expected = made.bodies.back().outputOf.size();
    expect(found == expected, "attribute '" + passedOn + "' has " + countOf(found, "element") + ", expected " +
                                  Twine(expected) + ", one for each output, since body 2 is missing");
    if (failed) return std::move(failure);
    return std::move(made);  // Context::kind makes the kind again, with that body
  }
  expect(made.bodies.size() == kind.bodies.size(), "operator '" + kind.op->name + "' takes " +
                                                       countOf(made.bodies.size(), "body", "bodies") + ", got " +
                                                       Twine(kind.bodies.size()));
  const size_t most = made.form == BodyFlow::Form::Call ? 1 : made.form == BodyFlow::Form::Loop ? 2 : 3;
  const size_t least = made.form == BodyFlow::Form::Branch ? 3 : 1;
  expect(made.bodies.size() >= least && made.bodies.size() <= most,
         "operator '" + kind.op->name + "' has " + countOf(made.bodies.size(), "body", "bodies") + ", expected " +
             Twine(least) + (least < most ? " or " + Twine(most) : Twine()));
  for (size_t b = 0; b < made.bodies.size() && !failed; ++b) {
    const size_t expected = made.isDecision(b) ? 1 : made.bodies[b].outputOf.size(),
                 found = kind.bodies[b].heads().size();
    expect(found == expected, bodyName(kind.bodies.size(), b) + " of operator '" + kind.op->name + "' has " +
                                  countOf(found, "head") + ", expected " + Twine(expected));
  }
  // Also of a loop that decides before each step: runFlow has no other limit.
  expect(made.form != BodyFlow::Form::Loop || made.maxSteps != kUnknownDim ||
             llvm::is_contained(made.operands, BodyFlow::Operand::Rows),
         "the loop of operator '" + kind.op->name +
             "' has no sliced operand, and maxSteps is not set: the number of its steps is unknown");
  made.isRead.assign(made.operands.size(), false);
  made.isMutated.assign(made.operands.size(), false);
  for (size_t b = 0; b < made.bodies.size() && !failed; ++b) examineOperands(b);
  for (size_t i = 0; i < made.operands.size(); ++i)
    if (made.operands[i] == BodyFlow::Operand::State || made.operands[i] == BodyFlow::Operand::Count)
      made.isRead[i] = true;
  for (const BodyFlow::State &state : made.states)
    if (state.startsAtZero) made.isRead[state.operand] = false;
  if (failed) return std::move(failure);
  const bool mayEndEarly = made.countOutput || made.countOperand;
  for (uint32_t o = 0; o < kind.numOutputs; ++o)
    made.isShort[o] = made.isStacked[o] && mayEndEarly && (made.isShort[o] || o >= kind.numVisible);
  findInPlaceStates();
  return std::move(made);
}

}  // namespace gradc
