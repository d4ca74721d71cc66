// A gradient operator as a function of its own operands, so that it has a gradient too. Tested by
// tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/graph/op_function.h"

namespace gradc {

struct GradientParts {
  const FormSlots &slots;          // of the gradient operator
  const FormSlots &next;           // of the gradient operator of that one
  const OpFunction &forward;       // of the forward operator
  const GradientResult &gradient;  // of that function, for these seeds and operands
  llvm::ArrayRef<OperandPlace> seeded, wanted;
  llvm::function_ref<Value(const OperandPlace &)> operand;  // the forward operator's, in the block
  std::vector<NodeId> nodes;                                // of the gradient operator, in order
};

/// What the forward operator reads and the gradient operator does not is constant. A result of the forward operator
/// that the gradient operator reads is an operand if `next` has a gradient toward it; otherwise it depends on the
/// forward operator's operands.
llvm::Expected<OpFunction> functionOfGradient(Context &context, const GradientParts &of);

}  // namespace gradc
