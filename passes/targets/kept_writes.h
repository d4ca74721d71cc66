// What a graph overwrites, it overwrites in any words: a node that takes the place of another may need fewer operands, and
// not everything that the other one does (MUT-06). Tested by tests/lower_loops_test.cc
#pragma once

#include "ir/dense_map.h"
#include "ir/graph_builder.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// What rules said of the order of nodes that they emitted and that others may have taken the place of since.
class EmittedOrder {
 public:
  void clear() { later.clear(), earlier.clear(), places.clear(); }
  void add(llvm::ArrayRef<std::pair<NodeId, NodeId>> waits);
  /// Nodes that others wait for are in the graph, whether something reads them or not.
  llvm::ArrayRef<NodeId> waitedFor() const { return earlier; }
  /// The nodes `first` to `end`, exclusive, of the list that `addTo` is given are what became of the node.
  void note(NodeId node, size_t first, size_t end) {
    if (!later.empty()) places[node.value] = {first, end};
  }
  /// What became of the later node waits for the last of what became of the earlier one, and for what overwrites something.
  void addTo(GraphBuilder &builder, llvm::ArrayRef<NodeId> made) const;

 private:
  llvm::SmallVector<NodeId, 0> later, earlier;
  DenseMap<uint32_t, std::pair<size_t, size_t>> places;
};

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
