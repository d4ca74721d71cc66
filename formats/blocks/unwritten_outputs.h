// Outputs that a loop or a branch names and its block never writes. Tested by tests/block_backward_test.cc
#pragma once

#include "formats/blocks/block_program.h"

namespace gradc {

/// Such a name keeps the value from before the operator, and its gradient passes: it is taken out of slot `Out`, so that each
/// other output is a write to who reads the program afterwards; the condition of a loop stays. Linear in operators, times the
/// depth.
void removeUnwrittenOutputs(BlockProgram &program);

}  // namespace gradc
