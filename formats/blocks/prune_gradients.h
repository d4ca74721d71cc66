// What the reversed operators compute for nobody. Tested by tests/append_backward_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"
#include "ir/context.h"

namespace gradc {

/// Rules A and B (NG-02), one sweep in order while `noGrad`, names of unwanted gradients, grows; `targetGradients` never
/// join it. Then a gradient that an operator reads though it is cut is filled with zeros before it (ZERO-07).
void removeCutOps(Context &context, std::vector<BlockOp> &ops, NameSet &noGrad, const NameSet &targetGradients,
                  GradientNames &names);

/// A gradient that the operator of a gradient block reads and nobody has computed is filled with zeros: that of what a loop or
/// a branch wrote and nothing reads afterwards (CF-16). In a block within (`isInside`), one that any operator reads. `known` are
/// names that have a value before the first operator.
void fillUncomputed(Context &context, std::vector<BlockOp> &ops, const NameSet &known, bool isInside,
                    GradientNames &names);

/// In the gradient of a loop's body: the gradient of a state that the step overwrites and does not read is zeros before the step,
/// and only where no step runs that of the final state. Where the step reads a state and overwrites it with what has no gradient,
/// what arrives is replaced by zeros first, so that the sum that the step before gets leaves it out.
/// Of `recurrent`: the gradient of what a step was given is zeros where no operator computes it, for the step before gets it.
void fillLostStates(Context &context, const BlockProgram &program, uint32_t body, const BlockOp &loop,
                    std::vector<BlockOp> &ops, GradientNames &names);

/// Drops operators that hang only on values that are not computed, unless that were all of them (NG-08). `known` are names that
/// have a value before the first operator.
void removeUnconnectedOps(std::vector<BlockOp> &ops, const NameSet &known);

}  // namespace gradc
