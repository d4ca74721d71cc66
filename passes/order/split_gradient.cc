// Tested by tests/passes/split_gradient_test.cc
#include "passes/order/split_gradient.h"

#include "passes/inference/carry.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"

#include "llvm/ADT/BitVector.h"

using namespace llvm;

namespace gradc {
namespace {

class Splitter {
 public:
  Splitter(Context &context, const Graph &graph, uint32_t numForward, size_t numForwardHeads)
      : graph(graph), numForward(numForward), heads(graph.heads().drop_front(numForwardHeads)),
        rewriter(context, graph), isRead(numEntriesBefore()), isListed(numEntriesBefore()) {}

  Expected<SplitGradient> run() {
    if (Error error = collect()) return error;
    addVariables();
    for (uint32_t n = numForward; n < graph.numNodes(); ++n) copy(NodeId(n));
    Expected<Rewritten> rewritten = std::move(rewriter).finish(heads);
    if (!rewritten) return rewritten.takeError();
    return answer(*rewritten);
  }

 private:
  uint32_t numEntriesBefore() const {
    return numForward < graph.numNodes() ? graph.firstEntry(NodeId(numForward)).value : graph.numEntries();
  }
  bool isForward(NodeId n) const { return n.value < numForward; }

  // Collects the entries that cross, in the order of first use: `saved` if their contents are read, `listed` in any
  // case.
  Error collect() {
    findLatestVersions();
    for (uint32_t id = numForward; id < graph.numNodes(); ++id) {
      const NodeId n(id);
      if (graph.isVariable(n)) continue;
      const NodeKind &kind = graph.kind(n);
      ArrayRef<Value> inputs = graph.inputs(n);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!isForward(inputs[i].node)) continue;
        if (kind.isMutated(i)) return overwrites(n, i);
        list(inputs[i]);
        if (kind.isIgnored(i)) continue;
        if (isStale(inputs[i])) return readsStale(graph.describe(n), inputs[i]).at(n);
        read(inputs[i]);
      }
      if (needsStandIn(n)) list(Value{graph.controlDeps(n)[0]});
    }
    for (Value head : heads) {
      if (!isForward(head.node)) continue;
      if (isStale(head)) return readsStale("head '" + graph.listedName(head) + "'", head).at(head.node);
      list(head);
      read(head);
    }
    return Error::success();
  }

  void list(Value v) {
    const uint32_t e = graph.entry(v).value;
    if (!isListed[e]) listed.push_back(v);
    isListed.set(e);
  }
  void read(Value v) {
    const uint32_t e = graph.entry(v).value;
    if (!isRead[e]) saved.push_back(v);
    isRead.set(e);
  }

  // Whether n is a fused backward operator that loses its forward node, but still waits for other nodes.
  bool needsStandIn(NodeId n) const {
    ArrayRef<NodeId> deps = graph.controlDeps(n);
    if (deps.empty() || !graph.kind(n).op->flags.isBackward || !isForward(deps[0])) return false;
    return any_of(deps.drop_front(), [&](NodeId dep) { return !isForward(dep); });
  }

  void findLatestVersions() {
    if (none_of(graph.kinds(), [](const KindRef &kind) { return !kind->mutated.isEmpty(); })) return;
    latestVersion.resize(numForward);
    for (uint32_t n = 0; n < numForward; ++n) {
      const NodeKind &kind = graph.kind(NodeId(n));
      if (kind.mutated.isEmpty()) continue;
      ArrayRef<Value> inputs = graph.inputs(NodeId(n));
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!kind.isMutated(i)) continue;
        uint16_t &latest = latestVersion[inputs[i].node.value];
        latest = std::max(latest, inputs[i].version);
      }
    }
  }
  bool isStale(Value v) const { return !latestVersion.empty() && v.version < latestVersion[v.node.value]; }

  Error overwrites(NodeId n, size_t input) const {
    return Failure(ErrorKind::BadMutation, graph.describe(n) + " overwrites input " + Twine(input) + ", '" +
                                               graph.listedName(graph.inputs(n)[input]) +
                                               "', which belongs to the forward part")
        .at(n);
  }
  Failure readsStale(const Twine &reader, Value v) const {
    return Failure(ErrorKind::StaleVersion, reader + " reads version " + Twine(v.version) + " of '" +
                                                graph.name(v.node) + "', but the forward part already makes version " +
                                                Twine(latestVersion[v.node.value]));
  }

  void addVariables() {
    std::vector<Value> values(numEntriesBefore());
    for (Value v : listed) {
      const bool isVariable = graph.isVariable(v.node);
      values[graph.entry(v).value] =
          rewriter.builder().addVariable(graph.listedName(v), isVariable ? graph.attrs(v.node) : Attrs());
    }
    for (Value v : listed)
      rewriter.detach(v.node, ArrayRef(values).slice(graph.firstEntry(v.node).value, graph.numOutputs(v.node)));
  }

  void copy(NodeId n) {
    GraphBuilder &builder = rewriter.builder();
    if (!graph.isVariable(n) && needsStandIn(n))  // it must be the first dependency
      builder.addControlDep(NodeId(builder.numNodes()), rewriter(Value{graph.controlDeps(n)[0]}).node);
    rewriter.copy(n);
  }

  SplitGradient answer(const Rewritten &rewritten) {
    SplitGradient split;
    split.backward = rewritten.graph;
    split.newId = rewritten.newId;
    split.source.resize(split.backward.numNodes());
    for (uint32_t n = numForward; n < graph.numNodes(); ++n)
      if (split.newId[n].isValid()) split.source[split.newId[n].value] = Value{NodeId(n)};
    auto add = [&](std::vector<CrossingValue> &list, Value v) {
      const NodeId variable = rewritten.newValue[graph.entry(v).value].node;
      split.source[variable.value] = v;
      list.push_back({v, variable});
    };
    for (Value v : saved) add(split.saved, v);
    for (Value v : listed)
      if (!isRead[graph.entry(v).value]) add(split.shapesOnly, v);
    return split;
  }

  const Graph &graph;
  const uint32_t numForward;
  const ArrayRef<Value> heads;
  GraphRewriter rewriter;
  BitVector isRead, isListed;           // by entry of the forward part
  std::vector<Value> saved, listed;     // in the order of first use
  std::vector<uint16_t> latestVersion;  // by forward node; empty when nothing is overwritten
};

}  // namespace

Expected<SplitGradient> splitGradient(Context &context, const Graph &combined, uint32_t numForwardNodes,
                                      size_t numForwardHeads) {
  return catchingBadAlloc("to split the gradient graph",
                          [&] { return Splitter(context, combined, numForwardNodes, numForwardHeads).run(); });
}

static void takeBodies(Inference &to, NodeId n, const Inference &from, NodeId source) {
  auto at = llvm::lower_bound(from.bodies, source, [](const NodeBodies &row, NodeId key) { return row.node < key; });
  if (at != from.bodies.end() && at->node == source) to.bodies.push_back({n, at->bodies});
}

Inference backwardInference(const SplitGradient &split, const Graph &combined, const Inference &inference) {
  const Graph &graph = split.backward;
  Inference result = carry(inference, combined, graph, split.source);
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.kind(NodeId(n)).flow) takeBodies(result, NodeId(n), inference, split.source[n].node);
  return result;
}

}  // namespace gradc
