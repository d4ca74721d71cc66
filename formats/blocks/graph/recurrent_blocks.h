// `recurrent` as `_scan`: its inputs are sliced, its states pass from step to step, its outputs are stacked. The
// gradient runs in the opposite direction (formats/blocks/graph/gradient_blocks.h). Tested by
// tests/formats/blocks/recurrent_test.cc
#pragma once

#include "formats/blocks/graph/block_body.h"

namespace gradc {

/// Reads what a step is given, before its operators.
llvm::Error beginStep(BlockReader &reader);
/// The outputs' rows, then the states, then outer names that the block writes.
llvm::Expected<BlockBody> stepBody(BlockReader &reader);
llvm::Error readRecurrent(BlockReader &reader, size_t at);

/// Inputs of a body that change from step to step: the results of a loop, the previous states of `recurrent`. `block`
/// is that of the body.
DenseSet<std::pair<uint32_t, uint32_t>> statesOf(const BlockReaders &all, uint32_t block, const BlockBody &body);

}  // namespace gradc
