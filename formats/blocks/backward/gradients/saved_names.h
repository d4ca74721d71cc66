// Which operands of an operator its gradient operator reads. Tested by
// tests/formats/blocks/backward/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"

namespace gradc {

/// Slots whose values the gradient of an operator reads.
llvm::SmallVector<llvm::StringRef, 8> slotsSaved(const BlockProgram &program, const BlockOp &op);

/// Adds the names in such slots of an operator; for one that owns a block only its condition (addSavedBelow does the
/// block).
void addSaved(const BlockProgram &program, const BlockOp &op, llvm::ArrayRef<BlockSlot> slots, NameSet &saved);

/// Adds those of all operators of a block and of its inner blocks.
void addSavedBelow(const BlockProgram &program, uint32_t block, NameSet &saved);

/// Names of moving statistics: `batch_norm` updates them in place, and Paddle runs it in no other form. Gradients use
/// them only where they stay as they are.
NameSet movingStatistics(const BlockProgram &program);

}  // namespace gradc
