// Each graph with marks is copied once, and once more if there are nodes at which no gradient arrives; bodies are
// nested at most kMaxBodyNesting deep. Tested by tests/passes/gradient/retain_inside_test.cc
#include "passes/gradient/higher_order/retain_inside.h"

#include "passes/gradient/higher_order/mark_inside.h"
#include "passes/gradient/select.h"
#include "passes/rewrite/body_map.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/op/hidden_keys.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {
namespace {

/// The path of a tapped node, and the value of its gradient.
struct Retained {
  std::string path;
  Value value;
};

/// A body of a node with heads added at the end, which are to become outputs of the node.
struct BodyWithMoreHeads {
  Graph graph;
  size_t numAdded = 0;
};

/// A node with outputs for the added heads of its bodies, and the first of these outputs.
struct NodeWithMoreOutputs {
  KindRef kind;
  uint32_t firstAdded = 0;
};

/// Makes heads that were added to bodies outputs of the node.
class OutputAdder {
 public:
  OutputAdder(Context &ctx, MoreOutputs *moreOutputs) : ctx(ctx), moreOutputs(moreOutputs) {}

  /// The added outputs of a loop are stacked and come before its states; otherwise they are the last visible ones.
  /// Those of a branch begin with those of body 1; outputs of a branch that does not run are zeros.
  Expected<NodeWithMoreOutputs> add(const Graph &graph, NodeId n, const NodeKind &kind,
                                    ArrayRef<BodyWithMoreHeads> bodies) {
    const BodyFlow &flow = *kind.flow;
    uint32_t at = 0;
    while (at < kind.numVisible && (flow.form != BodyFlow::Form::Loop || flow.isStacked[at])) ++at;
    size_t numAdded = 0;
    for (const BodyWithMoreHeads &body : bodies) numAdded += body.numAdded;
    std::vector<std::vector<uint32_t>> was;
    SmallVector<Graph, 3> yielding;
    size_t first = 0;  // position of the body's heads among all that are added
    for (uint32_t b = 0; b < bodies.size(); ++b) {
      const bool isLast = b + 1 == bodies.size(), yields = flow.form == BodyFlow::Form::Branch ? b > 0 : isLast;
      was.emplace_back();
      yielding.push_back(rearranged(bodies[b], at, first, yields ? numAdded : 0, was.back()));
      first += bodies[b].numAdded;
    }
    Expected<KindRef> wider = moreOutputs(ctx, kind, yielding, was, numAdded);
    if (!wider) return wider.takeError();
    if (*wider) return NodeWithMoreOutputs{*wider, at};
    return Failure(ErrorKind::UnsupportedOption, "nothing in the bodies of " + graph.describe(n) +
                                                     " can be retained: its operator has no form with more outputs")
        .at(n);
  }

  /// Replaces node n of the rewriter's graph by its wider form.
  static void replace(GraphRewriter &rewriter, NodeId n, const NodeWithMoreOutputs &wider) {
    const Graph &graph = rewriter.graph();
    SmallVector<Value, 8> operands, results;
    for (Value v : graph.inputs(n)) operands.push_back(rewriter(v));
    GraphBuilder &builder = rewriter.builder();
    const NodeId made = builder.addKind(builder.kindId(wider.kind), operands, NodeId());
    builder.setName(made, graph.name(n), "");
    const size_t numAdded = builder.numOutputs(made) - graph.numOutputs(n);
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      results.push_back(Value{made, static_cast<uint16_t>(o < wider.firstAdded ? o : o + numAdded), 0});
    rewriter.replace(n, results, made);
  }

 private:
  /// Moves the added heads to position `at`, with `first` zeros before them and as many after them as make `numAdded`
  /// in all. By input, `was` receives the position it had.
  Graph rearranged(const BodyWithMoreHeads &body, size_t at, size_t first, size_t numAdded,
                   std::vector<uint32_t> &was) {
    GraphBuilder builder(ctx, body.graph);
    const ArrayRef<Value> heads = body.graph.heads();
    SmallVector<Value, 16> added, all(heads.drop_back(body.numAdded));
    for (size_t i = 0; i < numAdded; ++i)
      added.push_back(i < first || i >= first + body.numAdded ? zeros(builder) : heads[all.size() + i - first]);
    if (numAdded) all.insert(all.begin() + static_cast<ptrdiff_t>(at), added.begin(), added.end());
    const Frozen frozen = cantFail(std::move(builder).freeze(all, {}));
    std::vector<uint32_t> inputOf(frozen.graph.numNodes());
    for (auto [i, n] : enumerate(bodyInputs(body.graph)))
      inputOf[frozen.newId[n.value].value] = static_cast<uint32_t>(i);
    for (NodeId n : bodyInputs(frozen.graph)) was.push_back(inputOf[n.value]);
    return frozen.graph;
  }

