// The slots of loops and branches that name what their blocks read and write.
//
// A name in slot `Out` that the block never writes is removed, so that later readers of the program can take every
// output for a write: it keeps its value from before the operator, and its gradient passes. The condition of a loop
// stays. What the block reads or writes but the slots lack is added if it carries a gradient, which would get lost
// otherwise. Gradient blocks of an earlier call rely on the slots, so an operand that is missing there is an error.
// Tested by tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// Makes the slots match what the blocks read and write. BadEntry for an operand that is missing though gradients of an
/// earlier call exist, and for one under whose name the block declares another variable. Linear in operators, times the
/// depth.
llvm::Error matchOwnerSlots(BlockProgram &program);

}  // namespace gradc
