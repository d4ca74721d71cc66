// Finds which entry every generated node is a gradient of. Tested by tests/passes/gradient/gradient_listener_test.cc
#include "passes/gradient/listener.h"

#include "passes/rewrite/inherited_attrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

bool isSum(const WellKnownOps &ops, const OpDef *op) {
  return op && (op == ops.sum || op == ops.add || op == ops.copy || op == ops.tap);
}

/// By entry of the frozen graph: what it is the gradient of.
std::vector<Value> gradientEntries(const Frozen &frozen, const BitVector &generated, ArrayRef<GradientOf> gradients,
                                   const WellKnownOps &ops) {
  const Graph &graph = frozen.graph;
  std::vector<Value> of(graph.numEntries());
  auto note = [&](Value gradient, Value entry) {
    Value &known = of[graph.entry(gradient).value];
    if (!known.isValid()) known = entry;
  };
  for (const GradientOf &pair : gradients)
    if (frozen.newId[pair.gradient.node.value].isValid() && frozen.newId[pair.entry.node.value].isValid())
      note(frozen(pair.gradient), frozen(pair.entry));
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    if (!generated[n] || !isSum(ops, graph.op(NodeId(n)))) continue;
    Value entry = of[graph.firstEntry(NodeId(n)).value];
    if (!entry.isValid()) continue;
    for (Value summand : graph.inputs(NodeId(n))) note(summand, entry);
  }
  return of;
}

}  // namespace

void notifyListener(GradientListener &listener, const Frozen &frozen, uint32_t numBase, ArrayRef<GradientOf> gradients,
                    const WellKnownOps &ops) {
  const Graph &graph = frozen.graph;
  BitVector generated = generatedNodes(frozen, numBase);
  std::vector<Value> of = gradientEntries(frozen, generated, gradients, ops);
  for (unsigned n : generated.set_bits()) {
    NodeId id(n);
    ArrayRef<Value> outputs = ArrayRef(of).slice(graph.firstEntry(id).value, graph.numOutputs(id));
    listener.emitted({graph, id, graph.origin(id), outputs});
  }
}

}  // namespace gradc
