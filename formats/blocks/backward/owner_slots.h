// The slots of loops and branches that name what their blocks read and write. Tested by
// tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// A name in slot `Out` that the block never writes keeps its value from before the operator, and its gradient passes:
/// it is removed, so that later readers of the program can take every output for a write; the condition of a loop
/// stays. What the block of a loop or branch reads or writes and the slots lack is added, as far as it carries a
/// gradient, which would get lost otherwise. Gradient blocks of an earlier call use the slots as they are, so then an
/// operand that a slot lacks is an error; so is an operand under whose name the block declares another variable. Linear
/// in operators, times the depth.
llvm::Error matchOwnerSlots(BlockProgram &program);

}  // namespace gradc
