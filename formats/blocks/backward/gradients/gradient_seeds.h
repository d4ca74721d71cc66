// The seeds of a gradient: operators that make the gradients of targets. Tested by
// tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"
#include "ir/graph/context.h"

namespace gradc {

/// `fill_constant` of ones for a loss, a variable of `block`; marks the operator that computes the loss. A shape of
/// ones becomes [1]; an unknown shape makes it `fill_any_like`.
BlockOp makeLossSeed(Context &context, BlockProgram &program, GradientNames &names, uint32_t block, TextId loss);

/// `fill_any_like` of ones for a target, a variable of `block`.
BlockOp makeOnes(Context &context, BlockProgram &program, GradientNames &names, uint32_t block, TextId target);

/// `assign` of a given head to the gradient of a target.
BlockOp makeHeadCopy(Context &context, BlockProgram &program, TextId head, TextId gradient);

}  // namespace gradc
