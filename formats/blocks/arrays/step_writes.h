// Arrays of tensors that steps of `recurrent` write. Gradients of a step arrive as rows of its outputs, so the elements
// that a step writes become outputs of the operator that owns the block. Unchanged are arrays that the steps also read,
// or write in an inner block, and all arrays if the number of steps is not known. Tested by
// tests/formats/blocks/recurrent_array_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "formats/blocks/program/name_table.h"
#include "ir/graph/context.h"

namespace gradc {

/// Turns the writes of the step block `body` to arrays of outer blocks into outputs of its owner, the operator at `at`
/// in the enclosing block. Returns the operators that write them to the arrays, which have to follow the owner. Linear
/// in operators and in writes.
std::vector<BlockOp> writeArraysAfterSteps(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t body,
                                           size_t at);

}  // namespace gradc
