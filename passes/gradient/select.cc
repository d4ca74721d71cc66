// One forward sweep for what carries, one backward sweep for ancestors. Tested by
// tests/passes/gradient/gradient_select_test.cc
#include "passes/gradient/select.h"

#include "ir/op/attr_spec.h"
#include "ir/op/hidden_keys.h"

using namespace llvm;

namespace gradc {
namespace {

bool anyInputCarries(const Graph &graph, NodeId n, const BitVector &carrying) {
  const NodeKind &kind = graph.kind(n);
  ArrayRef<Value> inputs = graph.inputs(n);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (carrying[graph.entry(inputs[i]).value] && Selection::flows(kind, i)) return true;
  }
  return false;
}

bool isMarked(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> mark = attrs.get(key);
  ParamsArena arena;
  bool isTrue = false;
  return mark && parseAttr(*mark, arena, isTrue) && isTrue;
}

// By kind: whether its nodes are marked.
BitVector markedKinds(const Graph &graph, StringRef key) {
  BitVector marked;
  for (const KindRef &kind : graph.kinds()) marked.push_back(isMarked(kind->attrs, key));
  return marked;
}

}  // namespace

Selection::Selection(const Graph &graph, const GradientRequest &request, const GradientOptions &options)
    : carrying(graph.numEntries()), hasCuts(!request.noGrad.empty()), hasStops(!request.stop.empty()) {
  if (options.inference && options.integers == IntegerPolicy::Stop) types = &options.inference->dtype;
  if (hasCuts) cut.resize(graph.numEntries());
  if (hasStops) stopped.resize(graph.numEntries());
  for (Value v : request.noGrad) cut.set(graph.entry(v).value);
  for (Value v : request.stop) stopped.set(graph.entry(v).value);
  for (const GradientTarget &target : request.wrt) carrying.set(graph.entry(target.x).value);
  for (const GradientTarget &target : request.retained) carrying.set(graph.entry(target.x).value);
  // P-06: as if everything computed were requested, so that the walk visits everything that the y depend on.
  const bool carriesAll = options.reach == ReachPolicy::WholeGraph;
  if (hasCuts) carrying.reset(cut);
  const BitVector isMarked = markedKinds(graph, kStopMark);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    mutates |= !graph.kind(id).mutated.isEmpty();
    if (isMarked[graph.kindId(id).value]) cutOutputs(graph, id);
    if (graph.isVariable(id) || !(carriesAll || anyInputCarries(graph, id, carrying))) continue;
    for (uint32_t o = 0; o < graph.numOutputs(id); ++o) {
      EntryId e(graph.firstEntry(id).value + o);
      // STOP-03: a stopped entry carries only if it is requested itself.
      if (!isCut(e) && !isStopped(e) && !isInteger(e)) carrying.set(e.value);
    }
  }
}

void Selection::cutOutputs(const Graph &graph, NodeId n) {
  hasCuts = true;
  cut.resize(static_cast<unsigned>(carrying.size()));
  const uint32_t first = graph.firstEntry(n).value, end = first + graph.numOutputs(n);
  cut.set(first, end);
  carrying.reset(first, end);
}

bool isMarkedStopped(const Graph &graph, NodeId n) { return isMarked(graph.attrs(n), kStopMark); }

bool isMarkedStopped(const NodeKind &kind) { return isMarked(kind.attrs, kStopMark); }

std::vector<Value> tappedEntries(const Graph &graph) {
  std::vector<Value> entries;
  BitVector isTapped = markedKinds(graph, kTapMark);
  for (uint32_t k = 0; k < isTapped.size(); ++k)
    if (graph.kinds()[k]->attrs.get(kRetainMark)) isTapped.set(k);
  for (uint32_t n = 0; isTapped.any() && n < graph.numNodes(); ++n)
    for (uint32_t o = 0; isTapped[graph.kindId(NodeId(n)).value] && o < graph.numOutputs(NodeId(n)); ++o)
      entries.push_back(Value{NodeId(n), static_cast<uint16_t>(o), 0});
  return entries;
}

BitVector Selection::connectedTo(const Graph &graph, ArrayRef<GradientHead> heads, bool withControl) const {
  BitVector reached(graph.numNodes());
  auto reach = [&](Value v) {
    if (!isCut(graph.entry(v))) reached.set(v.node.value);
  };
  for (const GradientHead &head : heads) reach(head.y);
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    if (!reached[n]) continue;
    for (Value v : graph.inputs(NodeId(n))) reach(v);
    if (withControl)
      for (NodeId dep : graph.controlDeps(NodeId(n))) reached.set(dep.value);
  }
  return reached;
}

BitVector ancestorsOf(const Graph &graph, ArrayRef<GradientHead> heads) {
  return Selection().connectedTo(graph, heads, false);
}

}  // namespace gradc
