// Arrays of tensors that steps of `recurrent` write. Tested by tests/formats/blocks/recurrent_array_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "formats/blocks/program/name_table.h"
#include "ir/graph/context.h"

namespace gradc {

/// Gradients of a step arrive as rows of its outputs. So elements that the step block `body` writes to an array of an
/// outer block become outputs of its owner, the operator at `at` in the enclosing block. Returns the operators that
/// write them to the array; they have to follow the owner. Leaves arrays unchanged that the steps also read, or write
/// in an inner block, and all of them if the number of steps is not known. Linear in operators and in writes.
std::vector<BlockOp> writeArraysAfterSteps(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t body,
                                           size_t at);

}  // namespace gradc
