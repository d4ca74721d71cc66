// Gradient blocks and the operators that run them: loops that go backwards over what the forward loop stacked, and
// branches on the decision that the forward branch recorded. Tested by
// tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/graph/block_body.h"

namespace gradc {

/// Declares what the operator of a gradient block hands in, before its operators are read.
void beginGradient(BlockReader &reader);
llvm::Expected<BlockBody> gradientBody(BlockReader &reader);
/// Adds the values that gradient blocks read to the heads of a body.
void saveValues(BlockReader &reader, BlockBody &body, llvm::SmallVectorImpl<Value> &heads);

/// `while_grad` and `recurrent_grad`.
llvm::Error readLoopGradient(BlockReader &reader, size_t at);
llvm::Error readConditionalGradient(BlockReader &reader, size_t at);

/// Finds the names that only `increment` writes in the body of a loop. Its gradient block undoes them: an `increment`
/// there has the negated step and starts from the value which the forward one wrote.
void findCounters(BlockReader &reader);

}  // namespace gradc
