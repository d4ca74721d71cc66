// The flags of values that a loop or a branch makes: `stop_gradient` of a state is about the value it starts from.
// Tested by tests/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/block_edits.h"

namespace gradc {

class FlagRemoval {
 public:
  FlagRemoval(BlockProgram &program, uint32_t block) : program(program), block(block) {}

  /// Whether a block makes what it writes under the name of something that is not flagged. Each body is looked at once: its
  /// operators, and the flags of what they read, are those of the first request.
  bool dependsOnUnflagged(uint32_t body, TextId name);

  /// Takes the flag from a variable of the block.
  void remove(TextId copy);

  /// A flag on what the block makes of flagged values alone only repeats theirs, so it goes where one of them is not flagged now. A
  /// value among others of one name gets a name of its own; where that is the last one, the name joins `finalNames`.
  void removeRepeated(Context &context, IdMap<TextId> &finalNames);

 private:
  NameSet findLive(uint32_t body) const;
  TextId stateOf(const BlockOp &op, uint32_t index, TextId name, TextId copy, BlockEdits &edits);

  BlockProgram &program;
  const uint32_t block;
  NameSet removed;
  DenseMap<uint32_t, NameSet> live;  // by body
};

}  // namespace gradc
