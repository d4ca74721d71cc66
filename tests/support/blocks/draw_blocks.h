// Random programs of blocks: straight lines, names written several times, loops and branches within each other.
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

#include <string>

namespace gradc::testing {

struct BlockDraw {
  size_t numOps = 8;        // approximately, in each block
  uint32_t depth = 2;       // of blocks within the root; 0: straight lines
  int rewritePercent = 20;  // of results that are written to an existing name
  int flaggedPercent = 0;   // of variables that stop the gradient
  int inPlacePercent = 0;   // of operators on one operand that write to its name, parameters excepted
  int arrayPercent = 0;     // of operators that write or read an element of an array
  int labelPercent = 0;     // of operators with an operand whose gradient Paddle leaves out
};

/// A program whose loss `loss` has one element. Its parameters `p0`, `p1`, `p2` and data `x0`, `x1` are float64 of
/// shape [2, 2]; computed values stay small. The same seed gives the same program.
BlockProgram drawBlocks(Context &context, uint64_t seed, const BlockDraw &draw);

}  // namespace gradc::testing