  /// Inference gives these zeros the shape and type of the other branch's head.
  Value zeros(GraphBuilder &builder) {
    const NodeId n = builder.addKind(*ctx.ops.wellKnown.zerosPlaceholder, {}, NodeId());
    builder.setName(n, "not_taken_" + std::to_string(n.value), "");
    return Value{n};
  }

  Context &ctx;
  MoreOutputs *moreOutputs;
};

/// A graph without its marks and their taps.
struct ExposedGraph {
  Graph graph;                     // its old heads, then those of `retained`
  std::vector<Retained> retained;  // in `graph`
  std::vector<NodeId> newId;       // by node of the graph that it was
  std::vector<Value> newValue;     // likewise by entry
  bool isSame = true;              // nothing was marked, here or below
};

class Exposing {
 public:
  Exposing(Context &ctx, OutputAdder &adder) : ctx(ctx), adder(adder) {}

  Expected<const ExposedGraph *> expose(const Graph &graph) {
    return exposed.find(graph, [&] { return make(graph); });
  }

 private:
  Expected<ExposedGraph> make(const Graph &graph) {
    GraphRewriter rewriter(ctx, graph);
    std::vector<Retained> entries, outputs;  // values in the old graph; outputs of copies of its nodes
    bool isSame = true;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (Error error = copy(rewriter, graph, NodeId(n), entries, outputs, isSame)) return error;
    SmallVector<Value, 16> heads(graph.heads());
    for (const Retained &row : entries) heads.push_back(row.value);
    for (const Retained &row : outputs) heads.push_back(Value{row.value.node});
    Expected<Rewritten> made = std::move(rewriter).finish(heads);
    if (!made) return made.takeError();
    ExposedGraph result{Graph(), std::move(entries), std::move(made->newId), std::move(made->newValue), isSame};
    for (Retained &row : result.retained) row.value = result.newValue[graph.entry(row.value).value];
    for (Retained &row : outputs) {
      row.value.node = result.newId[row.value.node.value];
      result.retained.push_back(std::move(row));
    }
    heads.assign(made->graph.heads().begin(),
                 made->graph.heads().begin() + static_cast<ptrdiff_t>(graph.heads().size()));
    for (const Retained &row : result.retained) heads.push_back(row.value);
    // Nodes keep their ids: the heads are outputs of the same nodes in the same order.
    result.graph = cantFail(GraphBuilder(ctx, made->graph).freeze(heads, {})).graph;
    GraphTable table = graph.table();
    remap(table, {result.newId, graph.columns().entryBegin, result.newValue}, result.graph);
    result.graph = isSame ? graph : result.graph.withTable(std::move(table));
    return result;
  }

  Error copy(GraphRewriter &rewriter, const Graph &graph, NodeId n, std::vector<Retained> &entries,
             std::vector<Retained> &outputs, bool &isSameGraph) {
    const KindRef &handle = graph.kindHandle(n);
    const std::optional<StringRef> path = handle->attrs.get(kRetainMark);
    isSameGraph &= !path;
    if (path && handle->op == ctx.ops.wellKnown.tap) {
      entries.push_back({path->str(), graph.inputs(n)[0]});
      rewriter.replace(n, rewriter(graph.inputs(n)[0]), {});
      return Error::success();
    }
    const Attrs attrs =
        path ? ctx.withoutAttrs(handle->attrs, [](StringRef key) { return key == kRetainMark; }) : handle->attrs;
    SmallVector<BodyWithMoreHeads, 3> bodies;
    SmallVector<Graph, 3> graphs;
    std::vector<Retained> inside;
    bool isSame = !path;
    for (const Graph &body : handle->bodies) {
      Expected<const ExposedGraph *> made = expose(body);
      if (!made) return made.takeError();
      isSame &= (*made)->isSame;
      graphs.push_back((*made)->graph);
      bodies.push_back({(*made)->graph, (*made)->retained.size()});
      llvm::append_range(inside, (*made)->retained);
    }
    isSameGraph &= isSame;
    if (isSame) return rewriter.copy(n), Error::success();
    Expected<KindRef> kind = ctx.kindLike(*handle, attrs, inside.empty() ? ArrayRef<Graph>(graphs) : handle->bodies);
    if (!kind) return kind.takeError();
    if (inside.empty()) return rewriter.copy(n, *kind), Error::success();
    Expected<NodeWithMoreOutputs> wider = adder.add(graph, n, **kind, bodies);
    if (!wider) return wider.takeError();
    OutputAdder::replace(rewriter, n, *wider);
    for (size_t k = 0; k < inside.size(); ++k)
      outputs.push_back({inside[k].path, Value{n, static_cast<uint16_t>(wider->firstAdded + k), 0}});
    return Error::success();
  }

