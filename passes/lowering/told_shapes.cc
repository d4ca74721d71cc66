#include "passes/lowering/told_shapes.h"

#include "ir/base/dense_map.h"
#include "ir/rules/inference.h"
#include "passes/inference/carry.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

bool hasShape(const NodeKind &kind) {
  return !kind.isVariable() && kind.op->shape &&
         any_of(kind.op->attrs, [](const AttrSpec &attr) { return attr.key == "shape"; });
}

class ToldShapes {
 public:
  ToldShapes(Context &ctx, const Graph &graph, const Inference &known)
      : ctx(ctx), graph(graph), known(known), shapes(*known.shapes) {}

  Expected<Graph> run(const Rewritten &lowered) {
    DenseMap<uint32_t, NodeId> told;  // by node of the lowered graph
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id), now = lowered.newId[id];
      if (now.isValid() && lowered.graph.op(now) == graph.op(n) && isToldByReaders(n)) told[now.value] = n;
    }
    if (told.empty()) return lowered.graph;
    InferOptions options;
    options.allowUnknown = true;
    const Inference carried = carry(known, graph, lowered.graph, sourcesOf(lowered.newId, lowered.graph.numNodes()));
    Expected<Inference> found = infer(ctx, lowered.graph, knownVariables(lowered.graph, carried), options);
    if (!found) return consumeError(found.takeError()), lowered.graph;
    return withKinds(ctx, lowered.graph, [&](NodeId n) -> Expected<KindRef> {
      const KindRef &kind = lowered.graph.kindHandle(n);
      const NodeId was = told.lookup(n.value);
      if (!was.isValid() || found->isKnownShape(lowered.graph.firstEntry(n))) return kind;
      return withShape(kind, was);
    });
  }

 private:
  Dims dimsOf(NodeId n) const { return known.shapeOf(graph.firstEntry(n)).dims(); }

  // MXNet has no spelling for a shape without axes or elements.
  bool isToldByReaders(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    if (!hasShape(kind) || !known.isKnownShape(graph.firstEntry(n))) return false;
    return !dimsOf(n).empty() && !is_contained(dimsOf(n), 0) && !tells(kind, n);
  }

  // Whether an operator of this kind tells the shape of the node from those of its inputs.
  bool tells(const NodeKind &kind, NodeId n) {
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
    Expected<KindRef> made = ctx.kindLike(*kind, ctx.withAttrs(kind->attrs, AttrText{"shape", os.str()}), kind->bodies);
    if (made && !tells(**made, was)) return kind;
    return made;
  }

  Context &ctx;
  const Graph &graph;
  const Inference &known;
  ShapeTable shapes;
};

}  // namespace

Expected<Graph> keepToldShapes(Context &context, const Graph &graph, const Inference &known, const Rewritten &lowered) {
  if (none_of(graph.kinds(), [](const KindRef &kind) { return hasShape(*kind); })) return lowered.graph;
  return ToldShapes(context, graph, known).run(lowered);
}

}  // namespace gradc
