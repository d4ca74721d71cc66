// What a gradient begins with: the operators that make the gradients of targets. Tested by tests/append_backward_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"
#include "ir/context.h"

namespace gradc {

/// `fill_constant` of ones for a loss, a variable of `block`, and marks the operator that computes it. Of one element its shape
/// is [1]; of a shape that is not known it is `fill_any_like`.
BlockOp makeLossSeed(Context &context, BlockProgram &program, GradientNames &names, uint32_t block, TextId loss);

/// `fill_any_like` of ones for a target, a variable of `block`.
BlockOp makeOnes(Context &context, BlockProgram &program, GradientNames &names, uint32_t block, TextId target);

/// `assign` of a given head to the gradient of a target.
BlockOp makeHeadCopy(Context &context, BlockProgram &program, TextId head, TextId gradient);

}  // namespace gradc
