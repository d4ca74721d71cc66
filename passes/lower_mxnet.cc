// One sweep that copies every node, replacing operators of our own. Tested by tests/lower_mxnet_test.cc
#include "passes/lower_mxnet.h"

#include "passes/emitted_nodes.h"
#include "passes/rewriter.h"

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
  Lowering(Context &ctx, const Graph &graph) : graph(graph), rewriter(ctx, graph), builder(rewriter.builder()) {}

  Expected<Graph> run() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (Error error = visit(NodeId(n))) return error;
    Expected<Rewritten> lowered = std::move(rewriter).finish();
    if (!lowered) return lowered.takeError();
    GraphTable table = lowered->graph.table();
    table.forgetEntries();
    table.mxnetVersion = kMxnetVersion;
    return lowered->graph.withTable(std::move(table));
  }

 private:
  Error visit(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    if (!kind.isVariable() && kind.op->lowerToMxnet) return replace(n);
    if (!kind.isVariable() && kind.op->flags.isOwn)
      return Failure(ErrorKind::UnknownOp, "operator '" + kind.op->name + "' of node '" + graph.name(n) +
                                               "' cannot be said in MXNet's operators")
          .at(n)
          .note("emit the graph without --dialect mxnet");
    rewriter.copy(n);
    return Error::success();
  }

  Error replace(NodeId n) {
    DecomposeRule rule(builder, rewriter.draft(n), NodeId());
    if (!graph.controlDeps(n).empty()) rule.setForward(rewriter(graph.controlDeps(n)[0]));
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
    }
    SmallVector<Value, 4> outputs;
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) outputs.push_back(moved(rule.output(o), first, made));
    rewriter.replace(n, outputs, made);
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
    Expected<KindRef> kind = withFollowingAttrsOf(builder.context(), builder.kindHandle(m), graph.attrs(n));
    if (!kind) return kind.takeError();
    uint32_t first = m.value - made.size();
    SmallVector<Value, 4> inputs;
    bool isMoved = false;
    for (Value v : builder.inputs(m)) {
      inputs.push_back(moved(v, first, made));
      isMoved |= inputs.back() != v;
    }
    if (*kind == builder.kindHandle(m) && !isMoved) return m;
    return builder.addKind(*kind, inputs, builder.origin(m));
  }

  const Graph &graph;
  GraphRewriter rewriter;
  GraphBuilder &builder;  // the rewriter's
  StringSet<> names;      // once a name has to be found
};

}  // namespace

Expected<Graph> lowerToMxnet(Context &context, const Graph &graph) { return Lowering(context, graph).run(); }

}  // namespace gradc
