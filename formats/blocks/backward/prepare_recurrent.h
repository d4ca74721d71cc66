// Brings `recurrent` operators into the form that Paddle's front end writes, on which Paddle's gradient operator
// relies.
//
// In that form each output and each state is written once, by an `rnn_memory_helper`, and not read in the block, so
// that its whole gradient arrives from outside the step; slot 'parameters' has every outer variable that carries a
// gradient. Operators in another form get more `rnn_memory_helper`s and copies of names, read arrays of outer blocks as
// tensors and write them later. Tested by tests/formats/blocks/backward/recurrent_gradient_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"
#include "ir/graph/context.h"

namespace gradc {

/// Rewrites operators in another form; blocks that have a gradient block stay unchanged. Errors are those of
/// readRecurrentOp, and NotDifferentiable (E-02) if the block writes an outer variable that it also reads. Linear,
/// times the depth.
llvm::Error prepareRecurrent(Context &context, BlockProgram &program);

/// Gradients that arrive in the block of `owner`: from a loop's next step, or from readers of what the owner writes.
NameSet handedGradients(const BlockProgram &program, const BlockOp &owner, GradientNames &names);

/// The gradient of a stacked output has one name inside and outside a gradient block: renames it in the block if it was
/// renamed outside.
void renameArriving(BlockProgram &program, GradientNames &names, size_t firstBlock);

}  // namespace gradc