  Context &ctx;
  OutputAdder &adder;
  BodyMap<ExposedGraph> exposed;
};

/// Renumbers nodes and values of the graph that `frozen` was made of.
void follow(std::vector<NodeId> &newId, std::vector<Value> &newValue, const Frozen &frozen) {
  for (NodeId &n : newId) n = n.isValid() ? frozen.newId[n.value] : n;
  for (Value &v : newValue) v = v.isValid() ? frozen(v) : v;
}

using NodesInside = SmallVector<const NodeInside *, 4>;

/// Adds heads for nodes inside bodies: zeros of their shapes, made next to them in every step. Each body is copied
/// once.
class ZeroHeads {
 public:
  ZeroHeads(Context &ctx, OutputAdder &adder) : ctx(ctx), adder(adder) {}

  /// The graph, at nesting level `level`, with one more head for each of the nodes, in this order.
  Expected<Graph> addTo(const Graph &graph, ArrayRef<const NodeInside *> nodes, size_t level) {
    const Below below = positionsBelow(graph, nodes, level);
    std::vector<uint32_t> outputs(
        nodes.size());  // by position in `nodes`: of the node with the body, in its wider form
    GraphRewriter rewriter(ctx, graph);
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const auto inside = below.find(id);
      if (inside == below.end()) rewriter.copy(NodeId(id));
      else if (Error error = widen(rewriter, NodeId(id), nodes, inside->second, level, outputs)) return error;
    }
    SmallVector<Value, 16> heads(graph.heads());
    for (const NodeInside *at : nodes) heads.push_back(Value{changedBy(*at, level)});
    Expected<Rewritten> made = std::move(rewriter).finish(heads);
    if (!made) return made.takeError();
    GraphBuilder builder(ctx, made->graph);
    heads.assign(made->graph.heads().begin(),
                 made->graph.heads().begin() + static_cast<ptrdiff_t>(graph.heads().size()));
    for (auto [i, at] : enumerate(nodes)) {
      const NodeId changed = changedBy(*at, level);
      Value zeros{made->newId[changed.value], static_cast<uint16_t>(outputs[i]), 0};
      if (level == at->bodies.size()) {
        zeros = made->newValue[graph.firstEntry(changed).value];
        zeros = Value{builder.addKind(*ctx.ops.wellKnown.zerosLike, {zeros}, NodeId())};
        builder.setName(zeros.node, graph.name(changed), "_no_gradient");
      }
      heads.push_back(zeros);
    }
    const Frozen frozen = cantFail(std::move(builder).freeze(heads, {}));
    follow(made->newId, made->newValue, frozen);
    GraphTable table = graph.table();
    remap(table, {made->newId, graph.columns().entryBegin, made->newValue}, frozen.graph);
    return frozen.graph.withTable(std::move(table));
  }

 private:
  /// By node with bodies, by body: positions among the nodes that get a head.
  using Below = DenseMap<uint32_t, std::vector<SmallVector<size_t, 4>>>;

  static NodeId changedBy(const NodeInside &at, size_t level) {
    return level == at.bodies.size() ? at.node : at.bodies[level].first;
  }

  static Below positionsBelow(const Graph &graph, ArrayRef<const NodeInside *> nodes, size_t level) {
    Below below;
    for (auto [i, at] : enumerate(nodes)) {
      if (level == at->bodies.size()) continue;
      const auto [owner, body] = at->bodies[level];
      auto [inside, isNew] = below.try_emplace(owner.value);
      if (isNew) inside->second.resize(graph.bodies(owner).size());
      inside->second[body].push_back(i);
    }
    return below;
  }

