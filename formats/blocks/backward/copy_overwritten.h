// Gives values that a gradient needs but the program overwrites separate names, so that gradient operators can refer to
// them.
//
// A gradient operator reads a name after the last forward operator has run; a loop's state it reads as it was at the
// beginning of the step. The program must not have overwritten what it reads. So an overwritten value gets another name
// in its writers and readers, and where one operator has the old and the new value under one name (a loop and its
// state), an `assign` copies the old one. Programs that need none of this are not changed.
//
// Changes block 0 and those its operators own, level by level:
// - in any block, a name that is written again although the gradient of an earlier operator reads it or arrives under
//   it, or that a step of `recurrent` is given;
// - in a loop's body, a state that is written twice, read after its last write, or read in an inner block;
// - in a branch's body, a result that is read there;
// - a loop's state that is flagged stop_gradient but depends on unflagged values: its steps get an unflagged variable.
// Gradient operators of earlier calls (`isAgain`) rely on the names that they read: blocks that have a gradient block
// stay unchanged, and so do persistable variables, because the earlier call's optimizer writes them. Tested by
// tests/formats/blocks/backward/copy_overwritten_test.cc and tests/oracles/paddle_programs.py
#pragma once

#include "formats/blocks/backward/op_path.h"
#include "ir/graph/context.h"

namespace gradc {

/// By name of a block: the name of its last value. Names whose values were not separated are missing.
using FinalNames = IdMap<TextId>;

/// Adds each copy to `copies` as (copy, original) and returns the final names of block 0. `isAgain`: the program has
/// gradients of earlier calls. Linear, times the depth.
FinalNames copyOverwritten(Context &context, BlockProgram &program, bool isAgain, const CountedBack &counters,
                           std::vector<std::pair<TextId, TextId>> &copies);

}  // namespace gradc
