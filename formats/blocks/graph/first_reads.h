// Names that a block reads before it writes them, and what decides. Tested by
// tests/formats/blocks/backward/append_backward_test.cc and tests/formats/blocks/block_graph_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// The slot of a loop's or a branch's condition; empty for other types.
llvm::StringRef conditionSlot(llvm::StringRef type);

/// The condition of a loop or a branch, which has a block and one tensor of truth values, as in Paddle: a mask of whole
/// numbers made of another one might take the other branch. BadEntry, which names block, operator and variable.
llvm::Expected<TextId> conditionOf(const BlockProgram &program, uint32_t block, size_t op);

/// Whether an operator needs the value of what it has in the slot: not where a loop or a branch lists what its block
/// may use.
bool readsValue(llvm::StringRef type, llvm::StringRef slot);

/// For an operator that reads `name` in `slot`. UnknownName, naming the operator.
llvm::Error readBeforeWrite(const BlockProgram &program, uint32_t block, size_t op, TextId slot, TextId name);

/// Only the root is given values: an operator that reads a name of its inner block which nothing in the block has used
/// before is an error. Gradient blocks are not checked: they also see values of their forward block. Linear, times the
/// depth.
llvm::Error checkFirstReads(const BlockProgram &program);

}  // namespace gradc
