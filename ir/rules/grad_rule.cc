// Emission on behalf of a node. Tested by tests/passes/gradient/gradient_test.cc
#include "ir/rules/grad_rule.h"

#include "ir/base/error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {

RuleContext::RuleContext(GraphBuilder &builder, NodeId node, NodeId origin, StringLiteral title)
    : builder(builder), node(node), origin(origin), nodeKind(builder.kind(node)), titleOfRule(title) {
  ArrayRef<Value> values = builder.inputs(node);
  inputs.assign(values.begin(), values.end());
}

void RuleContext::fail(Error error) {
  if (failed) consumeError(std::move(error));
  else failure = std::move(error);
  failed = true;
}

void RuleContext::failIndex(size_t i, size_t count, StringLiteral what) {
  fail(Failure(ErrorKind::GradientCount, title() + " " + what + " " + Twine(i) + ", but the node has " + Twine(count)));
}

void RuleContext::failEntry(Value v, const Twine &what) {
  std::string found = "an invalid value";
  if (v.node.value < builder.numNodes())
    found = ("output " + Twine(v.index) + " of operator '" + builder.kind(v.node).spelling + "', which has " +
             Twine(builder.numOutputs(v.node)))
                .str();
  else if (v.isValid()) found = "an output of node " + utostr(v.node.value) + ", which does not exist";
  fail(Failure(ErrorKind::BadEntry, title() + " " + what + " " + found));
}

Value RuleContext::at(Value v, size_t output) {
  if (!check(Value{v.node}, "reads an output of")) return anyValue();
  const uint32_t count = builder.numOutputs(v.node);
  if (output < count) return Value{v.node, static_cast<uint16_t>(output), 0};
  fail(Failure(ErrorKind::BadEntry, title() + " reads output " + Twine(output) + " of operator '" +
                                        builder.kind(v.node).spelling + "', which has " + Twine(count)));
  return anyValue();
}

Value RuleContext::emit(const OpDef &op, ArrayRef<Value> operands, const Attrs &attrs, ArrayRef<Graph> bodies) {
  for (size_t i = 0; i < operands.size() && !failed; ++i)
    if (!exists(operands[i])) failEntry(operands[i], "emits '" + op.name + "' with operand " + Twine(i) + ", which is");
  if (failed) return anyValue();
  Expected<KindId> kind = builder.kindId(op, attrs, bodies);
  if (kind) {
    uint32_t arity = builder.kind(*kind).numInputs;
    if (arity == operands.size() || arity == NodeKind::kAnyInputs)
      return Value{builder.addKind(*kind, operands, origin)};
    fail(Failure(ErrorKind::Arity, title() + " emits '" + op.name + "' with " + countOf(operands.size(), "input") +
                                       ", but it takes " + Twine(arity)));
  } else {
    fail(amend(kind.takeError(), [&](GradcError &info) {
      info.message = (title() + " emits '" + op.name + "': " + info.message).str();
    }));
  }
  return anyValue();
}

Value RuleContext::emit(const OpDef &op, std::initializer_list<Value> operands, std::initializer_list<AttrText> attrs) {
  const Attrs list = context().attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size()));
  return emit(op, ArrayRef<Value>(operands.begin(), operands.size()), list);
}

Value RuleContext::emitFused(const OpDef &backward, ArrayRef<Value> operands, const Attrs &attrs, NodeId forwardOf) {
  if (forwardOf.isValid()) check(Value{forwardOf}, "emits '" + backward.name + "' as the gradient of");
  Value v = emit(backward, operands, attrs);
  if (hasFailed() || !forwardOf.isValid()) return v;
  builder.addControlDep(v.node, forwardOf);
  gradientNodes.push_back({v.node, forwardOf});
  return v;
}

StringRef RuleContext::number(double value) {
  SmallString<32> text;
  raw_svector_ostream os(text);
  printAttr(os, value);
  return numbers.emplace_front(text.str());
}

StringRef RuleContext::number(int64_t value) { return numbers.emplace_front(std::to_string(value)); }

StringRef RuleContext::tuple(Dims list) {
  SmallString<32> text;
  raw_svector_ostream os(text);
  printAttr(os, list);
  return numbers.emplace_front(text.str());
}

GradRule::GradRule(GraphBuilder &builder, NodeId node, NodeId origin, HeadGradients heads, ArrayRef<bool> wanted)
    : RuleContext(builder, node, origin, "gradient rule"), heads(heads), wanted(wanted),
      slots(inputs.size(), Slot::Unanswered), isByFused(inputs.size(), false), gradients(inputs.size()) {}

SmallVector<Value, 8> GradRule::headGradients() {
  SmallVector<Value, 8> values;
  for (size_t i = 0; i < numOutputs(); ++i) values.push_back(dy(i));
  return values;
}

Value GradRule::dy(size_t i) {
  if (!check(i, heads.values.size(), kHeadGradient)) return anyValue();
  return isZero(i) ? heads.materialize(heads.driver, i) : heads.values[i];
}

