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

bool isSum(const Context &ctx, const OpDef *op) {
  const WellKnownOps &ops = ctx.ops.wellKnown;
  return op && (op == ops.sum || op == ops.add || op == ops.copy);
}

/// By entry of the frozen graph: what it is the gradient of.
std::vector<Value> gradientEntries(const Frozen &frozen, const BitVector &generated, ArrayRef<GradientOf> gradients) {
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
    if (!generated[n] || !isSum(graph.context(), graph.op(NodeId(n)))) continue;
    Value entry = of[graph.firstEntry(NodeId(n)).value];
    if (!entry.isValid()) continue;
    for (Value summand : graph.inputs(NodeId(n))) note(summand, entry);
  }
  return of;
}

}  // namespace

void tellListener(GradientListener &listener, const Frozen &frozen, uint32_t numBase, ArrayRef<GradientOf> gradients) {
  const Graph &graph = frozen.graph;
  BitVector generated = generatedNodes(frozen, numBase);
  std::vector<Value> of = gradientEntries(frozen, generated, gradients);
  for (unsigned n : generated.set_bits()) {
    NodeId id(n);
    ArrayRef<Value> outputs = ArrayRef(of).slice(graph.firstEntry(id).value, graph.numOutputs(id));
    listener.emitted({graph, id, graph.origin(id), outputs});
  }
}

bool hasFollowingAttrs(const Graph &graph) {
  const Context &ctx = graph.context();
  uint32_t end = 0;
  for (KindId id : graph.columns().kinds) end = std::max(end, id.value + 1);
  for (uint32_t id = 0; id < end; ++id)
    for (const AttrPair &pair : ctx.attrs(ctx.kind(KindId(id)).attrs))
      if (is_contained(kFollowing, ctx.text(pair.key))) return true;
  return false;
}

Expected<KindId> withFollowingAttrsOf(Context &context, KindId id, AttrsId from) {
  const NodeKind &kind = context.kind(id);
  if (kind.isVariable() || kind.op->flags.isOpaque) return id;
  SmallVector<AttrText, 2> updates;
  for (StringRef key : kFollowing)
    if (std::optional<StringRef> value = context.attr(from, key)) updates.push_back({key, *value});
  if (updates.empty()) return id;
  return context.kind(*kind.op, context.withAttrs(kind.attrs, updates), kind.spelling, kind.bodies);
}

Expected<Frozen> withFollowingAttrs(Context &context, Frozen frozen, uint32_t numBase) {
  const Graph &graph = frozen.graph;
  BitVector generated = generatedNodes(frozen, numBase);
  GraphRewriter rewriter(context, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    NodeId origin = generated[n] ? graph.origin(id) : NodeId();
    Expected<KindId> kind =
        origin.isValid() ? withFollowingAttrsOf(context, graph.kindId(id), graph.kind(origin).attrs) : graph.kindId(id);
    if (!kind) return kind.takeError();
    rewriter.copy(id, *kind);
  }
  Expected<Rewritten> again = std::move(rewriter).finish(graph.graphAttrs());
  if (!again) return again.takeError();
  assert(again->graph.numNodes() == graph.numNodes() && "a canonical graph keeps its ids");
  frozen.graph = again->graph;
  return frozen;
}

}  // namespace gradc
