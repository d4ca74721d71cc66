// The outputs that a loop stacks for its gradient have values only in the rows of the steps that ran; the other rows
// are uninitialized, so that a loop touches no more memory than it fills. Its gradient, also a loop, reads the same
// rows. Where anything else reads such an output, as in a handwritten file, the loop zeroes it first. Tested by
// tests/runtime/unwritten_rows_test.cc
#pragma once

#include "passes/inference/infer.h"
#include "runtime/kernels/core/prepared_kernel.h"

#include "llvm/ADT/BitVector.h"

#include <memory>

namespace gradc {

/// By node: the loops with a stacked output whose readers need rows of steps that did not run. `isPartlyRead`: by head,
/// whether only the rows that were written are read; empty: none. Linear.
llvm::BitVector loopsToClear(const Graph &graph, const llvm::BitVector &isPartlyRead);

/// By head of a body: whether it exists for gradients, which read no more rows of a stack inside the body than were
/// written. The node must be one that is not cleared.
llvm::BitVector partlyReadHeads(const NodeKind &kind, size_t body);

/// Bytes of the stacks of which only the rows of executed steps are touched. `isCleared`: as loopsToClear found.
size_t bytesOfPartlyWrittenStacks(const Graph &graph, const Inference &inference, const llvm::BitVector &isCleared);

/// Zeroes the stacked outputs of such a loop, then runs its kernel.
std::unique_ptr<PreparedKernel> clearingKernel();

}  // namespace gradc
