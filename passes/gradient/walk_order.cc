// An iterative search, as in freeze, then its reversal. Tested by tests/passes/gradient/higher_order_test.cc,
// tests/networks/differential_test.cc
#include "passes/gradient/walk_order.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

struct Visit {
  NodeId node;
  uint32_t nextInput;
};

class DataOrder {
 public:
  explicit DataOrder(const Graph &graph) : graph(graph), seen(graph.numNodes()), unknown(graph.numNodes()) {
    order.reserve(graph.numNodes());
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (isOpaque(NodeId(n)) || any_of(graph.inputs(NodeId(n)), [&](Value v) { return unknown[v.node.value]; }))
        unknown.set(n);
  }

  /// Post-order from the heads along data edges; nodes that no head reads come last.
  std::vector<NodeId> run() {
    for (Value head : graph.heads())
      if (!unknown[head.node.value]) search(head.node);
    for (Value head : graph.heads()) search(head.node);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) search(NodeId(n));
    return std::move(order);
  }

 private:
  bool isOpaque(NodeId n) const { return graph.op(n) && graph.op(n)->flags.isOpaque; }

  void enter(NodeId n) {
    if (seen[n.value]) return;
    seen.set(n.value);
    stack.push_back({n, 0});
  }

  void search(NodeId root) {
    for (enter(root); !stack.empty();) {
      Visit &top = stack.back();
      ArrayRef<Value> inputs = graph.inputs(top.node);
      if (top.nextInput < inputs.size()) {
        enter(inputs[top.nextInput++].node);
        continue;
      }
      order.push_back(top.node);
      stack.pop_back();
    }
  }

  const Graph &graph;
  BitVector seen, unknown;  // unknown: depends on an unknown operator
  std::vector<NodeId> order;
  std::vector<Visit> stack;
};

// Nodes whose outputs are read once in all, as the running sums of a chain are.
BitVector readOnce(const Graph &graph) {
  BitVector once(graph.numNodes()), more(graph.numNodes());
  auto count = [&](Value v) { (once[v.node.value] ? more : once).set(v.node.value); };
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (Value v : graph.inputs(NodeId(n))) count(v);
  for (Value head : graph.heads()) count(head);
  return once.reset(more);
}

}  // namespace

std::vector<NodeId> walkOrder(const Graph &graph, const WellKnownOps &ops) {
  const std::vector<NodeId> order = DataOrder(graph).run();
  const BitVector once = readOnce(graph);
  BitVector placed(graph.numNodes());
  std::vector<NodeId> walk;
  walk.reserve(order.size());
  auto beginsWithAddition = [&](NodeId n) {
    const ArrayRef<Value> terms = graph.inputs(n);
    return !terms.empty() && graph.op(terms[0].node) == ops.add && once[terms[0].node.value];
  };
  for (size_t i = order.size(); i-- > 0;) {
    NodeId n = order[i];
    if (placed[n.value]) continue;
    walk.push_back(n);
    // The running sums below have no other reader. The first term of a sum may be an addition as well; at the end of a
    // chain it looks like a running sum, so an n-ary sum is walked with it too.
    while ((graph.op(n) == ops.add || graph.op(n) == ops.sum) && beginsWithAddition(n)) {
      n = graph.inputs(n)[0].node;
      placed.set(n.value);
      walk.push_back(n);
    }
  }
  return walk;
}

}  // namespace gradc
