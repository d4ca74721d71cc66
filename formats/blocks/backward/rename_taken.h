// Names of gradients that are in use already. Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/backward/gradients/gradient_maker.h"

namespace gradc {

/// In the operators of a block from `firstOp` on, gradients that the block declares already, except those in `kept`,
/// get new names. `to` has names that are replaced from the start.
void renameTakenGradients(BlockProgram &program, uint32_t block, size_t firstOp, IdMap<TextId> to, const NameSet &kept,
                          GradientNames &names, GradientMaker &maker);

}  // namespace gradc
