// An iterative search, as in freeze, then its reversal. Tested by tests/higher_order_test.cc, tests/differential_test.cc
#include "passes/gradient/walk_order.h"

#include "llvm/ADT/BitVector.h"

using namespace llvm;

namespace gradc {
namespace {

struct Visit {
  NodeId node;
  uint32_t nextInput;
};

class DataOrder {
 public:
  explicit DataOrder(const Graph &graph) : graph(graph), seen(graph.numNodes()) {}

  /// Post-order from the roots along data edges, after what is reached of the forward part, by rising id.
  std::vector<NodeId> run(uint32_t numForward, ArrayRef<NodeId> roots) {
    for (NodeId root : roots) search(root);
    const BitVector reached = std::move(seen);
    seen = BitVector(graph.numNodes());
    order.clear();
    for (uint32_t n = 0; n < numForward; ++n)
      if (reached[n]) search(NodeId(n));
    for (NodeId root : roots) search(root);
    return std::move(order);
  }

 private:
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
  BitVector seen;
  std::vector<NodeId> order;
  std::vector<Visit> stack;
};

// Nodes whose outputs are read once in all by the roots and what they depend on, as the running sums of a chain are.
BitVector readOnce(const Graph &graph, ArrayRef<NodeId> roots, ArrayRef<NodeId> order) {
  BitVector once(graph.numNodes()), more(graph.numNodes());
  auto count = [&](NodeId n) { (once[n.value] ? more : once).set(n.value); };
  for (NodeId n : order)
    for (Value v : graph.inputs(n)) count(v.node);
  for (NodeId root : roots) count(root);
  return once.reset(more);
}

}  // namespace

std::vector<NodeId> walkOrder(const Graph &graph, uint32_t numForward, ArrayRef<NodeId> roots, const OpDef *add) {
  const std::vector<NodeId> order = DataOrder(graph).run(numForward, roots);
  const BitVector once = readOnce(graph, roots, order);
  BitVector placed(graph.numNodes());
  std::vector<NodeId> walk;
  walk.reserve(order.size());
  for (size_t i = order.size(); i-- > 0;) {
    NodeId n = order[i];
    if (placed[n.value]) continue;
    walk.push_back(n);
    // The running sums below wait for nobody else.
    while (graph.op(n) == add && graph.op(graph.inputs(n)[0].node) == add && once[graph.inputs(n)[0].node.value]) {
      n = graph.inputs(n)[0].node;
      placed.set(n.value);
      walk.push_back(n);
    }
  }
  return walk;
}

}  // namespace gradc
