// What the gradients of the operators of a block read, name by name. Tested by
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
/// them only where they stay unchanged.
NameSet movingStatistics(const BlockProgram &program);

/// Answers for the current program; what an operator reads is computed once.
class GradientReads {
 public:
  GradientReads(const BlockProgram &program, uint32_t block) : program(program), block(block) {}

  /// Operators are positions in the block; negative: none.
  bool hasGradient(int64_t op) const;
  /// Whether it is an `increment`, whose gradient counts back.
  bool isCounter(int64_t op) const;
  /// Whether the gradient of an operator reads the operand `name` of these slots. That of an operator with a block may
  /// read all of them.
  bool isRead(uint32_t op, llvm::ArrayRef<BlockSlot> slots, TextId name) const;
  /// The same for a value that carries no gradient, an input or an output of the operator or of what its block runs.
  bool isConstantRead(int64_t op, bool isInput, TextId name);
  /// Whether a gradient of an operator in the block of `op` reads the name.
  bool isReadBelow(uint32_t op, TextId name);

 private:
  struct Operands {
    NameSet inputs, outputs;  // that the operator's gradient reads
    NameSet carrying;         // outputs with gradients
  };
  const BlockOp &at(int64_t op) const { return program.blocks[block].ops[static_cast<size_t>(op)]; }
  const Operands &operandsOf(uint32_t op);

  const BlockProgram &program;
  const uint32_t block;
  DenseMap<uint32_t, NameSet> below;      // by operator
  DenseMap<uint32_t, Operands> operands;  // by operator
};

}  // namespace gradc
