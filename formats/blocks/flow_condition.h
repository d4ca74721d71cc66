// What decides whether a branch is taken and a loop goes on. Tested by tests/append_backward_test.cc and
// tests/block_graph_test.cc
#pragma once

#include "formats/blocks/block_program.h"

namespace gradc {

/// The slot of a loop's or a branch's condition; empty for other types.
llvm::StringRef conditionSlot(llvm::StringRef type);

/// The condition of a loop or a branch, which has a block and one tensor of truth values, as in Paddle: a mask of whole numbers
/// made of another condition might take the other branch. BadEntry, which names block, operator and variable.
llvm::Expected<TextId> conditionOf(const BlockProgram &program, uint32_t block, size_t op);

}  // namespace gradc
