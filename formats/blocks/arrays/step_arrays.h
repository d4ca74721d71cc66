// Arrays of tensors that steps of `recurrent` read. The gradients of a step are summed over the steps, which Paddle
// does for tensors alone, so the steps read the elements from a tensor instead. Tested by
// tests/formats/blocks/recurrent_array_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

namespace gradc {

/// For each array of an outer block that the step block `body` reads, returns a `tensor_array_to_tensor`, and makes
/// `body` read its result. The returned operators have to precede the operator that owns the block. Linear.
std::vector<BlockOp> readArraysAsTensors(Context &context, BlockProgram &program, uint32_t body);

}  // namespace gradc
