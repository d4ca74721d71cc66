// Emission on behalf of a node. Tested by tests/gradient_test.cc
#include "ir/grad_rule.h"

#include "ir/error.h"

#include "llvm/ADT/SmallString.h"

using namespace llvm;

namespace gradc {

RuleContext::RuleContext(GraphBuilder &builder, NodeId node, NodeId origin)
    : builder(builder), node(node), origin(origin), nodeKind(builder.kind(node)) {
  ArrayRef<Value> values = builder.inputs(node);
  inputs.assign(values.begin(), values.end());
}

void RuleContext::fail(Error error) {
  if (failed)
    consumeError(std::move(error));
  else
    failure = std::move(error);
  failed = true;
}

Value RuleContext::emit(const OpDef &op, ArrayRef<Value> operands, AttrsId attrs, ArrayRef<Graph> bodies) {
  Expected<KindId> kind = context().kind(op, attrs, bodies);
  if (kind) {
    uint32_t arity = context().kind(*kind).numInputs;
    if (arity == operands.size() || arity == NodeKind::kAnyInputs)
      return Value{builder.addKind(*kind, operands, origin)};
    fail(Failure(ErrorKind::Arity, "the rule of operator '" + nodeKind.op->name + "' emits '" + op.name + "' with " +
                                       Twine(operands.size()) + " inputs, it takes " + Twine(arity)));
  } else {
    fail(amend(kind.takeError(), [&](GradcError &info) {
      info.message = ("the rule of operator '" + nodeKind.op->name + "' emits '" + op.name + "': " + info.message).str();
    }));
  }
  return inputs.empty() ? Value{node} : inputs[0];  // anything valid: the driver stops at the failure
}

Value RuleContext::emit(const OpDef &op, std::initializer_list<Value> operands, std::initializer_list<AttrText> attrs) {
  AttrsId list = attrs.size() ? context().attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size())) : AttrsId(0);
  return emit(op, ArrayRef<Value>(operands.begin(), operands.size()), list);
}

Value RuleContext::emitFused(const OpDef &backward, ArrayRef<Value> operands, AttrsId attrs, NodeId forwardOf) {
  Value v = emit(backward, operands, attrs);
  if (!hasFailed() && forwardOf.isValid()) builder.addControlDep(v.node, forwardOf);
  return v;
}

StringRef RuleContext::number(double value) {
  SmallString<32> text;
  raw_svector_ostream os(text);
  printAttr(os, value);
  return context().text(context().intern(text));
}

StringRef RuleContext::number(int64_t value) {
  return context().text(context().intern(std::to_string(value)));
}

GradRule::GradRule(GraphBuilder &builder, NodeId node, NodeId origin, HeadGradients heads, ArrayRef<bool> wanted)
    : RuleContext(builder, node, origin), heads(heads), wanted(wanted), slots(inputs.size(), Slot::Unanswered),
      gradients(inputs.size()) {}

Value GradRule::dy(size_t i) {
  return isZero(i) ? heads.materialize(heads.driver, i) : heads.values[i];
}

void GradRule::dx(size_t i, Value value) {
  if (i >= slots.size())
    return fail(Failure(ErrorKind::GradientCount, "the gradient rule of operator '" + nodeKind.op->name +
                                                      "' gives a gradient for input " + Twine(i) + ", expected one for " +
                                                      "each of " + Twine(slots.size()) + " inputs"));
  slots[i] = Slot::Gradient;
  gradients[i] = value;
}

Value GradRule::fused(const OpDef &backward, ArrayRef<Value> operands, AttrsId attrs) {
  Value v = emitFused(backward, operands, attrs, node);
  if (hasFailed()) return v;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < builder.numOutputs(v.node))
      dx(i, at(v, i));
    else
      noGrad(i);
  }
  return v;
}

void GradRule::clone() {
  for (size_t i = 0; i < inputs.size(); ++i) dx(i, dy(0));
}

DecomposeRule::DecomposeRule(GraphBuilder &builder, NodeId node, NodeId origin)
    : RuleContext(builder, node, origin), outputs(nodeKind.numOutputs) {}

}  // namespace gradc
