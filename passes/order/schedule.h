// The order in which the nodes of a graph run: a table separate from the graph, which does not change.
//
// Id order is the schedule unless another one is given. Reordering to save memory, to run optimizer steps early or to
// overlap work changes only the schedule: ids, names, files and, bit for bit, the values of heads stay the same.
// Tested by tests/passes/schedule_test.cc
#pragma once

#include "ir/graph/graph.h"

namespace gradc {

class Schedule {
 public:
  /// Id order, without a table to look into.
  Schedule() = default;
  /// All nodes of a graph, variables included, in the order in which they run. Unchecked: see `verifySchedule`.
  explicit Schedule(std::vector<NodeId> nodesInOrder);

  bool isIdentity() const { return order.empty(); }
  size_t size() const { return order.size(); }
  NodeId nodeAt(uint32_t step) const { return isIdentity() ? NodeId(step) : order[step]; }
  /// kNoStep for a node that is not in the schedule.
  uint32_t stepOf(NodeId n) const { return isIdentity() ? n.value : n.value < steps.size() ? steps[n.value] : kNoStep; }

  static constexpr uint32_t kNoStep = 0xffffffff;

 private:
  std::vector<NodeId> order;    // by step; empty: id order
  std::vector<uint32_t> steps;  // by node: the first step that runs it
};

/// Steps from `begin` up to, but not including, `end`.
struct StepRange {
  uint32_t begin = 0, end = 0xffffffff;
  bool contains(uint32_t step) const { return begin <= step && step < end; }
};

/// BadPlan unless the schedule has every node of the graph once, after all that it reads and waits for; names the node
/// that runs too early and the one it must follow. Whether readers of overwritten variables keep their versions is
/// checked by checkMutationOrder. Linear; nothing to do for id order.
llvm::Error verifySchedule(const Graph &graph, const Schedule &schedule);

}  // namespace gradc
