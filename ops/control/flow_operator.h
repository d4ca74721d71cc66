// What operators with bodies share: loops, branches and calls. Gradients add outputs to them, after the visible ones,
// which an attribute counts. Tested by tests/ops/control_flow_test.cc
#pragma once

#include "ir/graph/body_flow.h"
#include "ir/rules/flow_inference.h"
#include "ir/rules/run_flow.h"
#include "ops/kit/families.h"

namespace gradc {

/// How many heads each gradient added to each body that computes: "(2,1)" for a loop after two gradients, "(2,3,1,0)"
/// for a branch. None: no gradient was taken.
template <auto Member> constexpr AttrSpec savedAttr() {
  return attr<Member>("__saved__", "None", "outputs that gradients added, for each body that computes")
      .atLeast(0)
      .atMost(kMaxIndex);
}

inline int64_t numSaved(const std::optional<Dims> &saved) {
  int64_t sum = 0;
  for (int64_t count : saved.value_or(Dims())) sum = std::min<int64_t>(sum + count, kMaxIndex + 1);
  return sum;
}

inline void expectSaved(FlowBuilder &flow, const std::optional<Dims> &saved, size_t numBodies) {
  const size_t count = saved.value_or(Dims()).size();
  flow.expect(count % numBodies == 0, "attribute '__saved__' has " + llvm::Twine(count) +
                                          " elements, expected a multiple of " + llvm::Twine(numBodies));
}

/// A number of steps carries no gradient, nor does an operand that only gives the shape of a state starting as zeros.
inline bool carriesNoGradient(const NodeKind &kind, size_t input) {
  const BodyFlow::Operand role = kind.flow->operands[input];
  return role == BodyFlow::Operand::Count || (role == BodyFlow::Operand::State && !kind.flow->isRead[input]);
}

/// The fields that these operators share. P, the parameters, count inputs, visible outputs and those that gradients
/// added: numInputs(), numVisible(), numHidden().
template <class P>
constexpr OpDef flowOperator(llvm::StringRef name, llvm::StringRef summary, llvm::ArrayRef<AttrSpec> attrs) {
  OpDef op = named({name}, summary);
  op.inputs = {{}, [](const NodeKind &kind) { return static_cast<uint32_t>(kind.params<P>().numInputs()); }, true};
  op.outputs = {{}, [](const NodeKind &kind) {
                  return static_cast<uint32_t>(kind.params<P>().numVisible() + kind.params<P>().numHidden());
                }};
  op.visibleOutputs = [](const NodeKind &kind) { return static_cast<uint32_t>(kind.params<P>().numVisible()); };
  op.attrs = attrs;
  op.params = paramsOf<P>();
  op.shape = inferFlowShapes;
  op.dtype = inferFlowTypes;
  op.ignored = isUnreadInside;
  op.mutated = isMutatedInside;
  op.stopped = carriesNoGradient;
  op.kernelTypes = kEveryType;
  op.kernel = runFlow;
  return op;
}

}  // namespace gradc
