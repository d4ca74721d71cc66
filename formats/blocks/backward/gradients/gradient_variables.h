// Declares the variables that appended operators write, with kind, shape and dtype from the forward variable. Operators
// that write nothing or read gradients of which none exists are dropped (NG-08), and sums lose operands that do not
// exist (AGG-12). Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/backward/gradients/gradient_maker.h"

namespace gradc {

/// Where the gradient of a variable was declared last.
struct GradientPlace {
  TextId gradient;
  uint32_t block;
};
using GradientPlaces = IdMap<GradientPlace>;  // by forward variable

/// Where the operators and variables of this call begin in a block.
struct CallBegin {
  size_t op, variable;
};

/// Visits the operators of `block` from `begin.op` and, before each, those of its sub-block; EmptySum (E-45) for a sum
/// without an operand that exists. Names that a loop's gradient operator reads and writes exist within its block from
/// the start (CF-14). Gradients of earlier calls, which `block` declares before `begin.variable`, do not exist for
/// inner blocks.
llvm::Error declareGradients(BlockProgram &program, uint32_t block, const CallBegin &begin, GradientMaker &maker,
                             GradientNames &names, GradientPlaces &places);

}  // namespace gradc
