// Operators that are gradients of another operator, `tanh_grad`. Tested by
// tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "ir/base/ids.h"

#include "llvm/Support/Error.h"

#include <vector>

namespace gradc {

class BlockReader;

/// Reads a gradient operator as the gradient of its forward operator, which it looks for among the operators read so
/// far, in this block or in its forward block. If there is none, computes the forward operator again from the operands
/// of this one. False if the type is not that of a gradient, or operands are missing.
llvm::Expected<bool> readGradientOp(BlockReader &reader, size_t at);

/// The values of an operator's inputs, for recordForGradient. Call before the operator is read.
std::vector<Value> inputsForGradient(BlockReader &reader, size_t at);
/// Remembers an operator that was read, whose nodes begin at `firstNode`, for its gradients.
void recordForGradient(BlockReader &reader, size_t at, uint32_t firstNode, std::vector<Value> inputs);

}  // namespace gradc
