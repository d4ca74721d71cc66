// One forward sweep for what carries, one backward sweep for ancestors. Tested by tests/gradient_select_test.cc
#include "passes/select.h"

using namespace llvm;

namespace gradc {
namespace {

bool anyInputCarries(const Graph &graph, NodeId n, const BitVector &carrying, const BitVector &stopped) {
  const NodeKind &kind = graph.kind(n);
  ArrayRef<Value> inputs = graph.inputs(n);
  for (size_t i = 0; i < inputs.size(); ++i) {
    uint32_t e = graph.entry(inputs[i]).value;
    if (carrying[e] && !(stopped.size() && stopped[e]) && Selection::flows(kind, i)) return true;
  }
  return false;
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
  // P-06: as if every variable were asked for, so that the walk visits all that lies under the y.
  if (options.reach == ReachPolicy::WholeGraph)
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n))) carrying.set(graph.firstEntry(NodeId(n)).value);
  if (hasCuts) carrying.reset(cut);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    if (graph.isVariable(id) || !anyInputCarries(graph, id, carrying, stopped)) continue;
    for (uint32_t o = 0; o < graph.numOutputs(id); ++o) {
      EntryId e(graph.firstEntry(id).value + o);
      if (!isCut(e) && !isInteger(e)) carrying.set(e.value);
    }
  }
}

BitVector ancestorsOf(const Graph &graph, ArrayRef<GradientHead> heads, bool withControl) {
  BitVector reached(graph.numNodes());
  for (const GradientHead &head : heads) reached.set(head.y.node.value);
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    if (!reached[n]) continue;
    for (Value v : graph.inputs(NodeId(n))) reached.set(v.node.value);
    if (withControl)
      for (NodeId dep : graph.controlDeps(NodeId(n))) reached.set(dep.value);
  }
  return reached;
}

}  // namespace gradc
