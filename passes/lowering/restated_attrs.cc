#include "passes/lowering/restated_attrs.h"

#include "ir/base/dense_map.h"
#include "ir/op/hidden_keys.h"
#include "ir/rules/inference.h"
#include "passes/inference/carry.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The attribute that gives the shape of the output; null if there is none.
const AttrSpec *shapeAttr(const NodeKind &kind) {
  if (kind.isVariable() || !kind.op->shape) return nullptr;
  const auto *at = find_if(kind.op->attrs, [](const AttrSpec &attr) { return attr.givesShape; });
  return at == kind.op->attrs.end() ? nullptr : at;
}

class ShapesFromReaders {
 public:
  ShapesFromReaders(Context &ctx, const Graph &graph, const Inference &known)
      : ctx(ctx), graph(graph), known(known), shapes(*known.shapes) {}

  Expected<Graph> run(const Rewritten &lowered) {
    DenseMap<uint32_t, NodeId> byNode;  // by node of the lowered graph
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id), now = lowered.newId[id];
      if (now.isValid() && lowered.graph.op(now) == graph.op(n) && comesFromReaders(n)) byNode[now.value] = n;
    }
    if (byNode.empty()) return lowered.graph;
    InferOptions options;
    options.allowUnknown = true;
    const Inference carried = carry(known, graph, lowered.graph, sourcesOf(lowered.newId, lowered.graph.numNodes()));
    Expected<Inference> found = infer(ctx, lowered.graph, knownVariables(lowered.graph, carried), options);
    if (!found) return consumeError(found.takeError()), lowered.graph;
    return withKinds(ctx, lowered.graph, [&](NodeId n) -> Expected<KindRef> {
      const KindRef &kind = lowered.graph.kindHandle(n);
      const NodeId was = byNode.lookup(n.value);
      if (!was.isValid() || found->isKnownShape(lowered.graph.firstEntry(n))) return kind;
      return withShape(kind, was);
    });
  }

 private:
  Dims dimsOf(NodeId n) const { return known.shapeOf(graph.firstEntry(n)).dims(); }

  // MXNet has no spelling for a shape without axes or elements.
  bool comesFromReaders(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    if (!shapeAttr(kind) || !known.isKnownShape(graph.firstEntry(n))) return false;
    return !dimsOf(n).empty() && !is_contained(dimsOf(n), 0) && !determines(kind, n);
  }

  // Whether an operator of this kind determines the shape of the node from those of its inputs.
  bool determines(const NodeKind &kind, NodeId n) {
    SmallVector<ShapeId, 4> in, out(kind.numOutputs, kUnknownShape);
    for (Value v : graph.inputs(n)) in.push_back(known.shape[graph.entry(v)]);
    ShapeInference inference(shapes, kind, in, out, zeroIsUnknown(graph));
    kind.op->shape(inference);
    return !inference.hasFailed() && out[0] == known.shape[graph.firstEntry(n)];
  }

  // The kind itself where the attribute means something else.
  Expected<KindRef> withShape(const KindRef &kind, NodeId was) {
    std::string text;
    raw_string_ostream os(text);
    printAttr(os, dimsOf(was));
    const AttrText given{shapeAttr(*kind)->key, os.str()};
    Expected<KindRef> made = ctx.kindLike(*kind, ctx.withAttrs(kind->attrs, given), kind->bodies);
    if (made && !determines(**made, was)) return kind;
    return made;
  }

  Context &ctx;
  const Graph &graph;
  const Inference &known;
  ShapeTable shapes;
};

}  // namespace

Expected<Graph> restateShapes(Context &context, const Graph &graph, const Inference &known, const Rewritten &lowered) {
  if (none_of(graph.kinds(), [](const KindRef &kind) { return shapeAttr(*kind); })) return lowered.graph;
  return ShapesFromReaders(context, graph, known).run(lowered);
}

Expected<Graph> keepHeadNames(Context &context, const Graph &before, const Graph &lowered) {
  const std::optional<GradientTable> &gradient = before.table().gradient;
  const size_t numHeads = before.heads().size(),
               count = gradient ? std::min<size_t>(gradient->numForwardHeads, numHeads) : numHeads;
  MapVector<uint32_t, KindRef> kinds;  // of the nodes that list a name
  for (size_t i = 0; i < count; ++i) {
    const Value head = lowered.heads()[i];
    const std::string name = before.listedName(before.heads()[i]);
    if (lowered.isVariable(head.node) || lowered.listedName(head) == name) continue;
    KindRef &kind = kinds[head.node.value];
    if (!kind) kind = lowered.kindHandle(head.node);
    const std::string key = outputNameKey(head.index);
    Expected<KindRef> named =
        context.kindLike(*kind, context.withAttrs(kind->attrs, AttrText{key, name}), kind->bodies);
    if (!named) return named.takeError();
    kind = *named;
  }
  if (kinds.empty()) return lowered;
  return withKinds(context, lowered, [&](NodeId n) -> Expected<KindRef> {
    const auto named = kinds.find(n.value);
    return named == kinds.end() ? lowered.kindHandle(n) : named->second;
  });
}

}  // namespace gradc
