// Brings `recurrent` operators into the form that Paddle's front end writes, on which the gradient operator of Paddle relies.
// Tested by tests/recurrent_gradient_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"
#include "ir/context.h"

namespace gradc {

/// In that form each output and each state is written once, by a `rnn_memory_helper`, and read by nobody in the block, so that all of
/// its gradient arrives from outside of the step; and slot 'parameters' has every variable from around the block that carries a
/// gradient. Operators that have another form get more `rnn_memory_helper`, and copies of names. Blocks that have a gradient block
/// stay as they are. Errors: those of readRecurrentOp; UnsupportedOption where the block writes a variable around it. Linear, times
/// the depth.
llvm::Error prepareRecurrent(Context &context, BlockProgram &program);

/// Gradients that arrive in the block of `owner`: from a loop's next step, or from who reads what the owner writes.
NameSet handedGradients(const BlockProgram &program, const BlockOp &owner, GradientNames &names);

/// Inside and outside of a gradient block, the gradient of a stacked output has one name. Where it has got another one outside,
/// the block says that too.
void renameArriving(BlockProgram &program, GradientNames &names, size_t firstBlock);

}  // namespace gradc
