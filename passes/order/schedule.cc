// Tested by tests/passes/schedule_test.cc
#include "passes/order/schedule.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"

using namespace llvm;

namespace gradc {
namespace {

Error refused(NodeId n, const Twine &message) { return Failure(ErrorKind::BadPlan, message).at(n); }

Error checkPermutation(const Graph &graph, const Schedule &schedule) {
  const uint32_t numNodes = graph.numNodes();
  if (schedule.size() != numNodes)
    return Failure(ErrorKind::BadPlan,
                   "the schedule has " + Twine(schedule.size()) + " nodes, the graph has " + Twine(numNodes));
  for (uint32_t step = 0; step < numNodes; ++step) {
    const NodeId n = schedule.nodeAt(step);
    if (n.value >= numNodes)
      return Failure(ErrorKind::BadPlan, "the schedule runs node " + Twine(n.value) + " at step " + Twine(step) +
                                             ", the graph has " + Twine(numNodes) + " nodes");
    if (schedule.stepOf(n) != step)
      return refused(n, "the schedule runs " + graph.describe(n) + " twice, at steps " + Twine(schedule.stepOf(n)) +
                            " and " + Twine(step));
  }
  return Error::success();
}

}  // namespace

Schedule::Schedule(std::vector<NodeId> nodesInOrder) : order(std::move(nodesInOrder)), steps(order.size(), kNoStep) {
  for (uint32_t step = 0; step < order.size(); ++step)
    if (const uint32_t n = order[step].value; n < steps.size() && steps[n] == kNoStep) steps[n] = step;
}

Error verifySchedule(const Graph &graph, const Schedule &schedule) {
  return catchingBadAlloc("to verify the schedule", [&]() -> Error {
    if (schedule.isIdentity()) return Error::success();
    if (Error error = checkPermutation(graph, schedule)) return error;
    for (uint32_t step = 0; step < graph.numNodes(); ++step) {
      const NodeId n = schedule.nodeAt(step);
      auto early = [&](NodeId before, const Twine &why) {
        return refused(n, "the schedule runs " + graph.describe(n) + " at step " + Twine(step) + ", before " +
                              graph.describe(before) + ", which it " + why + ", at step " +
                              Twine(schedule.stepOf(before)));
      };
      for (Value v : graph.inputs(n))
        if (schedule.stepOf(v.node) > step) return early(v.node, "reads");
      for (NodeId dep : graph.controlDeps(n))
        if (schedule.stepOf(dep) > step) return early(dep, "waits for");
    }
    return Error::success();
  });
}

}  // namespace gradc
