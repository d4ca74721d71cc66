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
using GradientPlaces = IdMap<GradientPlace>;  // by forward variable

/// Where a call's own operators and variables begin in a block.
struct CallBegin {
  size_t op, variable;
};

/// Goes through the operators of `block` from `begin.op` and, before each, those of its block. Drops operators that write
/// nothing, or read gradients of which none exists (NG-08); sums lose operands that do not exist (AGG-12), EmptySum (E-45) when
/// that leaves none. What a loop's gradient operator reads and writes exists already inside its block (CF-14).
/// Gradients of earlier calls, which `block` declares before `begin.variable`, do not exist for the blocks within.
llvm::Error declareGradients(BlockProgram &program, uint32_t block, const CallBegin &begin, GradientMaker &maker,
                             GradientNames &names, GradientPlaces &places);

}  // namespace gradc
