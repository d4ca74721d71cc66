// Makes and reads the side table. Tested by tests/passes/gradient/gradient_table_test.cc
#include "ir/base/dense_map.h"
#include "passes/gradient/state.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// "weight", or "conv:0" for what is not a variable.
std::string readable(const Graph &graph, Value v) {
  std::string name = graph.name(v.node).str();
  return graph.isVariable(v.node) ? name : name + ":" + std::to_string(v.index);
}

// Nodes of a lower-order gradient graph move when versions are saved for the next order.
void addForwardRows(GradientTable &table, const Graph &forward, const std::optional<GradientTable> &earlier,
                    ArrayRef<NodeId> newId) {
  for (size_t i = 0; i < forward.heads().size(); ++i) {
    GradientTable::Head head = earlier ? earlier->heads[i] : GradientTable::Head();
    if (head.ofNode.isValid()) head.ofNode = newId[head.ofNode.value];
    table.heads.push_back(std::move(head));
  }
}

void addGradientRows(GradientTable &table, const Graph &forward, ArrayRef<GradientTarget> targets,
                     ArrayRef<GradientSlot> slots, GradientTable::HeadKind kind, uint32_t order,
                     ArrayRef<NodeId> newId) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!slots[i].value.isValid()) continue;
    GradientTable::Head head;
    head.kind = kind;
    head.of = readable(forward, targets[i].x);
    head.ofNode = newId[targets[i].x.node.value];
    head.ofIndex = targets[i].x.index;
    head.order = order;
    head.request = targets[i].request;
    head.slot = kind == GradientTable::HeadKind::Grad ? static_cast<int64_t>(i) : -1;
    table.heads.push_back(std::move(head));
  }
}

}  // namespace

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

GradientTable gradientTableOf(const GradientState &state, const GradientResult &result,
                              const std::vector<NodeId> &newId) {
  const Graph &forward = state.graph;
  const GradientRequest &request = state.request;
  const GradientOptions &options = state.options;
  const std::optional<GradientTable> &earlier = state.earlier;
  GradientTable table;
  table.heads.reserve(forward.heads().size() + request.wrt.size() + request.retained.size());
  if (!options.gradientOnly) addForwardRows(table, forward, earlier, newId);
  using HeadKind = GradientTable::HeadKind;
  addGradientRows(table, forward, request.wrt, result.wrt, HeadKind::Grad, state.order, newId);
  addGradientRows(table, forward, request.retained, result.retained, HeadKind::Retained, state.order, newId);

  constexpr StringRef kStatus[] = {"grad", "zeros", "none"};
  for (size_t i = 0; i < request.wrt.size(); ++i) {
    table.slotStatus.push_back(kStatus[static_cast<int>(result.wrt[i].status)].str());
    if (result.wrt[i].status == SlotStatus::None) table.gradNone.push_back(readable(forward, request.wrt[i].x));
  }
  if (earlier) table.headGradOf = earlier->headGradOf;
  for (size_t i = 0; i < request.heads.size(); ++i)
    if (!result.seedNames[i].empty())
      table.headGradOf.push_back({result.seedNames[i], forward.listedName(request.heads[i].y)});
  table.isTraining = options.isTraining;
  if (!options.gradientOnly)
    table.numForwardHeads = earlier ? earlier->numForwardHeads : static_cast<uint32_t>(forward.heads().size());
  return table;
}

}  // namespace gradc
