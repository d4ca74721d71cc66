// Lowering must not lose writes to variables, although the replacement of a node may need fewer operands than the node,
// and its outputs may need only part of what it computes (MUT-06). Tested by tests/passes/lowering/lower_loops_test.cc
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// The order that rules stated for nodes they emitted, which other nodes may have replaced since.
class EmittedOrder {
 public:
  void clear() { later.clear(), earlier.clear(), places.clear(), added.clear(); }
  void add(llvm::ArrayRef<std::pair<NodeId, NodeId>> waits);
  /// Nodes that others wait for; they stay in the graph even if nothing reads them.
  llvm::ArrayRef<NodeId> waitedFor() const { return earlier; }
  /// States that nodes [first, end) of the list passed to `addTo` replace the node.
  void note(NodeId node, size_t first, size_t end) {
    if (!later.empty()) places[node.value] = {first, end};
  }
  /// Makes the replacement of a later node wait for the last node that replaces the earlier one, and for those that
  /// overwrite something.
  void addTo(GraphBuilder &builder, llvm::ArrayRef<NodeId> made);
  /// Whether `addTo` made one wait for the other.
  bool hasAdded(NodeId later, NodeId earlier) const { return added.contains({later.value, earlier.value}); }

 private:
  llvm::SmallVector<NodeId, 0> later, earlier;
  DenseMap<uint32_t, std::pair<size_t, size_t>> places;
  DenseSet<std::pair<uint32_t, uint32_t>> added;
};

/// What may lose its readers when loops, branches and calls are replaced. Empty if nothing is overwritten, or there are
/// no such nodes. Linear.
struct EndangeredWrites {
  explicit EndangeredWrites(const Graph &graph);

  /// By entry: whether a head depends on it, whatever replaces loops, branches and calls.
  llvm::BitVector isAlwaysRead;
  /// By node: whether it overwrites a variable and is perhaps needed only by loops, branches and calls, or depends on
  /// such a node.
  llvm::BitVector mayLoseReaders;
};

/// By node: whether another one waits for it, other than a gradient operator for its forward node.
llvm::BitVector waitedForNodes(const Graph &graph);

/// The replacement of a node: nodes of the builder in an execution order, and the values of its outputs.
struct Replacement {
  llvm::SmallVectorImpl<NodeId> &made;
  llvm::ArrayRef<Value *> outputs;  // those that are read
  bool isWaitedFor;                 // other nodes wait for the node, and now for the last one made
};

/// Ensures that `others`, and the nodes of `to` that overwrite something, run: each output, and the node that other
/// nodes wait for, waits for those of them that precede it and that it does not read. A copy waits for those that none
/// of these nodes reads or waits for; it is appended and replaces the first output. Linear in the edges of `to`, per
/// output, if something is overwritten.
void keepWrites(GraphBuilder &builder, const EmittedOrder &order, Replacement to, llvm::ArrayRef<NodeId> others);

/// Orders the nodes of `lowered`, the form of `before` in a target's operators, so that each reads the version it
/// refers to, if necessary from a copy: a node that reads a write and the overwritten variable may have become several
/// nodes, of which the reader of the variable does not wait for the write. If `before` is out of order already, nothing
/// is changed. Linear.
llvm::Expected<Graph> orderWrites(Context &context, const Graph &before, const Graph &lowered);

}  // namespace gradc
