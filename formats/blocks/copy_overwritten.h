// Gives values that a gradient needs and that the program overwrites names of their own, so that names can say the gradient.
//
// A gradient operator reads a name after the last forward operator has run, and of a loop's state what it was at the
// beginning of the step. So the program must not have overwritten what it reads: here a value that is overwritten gets another
// name, its writers and readers with it, and where one operator has the old and the new value under one name (a loop and its
// state), an `assign` copies the old one. Programs that need none of this are not changed.
// Tested by tests/copy_overwritten_test.cc and tests/paddle_programs.py
#pragma once

#include "formats/blocks/op_path.h"
#include "ir/context.h"

namespace gradc {

/// What a name of block `block` was renamed to at its last write; the same name where it was not.
using FinalNames = IdMap<TextId>;

/// Changes blocks 0 and those its operators own, one level after the other:
///  - of a block, a name that is written again though the gradient of an operator before reads it, or arrives at it, or a step
///    of `recurrent` is given it;
///  - of a loop's body, a state that is written twice, read behind its last write, or read in a block within;
///  - of a branch's body, a result that is read there;
///  - a loop's state that is flagged stop_gradient and depends on what is not: its steps get a variable that is not flagged.
/// Names in `copies` that are copies of others: (copy, original). The final names are those of block 0. Linear, times the depth.
/// `isAgain`: the program has gradients of earlier calls. Their operators read what they read; blocks that have a gradient block
/// stay as they are, and so do variables that are persistable, for the earlier call's optimizer writes them.
FinalNames copyOverwritten(Context &context, BlockProgram &program, bool isAgain, const CountedBack &counters,
                           std::vector<std::pair<TextId, TextId>> &copies);

}  // namespace gradc
