// Each graph with marks is copied once; bodies are nested kMaxBodyNesting deep at most. Tested by tests/retain_inside_test.cc
#include "passes/gradient/retain_inside.h"

#include "passes/gradient/select.h"
#include "passes/rewriter.h"

#include "ir/bodies.h"
#include "ir/body_flow.h"
#include "ir/error.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;

namespace gradc {
namespace {

/// What was tapped, and where its value is.
struct Retained {
  std::string path;
  Value value;
};

/// A graph without marks and taps of them.
struct Lifted {
  Graph from;                      // kept, so that no other graph gets its key
  Graph graph;                     // heads as they were, then those of `retained`
  std::vector<Retained> retained;  // in `graph`
  std::vector<NodeId> newId;       // by node of `from`
  std::vector<Value> newValue;     // by entry of `from`
  bool isSame = true;              // nothing was marked, here or below
};

class Lifting {
 public:
  explicit Lifting(Context &ctx) : ctx(ctx) {}

  Expected<const Lifted *> lift(const Graph &graph) {
    if (auto known = lifted.find(keyOf(graph)); known != lifted.end()) return &known->second;
    GraphRewriter rewriter(ctx, graph);
    std::vector<Retained> entries, outputs;  // of the old graph; of copies of its nodes
    bool isSame = true;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (Error error = copy(rewriter, graph, NodeId(n), entries, outputs, isSame)) return error;
    SmallVector<Value, 16> heads(graph.heads());
    for (const Retained &row : entries) heads.push_back(row.value);
    for (const Retained &row : outputs) heads.push_back(Value{row.value.node});
    Expected<Rewritten> made = std::move(rewriter).finish(heads);
    if (!made) return made.takeError();
    Lifted result{graph, Graph(), std::move(entries), std::move(made->newId), std::move(made->newValue), isSame};
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
    return &(lifted[keyOf(graph)] = std::move(result));
  }

 private:
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
    SmallVector<Graph, 3> bodies;
    std::vector<Retained> inside;
    bool isSame = !path;
    for (const Graph &body : handle->bodies) {
      Expected<const Lifted *> made = lift(body);
      if (!made) return made.takeError();
      isSame &= (*made)->isSame;
      bodies.push_back((*made)->graph);
      llvm::append_range(inside, (*made)->retained);
    }
    isSameGraph &= isSame;
    if (isSame) return rewriter.copy(n), Error::success();
    if (inside.empty()) {
      Expected<KindRef> kind = ctx.kindLike(*handle, attrs, bodies);
      if (!kind) return kind.takeError();
      return rewriter.copy(n, *kind), Error::success();
    }
    return addOutputs(rewriter, graph, n, bodies.back(), inside, outputs);
  }

  /// What the body yields behind its own heads becomes outputs: stacked ones of a loop, in front of its states.
  Error addOutputs(GraphRewriter &rewriter, const Graph &graph, NodeId n, const Graph &body,
                   const std::vector<Retained> &inside, std::vector<Retained> &outputs) {
    const NodeKind &kind = graph.kind(n);
    const BodyFlow &flow = *kind.flow;
    const bool isLoop = flow.form == BodyFlow::Form::Loop;
    uint32_t at = 0;  // the first output that is added
    while (at < kind.numVisible && (!isLoop || flow.isStacked[at])) ++at;
    SmallVector<Value, 16> heads(body.heads().drop_back(inside.size()));
    heads.insert(heads.begin() + at, body.heads().take_back(inside.size()).begin(), body.heads().end());
    const Frozen yields = cantFail(GraphBuilder(ctx, body).freeze(heads, {}));
    const std::string data = counted(kind, "num_out_data", inside.size()),
                      count = counted(kind, "num_outputs", inside.size()), locations = inputsOf(kind, body, yields);
    SmallVector<AttrText, 3> updates = {{"input_locs", locations}};
    if (!data.empty()) updates.push_back({"num_out_data", data});
    if (!count.empty()) updates.push_back({"num_outputs", count});
    Expected<KindRef> wider = ctx.kindLike(kind, ctx.withAttrs(kind.attrs, updates), yields.graph);
    if (!wider) return wider.takeError();
    SmallVector<Value, 8> operands, results;
    for (Value v : graph.inputs(n)) operands.push_back(rewriter(v));
    GraphBuilder &builder = rewriter.builder();
    const NodeId made = builder.addKind(builder.kindId(*wider), operands, NodeId());
    builder.setName(made, graph.name(n), "");
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      results.push_back(Value{made, static_cast<uint16_t>(o < at ? o : o + inside.size()), 0});
    rewriter.replace(n, results, made);
    for (size_t k = 0; k < inside.size(); ++k)
      outputs.push_back({inside[k].path, Value{n, static_cast<uint16_t>(at + k), 0}});
    return Error::success();
  }

  /// An attribute that counts outputs, with those that are added; empty where the operator has none.
  static std::string counted(const NodeKind &kind, StringRef key, size_t numAdded) {
    uint64_t count = 0;
    const std::optional<StringRef> text = kind.attrs.get(key);
    return text && !text->getAsInteger(10, count) ? std::to_string(count + numAdded) : "";
  }

  /// `input_locs`: other heads may come to the variables of the body in another order.
  static std::string inputsOf(const NodeKind &kind, const Graph &body, const Frozen &yields) {
    const BodyFlow &flow = *kind.flow;
    std::vector<uint32_t> operandOf(yields.graph.numNodes());
    const std::vector<NodeId> before = bodyInputs(body);
    for (size_t i = 0; i < before.size(); ++i)
      operandOf[yields.newId[before[i].value].value] = flow.bodies.back().operandOf[i];
    std::string text = "(";
    for (NodeId n : bodyInputs(yields.graph))
      text += std::to_string(operandOf[n.value] - flow.countOperand.has_value()) + ",";
    return text + ")";
  }

  Context &ctx;
  std::map<BodyKey, Lifted> lifted;
};

}  // namespace

Expected<Graph> retainInside(Context &context, const Graph &gradient, ArrayRef<std::string> paths) {
  Lifting lifting(context);
  Expected<const Lifted *> lifted = lifting.lift(gradient);
  if (!lifted) return lifted.takeError();
  const Lifted &made = **lifted;
  SmallVector<Value, 16> heads(made.graph.heads().take_front(gradient.heads().size()));
  for (const std::string &path : paths) {
    const auto row = llvm::find_if(made.retained, [&](const Retained &retained) { return retained.path == path; });
    if (row == made.retained.end())
      return Failure(ErrorKind::Unreachable,
                     "'" + path + "' is retained, but no gradient arrives there on the way to what is asked for");
    heads.push_back(row->value);
  }
  const Frozen frozen = cantFail(GraphBuilder(context, made.graph).freeze(heads, {}));
  std::vector<NodeId> newId;
  std::vector<Value> newValue;
  for (NodeId n : made.newId) newId.push_back(n.isValid() ? frozen.newId[n.value] : n);
  for (Value v : made.newValue) newValue.push_back(v.isValid() ? frozen(v) : v);
  GraphTable table = gradient.table();
  remap(table, {newId, gradient.columns().entryBegin, newValue}, frozen.graph);
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

}  // namespace gradc
