// The attribute of loops, branches and calls that counts the outputs added for gradients, after the visible ones.
#pragma once

#include "ir/graph/body_flow.h"
#include "ops/kit/families.h"
#include "ir/rules/flow_inference.h"
#include "ir/rules/run_flow.h"

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

/// Whether only the rows of executed steps of a loop's operand have values: attribute `short_data` of `_scan`.
bool isShortData(const NodeKind &kind, uint32_t operand);

/// WellKnownOps::sumOfRows: a `_scan`.
llvm::Expected<KindRef> sumOfRows(Context &context, size_t count, int64_t length);

/// Gradient rule of loops: emits one more loop, in the opposite direction.
void loopGradient(GradRule &g);
/// Gradient rule of branches and calls: emits one more branch or call.
void branchGradient(GradRule &g);

/// A number of steps carries no gradient, nor does an operand that only gives the shape of a state starting as zeros.
inline bool carriesNothing(const NodeKind &kind, size_t input) {
  const BodyFlow::Operand role = kind.flow->operands[input];
  return role == BodyFlow::Operand::Count || (role == BodyFlow::Operand::State && !kind.flow->isRead[input]);
}

/// The fields that these operators share; `flow`, the gradient and the ports are their own.
constexpr OpDef flowOperator(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.shape = inferFlowShapes;
  op.dtype = inferFlowTypes;
  op.ignored = isUnreadInside;
  op.mutated = isMutatedInside;
  op.stopped = carriesNothing;
  op.kernelTypes = kEveryType;
  op.irreducible = "runs graphs";
  op.kernel = runFlow;
  return op;
}

}  // namespace gradc
