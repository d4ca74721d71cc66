// Each graph with such nodes is copied once, with other kinds; bodies are nested at most kMaxBodyNesting deep.
// Tested by tests/passes/gradient/stop_inside_test.cc
#include "passes/gradient/higher_order/mark_inside.h"

#include "passes/gradient/select.h"
#include "passes/rewrite/body_map.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/body_flow.h"
#include "ir/op/hidden_keys.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace llvm;

namespace gradc {
namespace {

/// Copies a graph at nesting level `level`, and each body below it that has nodes to mark, once.
Expected<Graph> markBelow(Context &ctx, const Graph &graph, ArrayRef<const NodeInside *> nodes, StringRef mark,
                          size_t level) {
  DenseMap<uint32_t, StringRef> marked;                           // their paths
  DenseMap<uint32_t, SmallVector<const NodeInside *, 2>> inside;  // by the node with the body
  for (const NodeInside *at : nodes)
    if (at->bodies.size() == level) marked[at->node.value] = at->path;
    else inside[at->bodies[level].first.value].push_back(at);
  return withKinds(ctx, graph, [&](NodeId n) -> Expected<KindRef> {
    const auto below = inside.find(n.value);
    KindRef kind = graph.kindHandle(n);
    if (below != inside.end()) {
      Expected<KindRef> other = withRewrittenBodies(ctx, kind, [&](uint32_t b) -> Expected<Graph> {
        SmallVector<const NodeInside *, 2> here;
        copy_if(below->second, std::back_inserter(here), [&](auto *at) { return at->bodies[level].second == b; });
        return here.empty() ? kind->bodies[b] : markBelow(ctx, kind->bodies[b], here, mark, level + 1);
      });
      if (!other) return other;
      kind = *other;
    }
    const auto path = marked.find(n.value);
    if (path == marked.end()) return kind;
    const AttrText attr = {mark, mark == kRetainMark ? path->second : StringRef("True")};
    return ctx.kindLike(*kind, ctx.withAttrs(kind->attrs, {attr}), kind->bodies);
  });
}

Expected<Graph> markInside(Context &context, const Graph &graph, ArrayRef<NodeInside> nodes, StringRef mark) {
  SmallVector<const NodeInside *, 4> all;
  for (const NodeInside &node : nodes) all.push_back(&node);
  return all.empty() ? Expected<Graph>(graph) : markBelow(context, graph, all, mark, 0);
}

}  // namespace

ArrayRef<NodeId> PathIndex::named(const Graph &graph, StringRef name) {
  auto [at, isNew] = nodes.try_emplace(keyOf(graph));
  for (uint32_t n = 0; isNew && n < graph.numNodes(); ++n) at->second[graph.name(NodeId(n))].push_back(NodeId(n));
  const auto found = at->second.find(name);
  return found == at->second.end() ? ArrayRef<NodeId>() : found->second;
}

/// The node called `name`, or the k-th one for `name#k`; invalid if there is none, E-34 if there are several.
Expected<NodeId> PathIndex::nodeNamed(const Graph &graph, StringRef name) {
  const ArrayRef<NodeId> exact = named(graph, name);
  if (exact.size() == 1) return exact[0];
  if (exact.size() > 1)
    return Failure(ErrorKind::AmbiguousName,
                   "name '" + name + "' is ambiguous: " + Twine(exact.size()) + " nodes have this name")
        .at(exact[1])
        .note("use '" + name + "#2' for the second one");
  const auto [before, number] = name.rsplit('#');
  size_t k = 0;
  if (number.getAsInteger(10, k)) return NodeId();
  const ArrayRef<NodeId> same = named(graph, before);
  return k > 0 && k <= same.size() ? same[k - 1] : NodeId();
}

// Names may contain slashes.
Expected<std::optional<PathIndex::FirstStep>> PathIndex::firstStep(const Graph &graph, StringRef path) {
  for (size_t slash = path.find('/'); slash != StringRef::npos; slash = path.find('/', slash + 1)) {
    FirstStep step;
    const auto [number, rest] = path.drop_front(slash + 1).split('/');
    if (rest.empty() || number.getAsInteger(10, step.body)) continue;
    Expected<NodeId> node = nodeNamed(graph, path.take_front(slash));
    if (!node) return node.takeError();
    step.node = *node;
    step.rest = rest;
    if (step.node.isValid() && step.body < graph.bodies(step.node).size()) return std::optional(step);
  }
  return std::nullopt;
}

Expected<std::optional<NodeInside>> PathIndex::find(StringRef path) {
  NodeInside found;
  found.path = path.str();
  std::vector<Graph> graphs = {root};
  auto within = [&](Error error) {
    for (size_t level = found.bodies.size(); level-- > 0;)
      error = withinBody(std::move(error), graphs[level], found.bodies[level].first, found.bodies[level].second);
    return error;
  };
  while (true) {
    Expected<std::optional<FirstStep>> step = firstStep(graphs.back(), path);
    if (!step) return within(step.takeError());
    if (!*step) return std::nullopt;
    found.bodies.push_back({(*step)->node, (*step)->body});
    graphs.push_back(Graph(graphs.back().bodies((*step)->node)[(*step)->body]));
    path = (*step)->rest;
    Expected<NodeId> node = nodeNamed(graphs.back(), path);
    if (!node) return within(node.takeError());
    found.node = *node;
    if (found.node.isValid()) return found;
  }
}

Expected<Graph> stopInside(Context &context, const Graph &graph, ArrayRef<NodeInside> nodes) {
  return catchingBadAlloc("to mark nodes", [&] { return markInside(context, graph, nodes, kStopMark); });
}

Expected<Graph> tapInside(Context &context, const Graph &graph, ArrayRef<NodeInside> nodes) {
  return catchingBadAlloc("to mark nodes", [&] { return markInside(context, graph, nodes, kTapMark); });
}

static Error checkRetained(const Graph &graph, ArrayRef<NodeInside> nodes) {
  std::set<std::pair<std::vector<std::pair<NodeId, uint32_t>>, NodeId>> seen;
  for (const NodeInside &node : nodes) {
    if (!seen.insert({{node.bodies.begin(), node.bodies.end()}, node.node}).second)
      return Failure(ErrorKind::AlreadyMarked, "intermediate '" + node.path + "' is retained twice");
    Graph at = graph;
    for (const auto &[owner, body] : node.bodies) {
      const BodyFlow *flow = at.kind(owner).flow;
      if (flow && flow->isDecision(body))
        return Failure(ErrorKind::UnsupportedOption, "the gradient of '" + node.path +
                                                         "' cannot be retained: it is in the condition of " +
                                                         at.describe(owner) + ", a body that yields only the decision")
            .at(node.bodies.front().first);
      at = Graph(at.bodies(owner)[body]);
    }
  }
  return Error::success();
}

Expected<Graph> markRetained(Context &context, const Graph &graph, ArrayRef<NodeInside> nodes) {
  return catchingBadAlloc("to mark nodes", [&]() -> Expected<Graph> {
    if (Error error = checkRetained(graph, nodes)) return error;
    return markInside(context, graph, nodes, kRetainMark);
  });
}

}  // namespace gradc
