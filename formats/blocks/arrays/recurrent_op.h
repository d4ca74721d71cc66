// Paddle's `recurrent` (StaticRNN): a block that is run once for each row of its sliced inputs. Tested by
// tests/formats/blocks/recurrent_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"

namespace gradc {

/// The operands of `recurrent` or of `recurrent_grad`. Sliced inputs and stacked outputs have the same names inside and
/// outside the block.
struct RecurrentOp {
  uint32_t block = 0;  // of the steps
  llvm::ArrayRef<TextId> inputs, initialStates, outputs, parameters;
  std::vector<TextId> exStates,
      states;  // names in the block: of a state before the step, and after it
  bool isReverse = false;
};

/// BadEntry and BadAttribute, naming the operator, if slots and attributes do not fit each other or the block does not
/// declare a name that the operator links.
llvm::Expected<RecurrentOp> readRecurrentOp(const BlockProgram &program, uint32_t block, size_t op);

/// Outer names that operators of `block` and of its inner blocks read, and those that they write.
struct NamesAround {
  NameSet read, written;
};
NamesAround findNamesAround(const BlockProgram &program, uint32_t block);

}  // namespace gradc
