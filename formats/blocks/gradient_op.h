// Operators that are gradients of another operator, `tanh_grad`. Tested by tests/block_backward_test.cc
#pragma once

#include "ir/ids.h"

#include "llvm/Support/Error.h"

#include <vector>

namespace gradc {

class BlockReader;

/// Reads a gradient operator: the gradient of what its forward operator computes, which is looked for among those that were
/// read before, in this block or in its forward block; where there is none, of what such an operator computes of the operands
/// that this one has. False where the type is not that of a gradient, or too few operands are there.
llvm::Expected<bool> readGradientOp(BlockReader &reader, size_t at);

/// Before an operator is read: what its inputs hold, for recordForGradient.
std::vector<Value> inputsForGradient(BlockReader &reader, size_t at);
/// Remembers an operator that was read, the nodes of which begin at `firstNode`, for gradients of it.
void recordForGradient(BlockReader &reader, size_t at, uint32_t firstNode, std::vector<Value> inputs);

}  // namespace gradc
