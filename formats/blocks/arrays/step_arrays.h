// Arrays of tensors that steps of `recurrent` read. Tested by tests/formats/blocks/recurrent_array_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

namespace gradc {

/// The gradients of a step are added up over the steps, which Paddle does for tensors alone. So elements of arrays of
/// outer blocks that the step block `body` reads are taken from a tensor instead. Returns a `tensor_array_to_tensor`
/// for each such array, which has to precede the operator that owns the block. Linear.
std::vector<BlockOp> readArraysAsTensors(Context &context, BlockProgram &program, uint32_t body);

}  // namespace gradc
