// Tested by tests/passes/gradient/loop_gradient_test.cc
#include "ops/control/adjoint.h"

#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {

AdjointBody::AdjointBody(Context &context, const BodyFlow::Body &ports, const BodyGradient &gradient)
    : ports(ports), gradient(gradient),
      builder(gradient.gradientOf.empty() ? GraphBuilder(context) : GraphBuilder(context, gradient.backward)),
      names(gradient.gradientOf.empty() ? FreeNames(0) : FreeNames(gradient.backward, 0)) {
  if (isEmpty()) return;
  for (uint32_t k = 0; k < gradient.gradientOf.size(); ++k) headsOf.emplace(ports.operandOf[gradient.gradientOf[k]], k);
  const std::vector<NodeId> inputs = bodyInputs(gradient.backward);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const AdjointInput input = sourceOf(gradient.inputs[i]);
    given.push_back({input, inputs[i]});
    variables.try_emplace(input, inputs[i]);
  }
}

AdjointInput AdjointBody::sourceOf(BodyGradient::Input input) const {
  using From = AdjointInput::From;
  switch (input.source) {
    case BodyGradient::Source::HeadGradient: return {From::Gradient, ports.outputOf[input.index]};
    case BodyGradient::Source::Value: return {From::Output, ports.outputOf[input.index]};
    case BodyGradient::Source::Input: return {From::Operand, ports.operandOf[input.index]};
  }
  llvm_unreachable("every source has a case");
}

bool AdjointBody::hasGradientOf(uint32_t operand) const { return headsOf.count(operand) != 0; }

Value AdjointBody::gradientOf(uint32_t operand) {
  Value sum;
  for (auto [at, last] = headsOf.equal_range(operand); at != last; ++at) {
    const Value term = gradient.backward.heads()[at->second];
    sum = sum.isValid() ? emit(kGradAdd, {sum, term}) : term;
  }
  return sum;
}

Value AdjointBody::variable(AdjointInput input) {
  if (auto known = variables.find(input); known != variables.end()) return Value{known->second};
  using From = AdjointInput::From;
  const StringRef prefix = input.from == From::Sum        ? "sum_"
                           : input.from == From::Gradient ? "grad_"
                           : input.from == From::Output   ? "out_"
                                                          : "in_";
  const Value v = builder.addVariable("", Attrs());
  setFreeName(v.node, (prefix + Twine(input.index)).str());
  variables[input] = v.node;
  given.push_back({input, v.node});
  return v;
}

Value AdjointBody::emit(const OpDef &op, ArrayRef<Value> operands) {
  const NodeId n = builder.addKind(op, operands, NodeId());
  setFreeName(n, (op.name + "_" + Twine(n.value)).str());
  return Value{n};
}

// A body that is differentiated again already has generated names from the first time.
void AdjointBody::setFreeName(NodeId n, const std::string &base) { builder.setName(n, names.take(base), ""); }

AdjointBody::Finished AdjointBody::finish(ArrayRef<Value> heads) && {
  const uint32_t numNodes = builder.numNodes();
  const Frozen frozen =
      cantFail(std::move(builder).freeze(heads, {}));  // cannot fail: neither cycles nor missing outputs
  std::vector<AdjointInput> inputOf(numNodes);
  for (const auto &[input, n] : given)
    if (frozen.newId[n.value].isValid()) inputOf[frozen.newId[n.value].value] = input;
  Finished made{frozen.graph, {}};
  for (NodeId n : bodyInputs(made.graph)) made.inputs.push_back(inputOf[n.value]);
  return made;
}

}  // namespace gradc
