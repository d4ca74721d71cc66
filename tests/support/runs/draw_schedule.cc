// Tested by tests/passes/schedule_test.cc
#include "tests/support/runs/draw_schedule.h"

#include "tests/support/drawn/dice.h"
#include "tests/support/test_graph.h"

namespace gradc::testing {

Schedule drawSchedule(const Graph &graph, uint64_t seed) {
  std::vector<std::vector<NodeId>> followers(graph.numNodes());
  std::vector<size_t> numAwaited(graph.numNodes(), 0);
  std::vector<NodeId> ready, order;
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    for (Value v : graph.inputs(n)) followers[v.node.value].push_back(n);
    for (NodeId dep : graph.controlDeps(n)) followers[dep.value].push_back(n);
    numAwaited[id] = graph.inputs(n).size() + graph.controlDeps(n).size();
    if (numAwaited[id] == 0) ready.push_back(n);
  }
  Dice dice(seed);
  while (!ready.empty()) {
    std::swap(ready[dice.below(ready.size())], ready.back());
    const NodeId n = ready.back();
    ready.pop_back();
    order.push_back(n);
    for (NodeId follower : followers[n.value])
      if (--numAwaited[follower.value] == 0) ready.push_back(follower);
  }
  return Schedule(std::move(order));
}

Schedule scheduleOf(const Graph &graph, llvm::ArrayRef<llvm::StringRef> names) {
  std::vector<NodeId> order;
  for (llvm::StringRef name : names) order.push_back(nodeNamed(graph, name));
  return Schedule(std::move(order));
}

}  // namespace gradc::testing
