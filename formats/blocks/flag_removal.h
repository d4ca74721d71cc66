// The flags of values that a loop or a branch makes: `stop_gradient` of a state is about the value it starts from.
// Tested by tests/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"

namespace gradc {

class FlagRemoval {
 public:
  FlagRemoval(BlockProgram &program, uint32_t block) : program(program), block(block) {}

  /// Whether a block makes what it writes under the name of something that is not flagged. A round over its operators for each
  /// value that reaches the next step.
  bool dependsOnUnflagged(uint32_t body, TextId name) const;

  /// Takes the flag from a variable of the block.
  void remove(TextId copy);

  /// A flag on what the block makes of flagged values alone only repeats theirs, so it goes where one of them is not flagged now.
  /// `except` are names whose flags count.
  void removeRepeated(const IdMap<TextId> &except);

 private:
  BlockProgram &program;
  const uint32_t block;
  NameSet removed;
};

}  // namespace gradc
