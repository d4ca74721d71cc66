// What a program does to its arrays of tensors: whether it can be shown that no element is written or read a second time.
// Tested by tests/array_gradient_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"

namespace gradc {

struct ArrayUse {
  bool isWrittenAgain = false;  // an element may be, after a write that carries a gradient
  bool isReadAgain = false;     // an element may be, by readers that carry gradients
  bool isInBlocks = false;      // of loops or branches within the block that declares it
  bool isInBranch = false;
  bool isReadInBranch = false;
  bool hasManyReaders = false;  // more than Paddle's operators have one name for
  bool isOnlyRead = false;      // by a loop, or it is not among the loop's states
  bool hasOthers = false;       // operators that are not about an element, and have a gradient
};

/// By array, of those that carry gradients. An index is understood where it is a constant, or a counter that `increment` alone
/// counts on. Linear, times a constant for nested loops; beyond some size nothing is shown.
IdMap<ArrayUse> findArrayUses(const BlockProgram &program);

/// The one variable in a slot; invalid where there is another number.
TextId operandIn(const BlockProgram &program, llvm::ArrayRef<BlockSlot> slots, llvm::StringRef slot);

}  // namespace gradc
