// The variable that a block sees under a name. Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// The record in the nearest enclosing block that declares the name; null if none does.
const BlockVariable *visibleVariable(const BlockProgram &program, uint32_t block, TextId name);

/// Whether it is a tensor, not an array of them, with a floating-point type. False for null.
bool isFloatTensor(const BlockVariable *variable);

/// Whether a block sees a floating-point tensor under the name that does not stop gradients.
bool carriesGradient(const BlockProgram &program, uint32_t block, TextId name);

}  // namespace gradc