bool GradRule::mayAnswer(size_t i) {
  if (!check(i, slots.size(), "gives the gradient of input")) return false;
  const bool isFree = slots[i] == Slot::Unanswered || isByFused[i];
  if (!isFree) failTwice(i);
  isByFused[i] = false;
  return isFree;
}

void GradRule::failTwice(size_t i) {
  fail(Failure(ErrorKind::GradientCount, title() + " gives the gradient of input " + Twine(i) + " twice"));
}

// An invalid value is kept: the driver reports it as a null gradient (E-41).
void GradRule::dx(size_t i, Value value) {
  if (!mayAnswer(i)) return;
  if (value.isValid() && !check(value, "gives as the gradient of input " + Twine(i))) return;
  slots[i] = Slot::Gradient;
  gradients[i] = value;
}

void GradRule::noGrad(size_t i) {
  if (mayAnswer(i)) slots[i] = Slot::None;
}

Value GradRule::fused(const OpDef &backward, ArrayRef<Value> operands, const Attrs &attrs) {
  Value v = emitFused(backward, operands, attrs, node);
  for (size_t i = 0; i < inputs.size() && !failed; ++i) {
    if (isByFused[i]) failTwice(i);
    if (slots[i] != Slot::Unanswered) continue;
    if (i < builder.numOutputs(v.node)) dx(i, at(v, i));
    else noGrad(i);
    isByFused[i] = true;
  }
  return v;
}

void GradRule::clone() {
  for (size_t i = 0; i < inputs.size(); ++i) dx(i, dy(0));
}

DecomposeRule::DecomposeRule(GraphBuilder &builder, NodeId node, NodeId origin)
    : RuleContext(builder, node, origin, "decomposition"), outputs(nodeKind.numOutputs) {}

void DecomposeRule::y(size_t i, Value value) {
  if (!check(i, outputs.size(), "gives output")) return;
  if (outputs[i].isValid())
    return fail(Failure(ErrorKind::GradientCount, title() + " gives output " + Twine(i) + " twice"));
  if (check(value, "gives as output " + Twine(i))) outputs[i] = value;
}

void DecomposeRule::wait(Value later, Value earlier) {
  if (check(later, "orders") && check(earlier, "orders")) waiting.push_back({later.node, earlier.node});
}

Value DecomposeRule::forward(size_t i) {
  if (!forwardNode.isValid()) return Value();
  const uint32_t count = builder.numOutputs(forwardNode);
  if (i < count) return Value{forwardNode, static_cast<uint16_t>(i), 0};
  fail(Failure(ErrorKind::GradientCount,
               title() + " reads output " + Twine(i) + " of its forward node, which has " + Twine(count)));
  return anyValue();
}

Value DecomposeRule::forwardInput(size_t i) {
  if (!forwardNode.isValid()) {
    refuse(ErrorKind::BackwardMatch, "reads input " + Twine(i) + " of its forward node, and this node has none");
    return anyValue();
  }
  ArrayRef<Value> values = builder.inputs(forwardNode);
  if (i < values.size()) return values[i];
  fail(Failure(ErrorKind::GradientCount,
               title() + " reads input " + Twine(i) + " of its forward node, which has " + Twine(values.size())));
  return anyValue();
}

void DecomposeRule::refuse(ErrorKind kind, const Twine &text) {
  refused |= !failed;
  fail(Failure(kind, title() + " " + text));
}

// Names an entry by its position at the node or at its forward node, as in the text of a rule.
std::string DecomposeRule::describe(Value v) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == v) return ("input " + Twine(i) + ", '" + inputName(nodeKind, i) + "'").str();
  if (v.node == node) return ("output " + Twine(v.index)).str();
  ArrayRef<Value> values = forwardNode.isValid() ? builder.inputs(forwardNode) : ArrayRef<Value>();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] == v)
      return ("input " + Twine(i) + ", '" + inputName(builder.kind(forwardNode), i) + "', of its forward node").str();
  return exists(v) && builder.kind(v.node).op
             ? ("operator '" + builder.kind(v.node).op->name + "', which it emits").str()
             : "another value";
}

size_t DecomposeRule::rank(Value v) {
  const ShapeRef known = shape(v);
  if (known.hasRank()) return known.rank();
  refuse(ErrorKind::InferMissing, "needs the number of axes of " + describe(v) + ", which is unknown");
  return 1;
}

int64_t DecomposeRule::size(Value v, int64_t axis) {
  const ShapeRef known = shape(v);
  if (known.hasRank()) {
    std::optional<size_t> at = normalizeAxis(axis, known.rank());
    if (at && known[*at] != kUnknownDim) return known[*at];
  }
  refuse(ErrorKind::InferMissing,
         "needs the size of axis " + Twine(axis) + " of " + describe(v) + ", which is unknown");
  return 1;
}

}  // namespace gradc
