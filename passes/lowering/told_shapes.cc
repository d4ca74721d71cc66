#include "passes/lowering/told_shapes.h"

#include "ir/base/dense_map.h"
#include "ir/rules/inference.h"

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
    Expected<Inference> found = infer(ctx, lowered.graph, knownVariables(lowered), options);
    if (!found) return consumeError(found.takeError()), lowered.graph;
    GraphRewriter rewriter(ctx, lowered.graph);
    for (uint32_t id = 0; id < lowered.graph.numNodes(); ++id) {
      const NodeId n(id), was = told.lookup(id);
      KindRef kind;
      if (was.isValid() && !found->isKnownShape(lowered.graph.firstEntry(n)))
        if (Error error = withShape(lowered.graph.kindHandle(n), was).moveInto(kind)) return error;
      if (kind) rewriter.copy(n, kind);
      else rewriter.copy(n);
    }
    Expected<Rewritten> result = std::move(rewriter).finish();
    if (!result) return result.takeError();
    return result->graph;
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

  // Null where the attribute means something else.
  Expected<KindRef> withShape(const KindRef &kind, NodeId was) {
    std::string text;
    raw_string_ostream os(text);
    printAttr(os, dimsOf(was));
    Expected<KindRef> made = ctx.kindLike(*kind, ctx.withAttrs(kind->attrs, AttrText{"shape", os.str()}), kind->bodies);
    if (made && !tells(**made, was)) return KindRef();
    return made;
  }

  InferRequest knownVariables(const Rewritten &lowered) const {
    InferRequest request;
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id), now = lowered.newId[id];
      if (!graph.isVariable(n) || !now.isValid()) continue;
      const EntryId e = graph.firstEntry(n);
      request.shapes.push_back({now, DimsBuffer(known.shapeOf(e).dims())});
      request.dtypes.push_back({now, known.dtype[e]});
    }
    return request;
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
