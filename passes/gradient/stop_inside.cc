// From the innermost body outwards: each graph on the path is copied with one other kind of node.
// Tested by tests/body_gradient_test.cc
#include "passes/gradient/stop_inside.h"

#include "passes/rewriter.h"

#include "ir/bodies.h"

using namespace llvm;

namespace gradc {
namespace {

NodeId nodeNamed(const Graph &graph, StringRef name) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.name(NodeId(n)) == name) return NodeId(n);
  return NodeId();
}

/// A node whose name begins the path, the number of its body, and the rest.
struct FirstStep {
  NodeId node;
  uint32_t body = 0;
  StringRef rest;
};

// Names may have slashes of their own.
std::optional<FirstStep> firstStep(const Graph &graph, StringRef path) {
  for (size_t slash = path.find('/'); slash != StringRef::npos; slash = path.find('/', slash + 1)) {
    FirstStep step;
    const auto [number, rest] = path.drop_front(slash + 1).split('/');
    if (rest.empty() || number.getAsInteger(10, step.body)) continue;
    step.node = nodeNamed(graph, path.take_front(slash));
    step.rest = rest;
    if (step.node.isValid() && step.body < graph.bodies(step.node).size()) return step;
  }
  return std::nullopt;
}

Expected<KindRef> kindWith(Context &ctx, const NodeKind &kind, const Attrs &attrs, ArrayRef<Graph> bodies) {
  if (kind.isVariable()) return ctx.variableKind(attrs);
  if (kind.op->flags.isOpaque) return ctx.opaqueKind(kind.op->name, attrs, kind.numOutputs, bodies);
  return ctx.kind(*kind.op, attrs, kind.spelling, bodies);
}

Expected<Graph> withKind(Context &ctx, const Graph &graph, NodeId which, const KindRef &kind) {
  GraphRewriter rewriter(ctx, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (NodeId(n) == which) rewriter.copy(NodeId(n), kind);
    else rewriter.copy(NodeId(n));
  Expected<Rewritten> made = std::move(rewriter).finish();
  if (!made) return made.takeError();
  return made->graph;
}

Expected<Graph> stopOne(Context &ctx, const Graph &graph, const NodeInside &at) {
  SmallVector<Graph, 3> graphs = {graph};
  for (auto [owner, body] : at.bodies) graphs.push_back(graphs.back().bodies(owner)[body]);
  const NodeKind &stopped = graphs.back().kind(at.node);
  Expected<KindRef> kind =
      kindWith(ctx, stopped, ctx.withAttrs(stopped.attrs, {{"__stop_gradient__", "True"}}), stopped.bodies);
  if (!kind) return kind.takeError();
  Expected<Graph> made = withKind(ctx, graphs.back(), at.node, *kind);
  for (size_t level = at.bodies.size(); level-- > 0 && made;) {
    auto [owner, body] = at.bodies[level];
    const NodeKind &around = graphs[level].kind(owner);
    SmallVector<Graph, 3> bodies(around.bodies);
    bodies[body] = *made;
    kind = kindWith(ctx, around, around.attrs, bodies);
    if (!kind) return kind.takeError();
    made = withKind(ctx, graphs[level], owner, *kind);
  }
  return made;
}

}  // namespace

std::optional<NodeInside> findInside(const Graph &graph, StringRef path) {
  NodeInside found;
  Graph at = graph;
  while (std::optional<FirstStep> step = firstStep(at, path)) {
    found.bodies.push_back({step->node, step->body});
    at = Graph(at.bodies(step->node)[step->body]);
    path = step->rest;
    found.node = nodeNamed(at, path);
    if (found.node.isValid()) return found;
  }
  return std::nullopt;
}

Expected<Graph> stopInside(Context &context, const Graph &graph, ArrayRef<NodeInside> nodes) {
  Graph stopped = graph;
  for (const NodeInside &node : nodes) {
    Expected<Graph> next = stopOne(context, stopped, node);
    if (!next) return next;
    stopped = *next;
  }
  return stopped;
}

}  // namespace gradc
