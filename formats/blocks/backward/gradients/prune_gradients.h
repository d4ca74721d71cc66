// Removes gradient operators whose results are not needed. Tested by
// tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"
#include "ir/graph/context.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// The variable whose shape a gradient has.
using ShapeOfGradient = llvm::function_ref<TextId(TextId gradient)>;

/// Rules A and B (NG-02), in one sweep during which `noGrad`, the gradients that are not requested, grows;
/// `targetGradients` never join it. Then fills each cut gradient that an operator reads with zeros before that operator
/// (ZERO-07).
void removeCutOps(Context &context, std::vector<BlockOp> &ops, NameSet &noGrad, const NameSet &targetGradients,
                  GradientNames &names, ShapeOfGradient like);

/// Fills with zeros each gradient that the owner of a gradient block reads but no operator has computed: those of
/// values that a loop or a branch wrote and nothing reads afterwards (CF-16). In an inner block (`isInside`) these are
/// the gradients that any operator reads, in others those that one reads besides a computed one, sums excepted
/// (`split`, of which a loop lists a part that it does not read). `known` are names that have a value before the first
/// operator.
void fillUncomputed(Context &context, std::vector<BlockOp> &ops, const NameSet &known, bool isInside,
                    GradientNames &names, ShapeOfGradient like);

/// For the gradient of a loop's body. A state that the step overwrites without reading it has a zero gradient before
/// the step, or the gradient of the final state if no step runs; if the step reads it and overwrites it with a value
/// without a gradient, zeros replace the arriving gradient first. For `recurrent`, the gradient of a step's initial
/// state is zeros if no operator computes it, because the preceding step reads it.
void fillLostStates(Context &context, const BlockProgram &program, uint32_t body, const BlockOp &loop,
                    std::vector<BlockOp> &ops, GradientNames &names);

/// Drops operators that depend only on values that are not computed, unless that would be all of them (NG-08). `known`
/// are names that have a value before the first operator.
void removeUnconnectedOps(std::vector<BlockOp> &ops, const NameSet &known);

/// Empties the blocks from `first` on, other than `kept`, that no operator owns any more: they use names that are not
/// declared.
void emptyLostBlocks(BlockProgram &program, size_t first, uint32_t kept);

}  // namespace gradc
