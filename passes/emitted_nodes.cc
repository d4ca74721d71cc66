// Sweeps over the generated part of a frozen graph. Tested by tests/gradient_listener_test.cc
#include "passes/emitted_nodes.h"

#include "passes/rewriter.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kFollowing[] = {"__ctx_group__", "__profiler_scope__"};

BitVector generatedNodes(const Frozen &frozen, uint32_t numBase) {
  BitVector generated(frozen.graph.numNodes(), true);
  for (uint32_t n = 0; n < numBase; ++n)
    if (NodeId id = frozen.newId[n]; id.isValid()) generated.reset(id.value);
  return generated;
}

bool isSum(const WellKnownOps &ops, const OpDef *op) {
  return op && (op == ops.sum || op == ops.add || op == ops.copy);
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

void tellListener(GradientListener &listener, const Frozen &frozen, uint32_t numBase, ArrayRef<GradientOf> gradients,
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

bool hasFollowingAttrs(const Graph &graph) {
  return any_of(graph.kinds(), [](const KindRef &kind) {
    return any_of(kFollowing, [&](StringRef key) { return kind->attrs.get(key).has_value(); });
  });
}

Expected<KindRef> withFollowingAttrsOf(Context &context, const KindRef &handle, const Attrs &from) {
  const NodeKind &kind = *handle;
  if (kind.isVariable() || kind.op->flags.isOpaque) return handle;
  SmallVector<AttrText, 2> updates;
  for (StringRef key : kFollowing)
    if (std::optional<StringRef> value = from.get(key)) updates.push_back({key, *value});
  if (updates.empty()) return handle;
  return context.kind(*kind.op, context.withAttrs(kind.attrs, updates), kind.spelling, kind.bodies);
}

Expected<Frozen> withFollowingAttrs(Context &context, Frozen frozen, uint32_t numBase) {
  const Graph &graph = frozen.graph;
  BitVector generated = generatedNodes(frozen, numBase);
  GraphRewriter rewriter(context, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    NodeId origin = generated[n] ? graph.origin(id) : NodeId();
    Expected<KindRef> kind =
        origin.isValid() ? withFollowingAttrsOf(context, graph.kindHandle(id), graph.attrs(origin)) : graph.kindHandle(id);
    if (!kind) return kind.takeError();
    rewriter.copy(id, *kind);
  }
  Expected<Rewritten> again = std::move(rewriter).finish();
  if (!again) return again.takeError();
  assert(again->graph.numNodes() == graph.numNodes() && "a canonical graph keeps its ids");
  frozen.graph = again->graph;
  return frozen;
}

}  // namespace gradc
