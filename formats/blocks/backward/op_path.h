// Which operators gradients go through (NG-07): those that the sources reach and that reach a target, inner blocks
// included. Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"

namespace gradc {

/// For each block of the program the positions of its operators on the path, ascending.
using OpPaths = std::vector<std::vector<uint32_t>>;

/// Fills `paths` for `block` and the blocks its operators own; operators without a gradient and names in `noGrad` end a
/// path. Without `sources` every input of the block is one; with sources, names that are read on the path, flagged
/// stop_gradient and not reached from the sources are added to `noGrad`. What a `while` block needs from its last step
/// it also needs from the steps before (CF-13).
void findOpPath(const BlockProgram &program, uint32_t block, const NameSet &targets, llvm::ArrayRef<TextId> sources,
                NameSet &noGrad, OpPaths &paths);

/// Names that operators on the path write and none of them reads.
std::vector<TextId> findUnreadOutputs(const BlockProgram &program, uint32_t block, llvm::ArrayRef<uint32_t> path,
                                      const NameSet &targets, const NameSet &noGrad);

/// The targets as seen from `block`: their names or, if they belong to an inner block, the names that it reads from
/// `block` to compute them.
NameSet targetsSeenFrom(const BlockProgram &program, uint32_t block, uint32_t targetBlock,
                        llvm::ArrayRef<TextId> targets);

/// By block and name: how many operators that count the name, the first ones, are on the path. Their gradients count
/// back.
using CountedBack = DenseMap<std::pair<uint32_t, uint32_t>, uint32_t>;
CountedBack countersOn(const BlockProgram &program, const OpPaths &paths);
/// Reduces `counters` to those in `found`, from the program in which each value has a separate name. True if none is
/// lost.
bool keepCounted(const BlockProgram &program, const CountedBack &found, CountedBack &counters);

}  // namespace gradc
