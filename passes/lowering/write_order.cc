// Tested by tests/passes/lowering/lower_loops_test.cc
#include "passes/lowering/write_order.h"

#include "passes/order/order_mutation.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Positions = DenseMap<uint32_t, size_t>;  // by node of the builder, from 1; earlier nodes have none

// The node, the nodes with a position that it depends on, and what these read.
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

/// Whether a node would read another version than it refers to (E-31).
Expected<bool> isStale(const Graph &graph) {
  bool stale = false;
  Error error = handleErrors(checkMutationOrder(graph), [&](std::unique_ptr<GradcError> info) -> Error {
    stale = info->kind == ErrorKind::StaleVersion;
    return stale ? Error::success() : Error(std::move(info));
  });
  if (error) return error;
  return stale;
}

}  // namespace

void EmittedOrder::add(ArrayRef<std::pair<NodeId, NodeId>> waits) {
  for (auto [after, before] : waits) later.push_back(after), earlier.push_back(before);
}

void EmittedOrder::addTo(GraphBuilder &builder, ArrayRef<NodeId> made) {
  for (size_t w = 0; w < later.size(); ++w) {
    const auto [first, end] = places.lookup(earlier[w].value);
    const auto [firstLater, endLater] = places.lookup(later[w].value);
    for (size_t i = first; i < end; ++i) {
      if (i + 1 < end && builder.kind(made[i]).mutated.isEmpty()) continue;
      for (size_t k = firstLater; k < endLater; ++k)
        if (added.insert({made[k].value, made[i].value}).second) builder.addControlDep(made[k], made[i]);
    }
  }
}

EndangeredWrites::EndangeredWrites(const Graph &graph) {
  auto any = [&](auto holds) { return llvm::any_of(graph.kinds(), [&](const KindRef &kind) { return holds(*kind); }); };
  if (!any([](const NodeKind &kind) { return !kind.mutated.isEmpty(); }) ||
      !any([](const NodeKind &kind) { return kind.flow != nullptr; }))
    return;
  isAlwaysRead.resize(graph.numEntries());
  BitVector isNodeAlwaysRead(graph.numNodes());
  auto mark = [&](Value v) {
    isAlwaysRead.set(graph.entry(v).value);
    isNodeAlwaysRead.set(v.node.value);
  };
  for (Value head : graph.heads()) mark(head);
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    const NodeKind &kind = graph.kind(NodeId(n));
    if (!isNodeAlwaysRead[n] || kind.isVariable() || kind.flow) continue;
    for (Value v : graph.inputs(NodeId(n))) mark(v);
    for (NodeId dep : graph.controlDeps(NodeId(n))) isNodeAlwaysRead.set(dep.value);
  }
  mayLoseReaders.resize(graph.numNodes());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    auto isAbove = [&](NodeId m) { return mayLoseReaders[m.value]; };
    if ((!isNodeAlwaysRead[n] && !graph.kind(NodeId(n)).mutated.isEmpty()) ||
        llvm::any_of(graph.inputs(NodeId(n)), [&](Value v) { return isAbove(v.node); }) ||
        llvm::any_of(graph.controlDeps(NodeId(n)), isAbove))
      mayLoseReaders.set(n);
  }
}

BitVector waitedForNodes(const Graph &graph) {
  BitVector isWaitedFor(graph.numNodes());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const ArrayRef<NodeId> deps = graph.controlDeps(NodeId(n));
    const bool hasForward = !deps.empty() && !graph.isVariable(NodeId(n)) && graph.op(NodeId(n))->flags.isBackward;
    for (NodeId dep : deps.drop_front(hasForward)) isWaitedFor.set(dep.value);
  }
  return isWaitedFor;
}

void keepWrites(GraphBuilder &builder, const EmittedOrder &order, Replacement to, ArrayRef<NodeId> others) {
  SmallVector<NodeId, 4> writes(others);
  for (NodeId node : to.made)
    if (!builder.kind(node).mutated.isEmpty()) writes.push_back(node);
  if (writes.empty()) return;
  Positions position;
  for (size_t i = 0; i < to.made.size(); ++i) position[to.made[i].value] = i + 1;
  DenseSet<uint32_t> kept, seen;
  auto waitForWrites = [&](NodeId node) {
    if (!seen.insert(node.value).second) return;
    const OpDef *op = builder.kind(node).op;
    const bool isGradient = op && op->flags.isBackward;  // its first dependency is its forward node
    const DenseSet<uint32_t> reached = reachedFrom(builder, node, position);
    const size_t at = position.lookup(node.value);
    for (NodeId write : writes) {
      const bool isReached = reached.contains(write.value);
      if (!isReached && (isGradient || position.lookup(write.value) >= at)) continue;
      if (!isReached && !order.hasAdded(node, write)) builder.addControlDep(node, write);
      kept.insert(write.value);
    }
  };
  for (Value *output : to.outputs) waitForWrites(output->node);
  if (to.isWaitedFor && !to.made.empty()) waitForWrites(to.made.back());
  llvm::erase_if(writes, [&](NodeId write) { return kept.contains(write.value); });
  if (writes.empty() || to.outputs.empty()) return;
  const Value copy{builder.addKind(*builder.context().ops.wellKnown.copy, {*to.outputs[0]}, NodeId())};
  for (NodeId write : writes) builder.addControlDep(copy.node, write);
  to.made.push_back(copy.node);
  *to.outputs[0] = copy;
}

Expected<Graph> orderWrites(Context &context, const Graph &before, const Graph &lowered) {
  auto overwrites = [](const KindRef &kind) { return !kind->mutated.isEmpty() || !kind->bodies.empty(); };
  if (none_of(lowered.kinds(), overwrites)) return lowered;
  Expected<bool> needsOrder = isStale(lowered);
  if (!needsOrder) return needsOrder.takeError();
  Expected<bool> isLeft = *needsOrder ? isStale(before) : true;
  if (!isLeft) return isLeft.takeError();
  if (*isLeft) return lowered;
  Expected<OrderedGraph> ordered = orderMutations(context, lowered, OverwrittenPolicy::Save);
  if (!ordered) return ordered.takeError();
  return ordered->graph;
}

}  // namespace gradc
