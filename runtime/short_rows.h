// What a loop stacks for its gradient has values in the rows of the steps that ran; the other rows are as memory has them, so that
// a loop touches no more than it runs. Its gradient, a loop again, reads as many rows. Where anything else reads such a stack,
// in a file made by hand, the loop zeroes it first. Tested by tests/short_rows_test.cc
#pragma once

#include "ir/graph.h"
#include "runtime/kernels/prepared_kernel.h"

#include "llvm/ADT/BitVector.h"

#include <memory>

namespace gradc {

/// By node: the loops whose stacks have readers that take rows of steps that were not run. `isShort`: by head, those of whose
/// rows as many are read as were written; empty: none. Linear.
llvm::BitVector loopsToClear(const Graph &graph, const llvm::BitVector &isShort);

/// By head of a body of a node that is not to be cleared: what is there for gradients, which read no more of a stack within the
/// body than was written.
llvm::BitVector shortHeads(const NodeKind &kind, size_t body);

/// Runs the kernel of such a loop after it zeroed the stacks.
std::unique_ptr<PreparedKernel> clearingKernel();

}  // namespace gradc
