// What a graph overwrites, it overwrites in any words: a node that takes the place of another may need fewer operands, and
// not everything that the other one does (MUT-06). Tested by tests/lower_loops_test.cc
#pragma once

#include "ir/graph_builder.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// By node: it overwrites a variable and only operands of loops, branches and calls may lead to it, or it needs such a node.
/// Empty where there is none. Linear.
llvm::BitVector looseNodes(const Graph &graph);

/// The nodes of `made` that overwrite something and `others` run: each output waits for those before it that it does not
/// read, and where no output comes after one of them, a copy that waits for it takes the place of the first output. `made`
/// is in an execution order; the copy is appended. Linear in the edges of `made` for each output, where something is
/// overwritten.
void keepWrites(GraphBuilder &builder, llvm::ArrayRef<Value *> outputs, llvm::SmallVectorImpl<NodeId> &made,
                llvm::ArrayRef<NodeId> others);

}  // namespace gradc
