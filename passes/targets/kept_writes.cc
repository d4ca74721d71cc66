// Tested by tests/lower_loops_test.cc
#include "passes/targets/kept_writes.h"

#include "ir/dense_map.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Positions = DenseMap<uint32_t, size_t>;  // by node of the builder, from 1; those that were there before have none

// The node, what it needs of the nodes that have a position, and what these read.
DenseSet<uint32_t> reachedFrom(const GraphBuilder &builder, NodeId node, const Positions &position) {
  DenseSet<uint32_t> reached;
  SmallVector<NodeId, 16> open;
  auto reach = [&](NodeId n) {
    if (reached.insert(n.value).second && position.contains(n.value)) open.push_back(n);
  };
  for (reach(node); !open.empty();)
    for (Value v : builder.inputs(open.pop_back_val())) reach(v.node);
  return reached;
}

}  // namespace

BitVector looseNodes(const Graph &graph) {
  auto any = [&](auto holds) { return llvm::any_of(graph.kinds(), [&](const KindRef &kind) { return holds(*kind); }); };
  if (!any([](const NodeKind &kind) { return !kind.mutated.isEmpty(); }) ||
      !any([](const NodeKind &kind) { return kind.flow != nullptr; }))
    return {};
  BitVector isHeld(graph.numNodes());  // leads to a head whatever becomes of flows
  for (Value head : graph.heads()) isHeld.set(head.node.value);
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    const NodeKind &kind = graph.kind(NodeId(n));
    if (!isHeld[n] || kind.isVariable() || kind.flow) continue;
    for (Value v : graph.inputs(NodeId(n))) isHeld.set(v.node.value);
    for (NodeId dep : graph.controlDeps(NodeId(n))) isHeld.set(dep.value);
  }
  BitVector isLoose(graph.numNodes());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    auto isAbove = [&](NodeId m) { return isLoose[m.value]; };
    if ((!isHeld[n] && !graph.kind(NodeId(n)).mutated.isEmpty()) ||
        llvm::any_of(graph.inputs(NodeId(n)), [&](Value v) { return isAbove(v.node); }) ||
        llvm::any_of(graph.controlDeps(NodeId(n)), isAbove))
      isLoose.set(n);
  }
  return isLoose.none() ? BitVector() : isLoose;
}

void keepWrites(GraphBuilder &builder, ArrayRef<Value *> outputs, SmallVectorImpl<NodeId> &made,
                ArrayRef<NodeId> others) {
  SmallVector<NodeId, 4> writes(others);
  for (NodeId node : made)
    if (!builder.kind(node).mutated.isEmpty()) writes.push_back(node);
  if (writes.empty()) return;
  Positions position;
  for (size_t i = 0; i < made.size(); ++i) position[made[i].value] = i + 1;
  DenseSet<uint32_t> kept;
  for (Value *output : outputs) {
    const DenseSet<uint32_t> reached = reachedFrom(builder, output->node, position);
    const size_t at = position.lookup(output->node.value);
    for (NodeId write : writes) {
      const bool isReached = reached.contains(write.value);
      if (!isReached && position.lookup(write.value) >= at) continue;
      if (!isReached) builder.addControlDep(output->node, write);
      kept.insert(write.value);
    }
  }
  llvm::erase_if(writes, [&](NodeId write) { return kept.contains(write.value); });
  if (writes.empty() || outputs.empty()) return;
  const Value copy{builder.addKind(*builder.context().ops.wellKnown.copy, {*outputs[0]}, NodeId())};
  for (NodeId write : writes) builder.addControlDep(copy.node, write);
  made.push_back(copy.node);
  *outputs[0] = copy;
}

}  // namespace gradc
