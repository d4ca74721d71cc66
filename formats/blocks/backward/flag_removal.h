// The flags of values that a loop or a branch makes: `stop_gradient` of a state refers to its initial value. Tested by
// tests/formats/blocks/backward/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/program/block_edits.h"

namespace gradc {

class FlagRemoval {
 public:
  FlagRemoval(BlockProgram &program, uint32_t block) : program(program), block(block) {}

  /// Whether the value that a block writes under the name depends on an unflagged value. Each body is analysed once,
  /// with its operators and the flags of what they read as of the first request.
  bool dependsOnUnflagged(uint32_t body, TextId name);

  /// Clears the flag of a variable of the block.
  void remove(TextId copy);

  /// A flag on a value made only from flagged values repeats theirs, so it is cleared if one of them has lost its flag.
  /// If the name has other values too, this one gets a separate name, which joins `finalNames` if it is the last.
  void removeRepeated(Context &context, UnusedNames &unused, IdMap<TextId> &finalNames);

 private:
  NameSet findLive(uint32_t body) const;
  TextId stateOf(const BlockOp &op, uint32_t index, TextId name, TextId copy, BlockEdits &edits);

  BlockProgram &program;
  const uint32_t block;
  NameSet removed;
  DenseMap<uint32_t, NameSet> live;  // by body
};

}  // namespace gradc
