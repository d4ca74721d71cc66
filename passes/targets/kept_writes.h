// What a graph overwrites, it overwrites in any words: a node that takes the place of another may need fewer operands, and
// not everything that the other one does (MUT-06). Tested by tests/lower_loops_test.cc
#pragma once

#include "ir/dense_map.h"
#include "ir/graph_builder.h"
#include "passes/targets/target.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// What rules said of the order of nodes that they emitted and that others may have taken the place of since.
class EmittedOrder {
 public:
  void clear() { later.clear(), earlier.clear(), places.clear(), added.clear(); }
  void add(llvm::ArrayRef<std::pair<NodeId, NodeId>> waits);
  /// Nodes that others wait for are in the graph, whether something reads them or not.
  llvm::ArrayRef<NodeId> waitedFor() const { return earlier; }
  /// The nodes `first` to `end`, exclusive, of the list that `addTo` is given are what became of the node.
  void note(NodeId node, size_t first, size_t end) {
    if (!later.empty()) places[node.value] = {first, end};
  }
  /// What became of the later node waits for the last of what became of the earlier one, and for what overwrites something.
  void addTo(GraphBuilder &builder, llvm::ArrayRef<NodeId> made);
  /// Whether `addTo` made one wait for the other.
  bool hasAdded(NodeId later, NodeId earlier) const { return added.contains({later.value, earlier.value}); }

 private:
  llvm::SmallVector<NodeId, 0> later, earlier;
  DenseMap<uint32_t, std::pair<size_t, size_t>> places;
  DenseSet<std::pair<uint32_t, uint32_t>> added;
};

/// What of a graph may lose its readers when loops, branches and calls become other nodes. Empty where nothing is overwritten,
/// or there are none of these. Linear.
struct LooseWrites {
  explicit LooseWrites(const Graph &graph);

  /// By entry: it leads to a head whatever becomes of loops, branches and calls.
  llvm::BitVector isHeld;
  /// By node: it overwrites a variable and only operands of loops, branches and calls may lead to it, or it needs such a node.
  llvm::BitVector isLoose;
};

/// By node: another one waits for it, other than a gradient operator for its forward node.
llvm::BitVector waitedForNodes(const Graph &graph);

/// What takes the place of a node: nodes of the builder in an execution order, and those that yield its outputs.
struct Replacement {
  llvm::SmallVectorImpl<NodeId> &made;
  llvm::ArrayRef<Value *> outputs;  // that are read
  bool isWaitedFor;                 // what waited for the node waits for the last one made
};

/// The nodes made that overwrite something and `others` run: each output, and what is waited for, waits for those before it
/// that it does not read, and where none of these comes after one of them, a copy that waits for it is appended and takes the
/// place of the first output. Linear in the edges of what is made for each output, where something is overwritten.
void keepWrites(GraphBuilder &builder, const EmittedOrder &order, Replacement to, llvm::ArrayRef<NodeId> others);

/// `lowered`, which a target's operators make of `before`, with its nodes in an order in which each reads the version that it
/// means: a node that waits for a write through one operand and reads the overwritten variable as another may have become
/// several, of which the one that reads does not wait. StaleVersion naming the node where only a copy would help. What was out
/// of order before stays as it is. Linear.
llvm::Expected<Graph> orderWrites(Context &context, const Graph &before, const Graph &lowered, const Target &target);

}  // namespace gradc
