// Outputs that a loop or a branch names and its block never writes. Tested by tests/block_backward_test.cc
#pragma once

#include "formats/blocks/block_program.h"

namespace gradc {

/// Such a name keeps its value from before the operator, and its gradient passes. Removes it from slot `Out`, so that later
/// readers of the program can take every output for a write; the condition of a loop stays. Linear in operators, times the
/// depth.
void removeUnwrittenOutputs(BlockProgram &program);

}  // namespace gradc
