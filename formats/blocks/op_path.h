// Which operators gradients go through (NG-07): those that the sources reach and that reach a target, in blocks within
// blocks too. Tested by tests/append_backward_test.cc
#pragma once

#include "formats/blocks/gradient_names.h"

namespace gradc {

/// For each block of the program the positions of its operators on the path, ascending.
using OpPaths = std::vector<std::vector<uint32_t>>;

/// Fills `paths` for `block` and the blocks its operators own. Operators without a gradient end a path; names of `noGrad` do
/// not carry it on. `sources` empty: every input of the block is one. What a `while` block needs from its last step it
/// needs from the steps before (CF-13). With sources, `noGrad` gains what is read on the path, is not reached from them and
/// is flagged stop_gradient.
void findOpPath(const BlockProgram &program, uint32_t block, const NameSet &targets, llvm::ArrayRef<TextId> sources,
                NameSet &noGrad, OpPaths &paths);

/// What operators of the path write and nobody on it reads.
std::vector<TextId> findUnreadOutputs(const BlockProgram &program, uint32_t block, llvm::ArrayRef<uint32_t> path,
                                      const NameSet &targets, const NameSet &noGrad);

/// The targets as seen from `block`: their names, or, where they belong to a block within it, what that block reads of
/// `block` to compute them.
NameSet targetsSeenFrom(const BlockProgram &program, uint32_t block, uint32_t targetBlock,
                        llvm::ArrayRef<TextId> targets);

/// Of block and name: how many of the operators that count it are on the path, the first ones. Their gradients count back.
using CountedBack = DenseMap<std::pair<uint32_t, uint32_t>, uint32_t>;
CountedBack countersOn(const BlockProgram &program, const OpPaths &paths);
/// Leaves in `counters` no more than was found when values had names of their own. Whether they all are left.
bool keepCounted(const BlockProgram &program, const CountedBack &found, CountedBack &counters);

}  // namespace gradc
