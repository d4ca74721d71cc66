// Analyses how a program uses its arrays of tensors: whether it provably writes and reads no element twice.
// Tested by tests/formats/blocks/backward/array_gradient_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"

namespace gradc {

struct ArrayUse {
  bool isWrittenAgain = false;  // an element may be written after a write that carries a gradient
  bool isReadAgain = false;     // an element may have several readers that carry gradients
  bool isInBlocks = false;      // in a loop or branch within the block that declares it
  bool isInBranch = false;
  bool isReadInBranch = false;
  bool hasManyReaders = false;  // more than one gradient name serves in Paddle's form
  bool isOnlyRead = false;      // a loop only reads it, or does not list it as a state
  bool isWhole = false;         // `tensor_array_to_tensor` takes all elements
  bool hasOthers = false;  // other operators with a gradient do, or this one does where its gradient has no program
};

/// The use of each array that carries gradients. Understands indexes that are constants, or counters that only
/// `increment` advances. Linear, times a constant for nested loops; beyond some size it assumes every repetition
/// possible.
IdMap<ArrayUse> findArrayUses(const BlockProgram &program);

/// The only variable in a slot; invalid if there is not exactly one.
TextId operandIn(const BlockProgram &program, llvm::ArrayRef<BlockSlot> slots, llvm::StringRef slot);

}  // namespace gradc
