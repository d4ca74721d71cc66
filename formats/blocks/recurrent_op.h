// Paddle's `recurrent` (StaticRNN): a block that is run once for each row of what is sliced. Tested by tests/recurrent_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"

namespace gradc {

/// The operands of `recurrent` or of `recurrent_grad`. In the block, a sliced input and a stacked output have the names that they
/// have around it.
struct RecurrentOp {
  uint32_t block = 0;  // of the steps
  llvm::ArrayRef<TextId> inputs, initialStates, outputs, parameters;
  std::vector<TextId> exStates,
      states;  // names of the block: what a state was before the step, and what it is behind it
  bool isReverse = false;
};

/// BadEntry and BadAttribute, naming the operator, where slots and attributes do not fit each other or the block does not declare a
/// name that the operator links.
llvm::Expected<RecurrentOp> readRecurrentOp(const BlockProgram &program, uint32_t block, size_t op);

/// Names around `block` that operators of it, or of blocks within it, read; and those they write.
struct NamesAround {
  NameSet read, written;
};
NamesAround findNamesAround(const BlockProgram &program, uint32_t block);

}  // namespace gradc
