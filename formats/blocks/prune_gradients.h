// What the reversed operators compute for nobody. Tested by tests/append_backward_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"
#include "ir/context.h"

namespace gradc {

/// Rules A and B (NG-02), one sweep in order while `noGrad`, names of gradients nobody wants, grows; `targetGradients` never
/// join it. Then a gradient that an operator reads though it is cut is filled with zeros before it (ZERO-07).
void removeCutOps(Context &context, std::vector<BlockOp> &ops, NameSet &noGrad, const NameSet &targetGradients,
                  GradientNames &names);

/// What the gradient operator of a loop or a branch reads of what that wrote, and nobody has computed, for nobody reads it
/// afterwards, is filled with zeros (CF-16). `known` are names that have a value before the first operator.
void fillUnusedStates(Context &context, std::vector<BlockOp> &ops, const NameSet &known, GradientNames &names);

/// At the end of the gradient of a loop's body: the gradient of a state that the step overwrites and does not read is zeros
/// before the step, and only where no step runs that of the final state.
void fillLostStates(Context &context, const BlockProgram &program, uint32_t body, const BlockOp &loop,
                    std::vector<BlockOp> &ops, GradientNames &names);

/// Drops operators that hang only on values nobody computes, unless that were all of them (NG-08). `known` are names that
/// have a value before the first operator.
void removeUnconnectedOps(std::vector<BlockOp> &ops, const NameSet &known);

}  // namespace gradc
