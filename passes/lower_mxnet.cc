// One sweep that copies every node, replacing operators of our own. Tested by tests/lower_mxnet_test.cc
#include "passes/lower_mxnet.h"

#include "passes/constant_entries.h"
#include "passes/emitted_nodes.h"
#include "passes/head_checks.h"

#include "ir/error.h"
#include "ir/grad_rule.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMxnetVersion = 10901;

class Lowering {
 public:
  Lowering(Context &ctx, const Graph &graph) : graph(graph), builder(ctx) {}

  Expected<Graph> run() {
    entries.resize(graph.numEntries());
    newNode.resize(graph.numNodes());
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (Error error = visit(NodeId(n))) return error;
    SmallVector<Value, 16> heads;
    for (Value head : graph.heads()) heads.push_back(mapped(head));
    GraphAttrs attrs = graph.graphAttrs();
    attrs["mxnet_version"] = GraphAttr::ofInt(kMxnetVersion);
    dropEntryLists(attrs);
    Expected<Frozen> frozen = std::move(builder).freeze(heads, std::move(attrs));
    if (!frozen) return frozen.takeError();
    return renumberTable(*frozen);
  }

 private:
  Value mapped(Value v) const {
    Value to = entries[graph.entry(v).value];
    return Value{to.node, to.index, v.version};
  }

  Error visit(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    SmallVector<Value, 8> inputs;
    for (Value v : graph.inputs(n)) inputs.push_back(mapped(v));
    NodeId copy = builder.addKind(graph.kindId(n), inputs, originOf(n));
    newNode[n.value] = copy;
    if (!kind.isVariable() && kind.op->lowerToMxnet) return replace(n, copy);
    if (!kind.isVariable() && kind.op->flags.isOwn)
      return Failure(ErrorKind::UnknownOp, "operator '" + kind.op->name + "' of node '" + graph.name(n) +
                                               "' cannot be said in MXNet's operators")
          .at(n)
          .note("emit the graph without --dialect mxnet");
    builder.setName(copy, graph.name(n), "");
    for (NodeId dep : graph.controlDeps(n)) builder.addControlDep(copy, newNode[dep.value]);
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      entries[graph.firstEntry(n).value + o] = Value{copy, static_cast<uint16_t>(o), 0};
    return Error::success();
  }

  NodeId originOf(NodeId n) const {
    NodeId origin = graph.origin(n);
    return origin.isValid() ? newNode[origin.value] : NodeId();
  }

  // The copy of the node serves the rule as the place to read inputs from; nothing refers to it, so freeze drops it.
  Error replace(NodeId n, NodeId copy) {
    DecomposeRule rule(builder, copy, originOf(n));
    if (!graph.controlDeps(n).empty()) rule.setForward(newNode[graph.controlDeps(n)[0].value]);
    uint32_t first = builder.numNodes();
    graph.op(n)->lowerToMxnet(rule);
    if (rule.hasFailed()) return amend(rule.takeFailure(), [&](GradcError &info) { info.place.node = n; });
    uint32_t last = builder.numNodes();
    for (uint32_t m = first; m < last; ++m)
      if (const OpDef *op = builder.kind(NodeId(m)).op; op && (op->lowerToMxnet || op->flags.isOwn))
        return Failure(ErrorKind::UnknownOp, "operator '" + graph.op(n)->name + "' of node '" + graph.name(n) + "' is " +
                                                 "lowered to operator '" + op->name + "', which MXNet does not have")
            .at(n)
            .note("this is a mistake in the operator's definition, not in the graph");
    SmallVector<NodeId, 4> made;
    uint32_t number = 0;
    for (uint32_t m = first; m < last; ++m) {
      Expected<NodeId> node = following(NodeId(m), n, made);
      if (!node) return node.takeError();
      made.push_back(*node);
      builder.setName(*node, m + 1 == last ? graph.name(n).str() : freeName(graph.name(n), number), "");
      for (NodeId dep : graph.controlDeps(n)) builder.addControlDep(*node, newNode[dep.value]);
    }
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      entries[graph.firstEntry(n).value + o] = moved(rule.output(o), first, made);
    if (!made.empty()) newNode[n.value] = made.back();
    return Error::success();
  }

  // `<base>_<number>`, past the names there are (NAME-09).
  std::string freeName(StringRef base, uint32_t &number) {
    if (names.empty())
      for (uint32_t n = 0; n < graph.numNodes(); ++n) names.insert(graph.name(NodeId(n)));
    std::string name;
    do name = base.str() + "_" + utostr(number++);
    while (!names.insert(name).second);
    return name;
  }

  static Value moved(Value v, uint32_t first, ArrayRef<NodeId> made) {
    if (v.isValid() && v.node.value >= first && v.node.value - first < made.size()) v.node = made[v.node.value - first];
    return v;
  }

  // Node m that stands for n, the `made.size()`-th of its rule: itself, or again with the attributes that follow (NAME-11).
  Expected<NodeId> following(NodeId m, NodeId n, ArrayRef<NodeId> made) {
    Expected<KindId> kind = withFollowingAttrsOf(builder.context(), builder.kindId(m), graph.kind(n).attrs);
    if (!kind) return kind.takeError();
    uint32_t first = m.value - made.size();
    SmallVector<Value, 4> inputs;
    bool isMoved = false;
    for (Value v : builder.inputs(m)) {
      inputs.push_back(moved(v, first, made));
      isMoved |= inputs.back() != v;
    }
    if (*kind == builder.kindId(m) && !isMoved) return m;
    return builder.addKind(*kind, inputs, builder.origin(m));
  }

  // Lists over entries do not survive a change of entries.
  void dropEntryLists(GraphAttrs &attrs) {
    for (const char *key : {"shape", "shape_known", "dtype", "storage_type", "plan", "planned_bytes", "bound_bytes"})
      attrs.erase(key);
  }

  Graph renumberTable(const Frozen &frozen) const {
    GraphAttrs attrs = frozen.graph.graphAttrs();
    if (auto nodes = attrs.find("grad_of_node"); nodes != attrs.end())
      for (int64_t &id : nodes->second.numbers)
        if (id >= 0 && id < static_cast<int64_t>(newNode.size()))
          id = frozen.newId[newNode[static_cast<size_t>(id)].value].value;
    auto follow = [&](Value v) { return frozen(mapped(v)); };
    const Graph lowered = withHeadPairs(frozen.graph.withGraphAttrs(std::move(attrs)), readHeadPairs(graph), follow);
    return withConstantEntries(lowered, readConstantEntries(graph), follow);
  }

  const Graph &graph;
  GraphBuilder builder;
  std::vector<Value> entries;   // by entry of the graph
  std::vector<NodeId> newNode;  // by node of the graph
  StringSet<> names;            // once a name has to be found
};

}  // namespace

Expected<Graph> lowerToMxnet(Context &context, const Graph &graph) { return Lowering(context, graph).run(); }

}  // namespace gradc
