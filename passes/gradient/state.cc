#include "passes/gradient/state.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {

uint32_t orderOfGradient(const Graph &graph, const std::optional<GradientTable> &table, ArrayRef<GradientHead> heads) {
  if (!table) return 1;
  DenseMap<uint32_t, uint32_t> orderOf;
  uint32_t highest = 0, order = 0;
  for (auto [row, head] : zip(table->heads, graph.heads())) {
    uint32_t &known = orderOf[graph.entry(head).value];
    known = std::max(known, row.order);
    highest = std::max(highest, row.order);
  }
  for (const GradientHead &head : heads) {
    const auto row = orderOf.find(graph.entry(head.y).value);
    if (row != orderOf.end()) order = std::max(order, row->second);
    else if (graph.origin(head.y.node).isValid()) order = highest;
  }
  return order + 1;
}

Expected<Value> GradientState::scaled(Value v, NodeId origin) {
  if (!ctx.ops.wellKnown.scaled)
    return Failure(ErrorKind::UnknownOp, "the registry has no operator that multiplies by a number");
  Expected<KindRef> kind = ctx.ops.wellKnown.scaled(ctx, options.lossScale);
  if (!kind) return kind.takeError();
  Expected<NodeId> node = builder.add(*(*kind)->op, v, NodeSpec{"", (*kind)->attrs, origin});
  if (!node) return node.takeError();
  return Value{*node};
}

}  // namespace gradc