  Error widen(GraphRewriter &rewriter, NodeId n, ArrayRef<const NodeInside *> nodes,
              ArrayRef<SmallVector<size_t, 4>> inside, size_t level, std::vector<uint32_t> &outputs) {
    const Graph &graph = rewriter.graph();
    SmallVector<BodyWithMoreHeads, 3> bodies;
    for (auto [b, positions] : enumerate(inside)) {
      NodesInside here;
      for (size_t i : positions) here.push_back(nodes[i]);
      Expected<Graph> longer = here.empty() ? graph.bodies(n)[b] : addTo(graph.bodies(n)[b], here, level + 1);
      if (!longer) return longer.takeError();
      bodies.push_back({*longer, here.size()});
    }
    Expected<NodeWithMoreOutputs> wider = adder.add(graph, n, graph.kind(n), bodies);
    if (!wider) return wider.takeError();
    uint32_t next = wider->firstAdded;
    for (const SmallVector<size_t, 4> &positions : inside)
      for (size_t i : positions) outputs[i] = next++;
    OutputAdder::replace(rewriter, n, *wider);
    return Error::success();
  }

  Context &ctx;
  OutputAdder &adder;
};

/// The paths of the taps that a gradient reaches.
StringSet<> reachedPaths(const Graph &gradient, const OpDef *tap) {
  StringSet<> reached;
  for (const NestedGraph &nested : nestedGraphs(gradient))
    for (const KindRef &kind : nested.graph.kinds())
      if (const std::optional<StringRef> path = kind->attrs.get(kRetainMark); path && kind->op == tap)
        reached.insert(*path);
  return reached;
}

Expected<Graph> retainPaths(Context &context, const Graph &gradient, ArrayRef<std::string> paths,
                            MoreOutputs *moreOutputs) {
  OutputAdder adder(context, moreOutputs);
  const StringSet<> reached = reachedPaths(gradient, context.ops.wellKnown.tap);
  PathIndex index(gradient);
  std::vector<NodeInside> unreached;
  for (const std::string &path : paths) {
    if (reached.contains(path)) continue;
    Expected<std::optional<NodeInside>> found = index.find(path);
    if (!found) return found.takeError();
    if (!*found)  // only gradients are emitted, and none of them needs the loop
      return Failure(ErrorKind::Unreachable, "'" + path + "' is retained, but no emitted node has its shape");
    unreached.push_back(std::move(**found));
  }
  NodesInside nodes;
  for (const NodeInside &at : unreached) nodes.push_back(&at);
  Expected<Graph> longer = nodes.empty() ? gradient : ZeroHeads(context, adder).addTo(gradient, nodes, 0);
  if (!longer) return longer;
  const Graph graph = *longer;
  Exposing exposing(context, adder);
  Expected<const ExposedGraph *> exposed = exposing.expose(graph);
  if (!exposed) return exposed.takeError();
  const ExposedGraph &made = **exposed;
  const ArrayRef<Value> known = made.graph.heads();
  size_t nextZeros = gradient.heads().size();
  SmallVector<Value, 16> heads(known.take_front(nextZeros));
  StringMap<Value> retained;
  for (const Retained &row : made.retained) retained.try_emplace(row.path, row.value);
  for (const std::string &path : paths) {
    const auto row = retained.find(path);
    heads.push_back(row == retained.end() ? known[nextZeros++] : row->second);
  }
  const Frozen frozen = cantFail(GraphBuilder(context, made.graph).freeze(heads, {}));
  std::vector<NodeId> newId = made.newId;
  std::vector<Value> newValue = made.newValue;
  follow(newId, newValue, frozen);
  GraphTable table = graph.table();
  remap(table, {newId, graph.columns().entryBegin, newValue}, frozen.graph);
  for (const std::string &path : paths) {
    if (!table.gradient) break;
    GradientTable::Head head;
    head.kind = GradientTable::HeadKind::Retained;
    head.of = path;
    head.order = 1;
    table.gradient->heads.push_back(std::move(head));
  }
  return frozen.graph.withTable(std::move(table));
}

}  // namespace

Expected<Graph> retainInside(Context &context, const Graph &gradient, ArrayRef<std::string> paths,
                             MoreOutputs *moreOutputs) {
  return catchingBadAlloc("to retain gradients", [&] { return retainPaths(context, gradient, paths, moreOutputs); });
}

}  // namespace gradc
