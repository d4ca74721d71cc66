// Declares the variables that appended operators write, with what the forward variable says of kind, shape and dtype.
// Tested by tests/append_backward_test.cc
#pragma once

#include "formats/blocks/gradient_maker.h"

namespace gradc {

/// Where the gradient of a variable was declared last.
struct GradientPlace {
  TextId gradient;
  uint32_t block;
};
using GradientPlaces = DenseMap<uint32_t, GradientPlace>;  // by forward variable

/// Goes through the operators of `block` from `firstOp` and, before each, those of its block. Drops operators that write
/// nothing, or read gradients of which none exists (NG-08); sums lose operands that do not exist (AGG-12), EmptySum (E-45) when
/// that leaves none. What a loop's gradient operator reads and writes exists already inside its block (CF-14).
llvm::Error declareGradients(BlockProgram &program, uint32_t block, size_t firstOp, const BlockOp *owner,
                             GradientMaker &maker, GradientNames &names, GradientPlaces &places);

}  // namespace gradc
