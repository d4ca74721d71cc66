// What gradient operators read of the operators whose gradients they are. Tested by tests/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"

namespace gradc {

/// Slots whose values the gradient of an operator reads.
llvm::SmallVector<llvm::StringRef, 8> slotsSaved(const BlockProgram &program, const BlockOp &op);

/// The names that an operator has in such slots. What owns a block needs there what the block does, and its condition.
void addSaved(const BlockProgram &program, const BlockOp &op, llvm::ArrayRef<BlockSlot> slots, NameSet &saved);

/// Those of all operators of a block and of the blocks within it.
void addSavedBelow(const BlockProgram &program, uint32_t block, NameSet &saved);

}  // namespace gradc
