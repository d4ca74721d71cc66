// Tested by tests/runtime/kernels/fast_kernels_test.cc, tests/runtime/kernels/filter_tiles_test.cc
#include "runtime/kernels/layout_settlement.h"

#include "passes/order/requests.h"

#include "runtime/kernels/dnnl/weight_reorder.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr uint8_t bit(Layout layout) { return static_cast<uint8_t>(1 << static_cast<int>(layout)); }

constexpr uint8_t kPlain = bit(Layout::Plain);
constexpr uint8_t kImages = kPlain | bit(Layout::ChannelsLast);
constexpr uint8_t kFilters = kPlain | bit(Layout::FilterTiles);
constexpr uint8_t kAny = kImages | kFilters;

/// oneDNN is fast on channels-last images whose channels fill whole vectors; it pads copies of other images.
constexpr int64_t kVector = 16;

}  // namespace

LayoutSettlement::LayoutSettlement(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                   bool movesArguments, ArrayRef<EntryId> plain)
    : graph(graph), inference(inference), requests(requests), movesArguments(movesArguments), plain(plain.vec()),
      layouts(graph, Layout::Plain) {}

Dims LayoutSettlement::dims(EntryId e) const { return inference.shapeOf(e).dims(); }

bool LayoutSettlement::isMovable(EntryId e) const {
  return inference.isKnownShape(e) && inference.dtype[e] == DType::Float32 &&
         (dims(e).size() == 3 || dims(e).size() == 4);
}

EntryId LayoutSettlement::find(EntryId e) {
  while (parent[e].isValid()) {
    if (parent[parent[e]].isValid()) parent[e] = parent[parent[e]];
    e = parent[e];
  }
  return e;
}

void LayoutSettlement::tie(EntryId a, EntryId b) {
  a = find(a), b = find(b);
  if (a == b) return;
  parent[b] = a;
  preferences[a].allowed &= preferences[b].allowed;
  preferences[a].wanted |= preferences[b].wanted;
}

void LayoutSettlement::want(EntryId e, Layout layout) { preferences[find(e)].wanted |= bit(layout); }

bool LayoutSettlement::isSkipped(NodeId n) const { return hasNothingToDo(graph, requests, inference, n); }

/// The operands that may be moved, of those that the node reads or writes.
void LayoutSettlement::collectOperands(NodeId n, const FilterOperands &filters,
                                       SmallVectorImpl<Operand> &operands) const {
  const NodeKind &kind = graph.kind(n);
  ArrayRef<Value> inputs = graph.inputs(n);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!kind.isIgnored(i) && isMovable(graph.entry(inputs[i])))
      operands.push_back({graph.entry(inputs[i]), static_cast<int>(i) == filters.in});
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    const EntryId e(graph.firstEntry(n).value + o);
    if (requests.request[e] != Request::Null && isMovable(e))
      operands.push_back({e, static_cast<int>(o) == filters.out});
  }
}

/// An image of one pixel has the same bytes in either layout, so it need not be tied to others.
void LayoutSettlement::tieImages(ArrayRef<Operand> operands) {
  EntryId first;
  for (const Operand &operand : operands) {
    allow(operand.entry, kImages);
    if (isOnePixel(operand.entry)) continue;
    if (first.isValid()) tie(first, operand.entry);
    first = operand.entry;
  }
}

void LayoutSettlement::tieElements(ArrayRef<Operand> operands) {
  for (const Operand &operand : operands) {
    // A broadcast operand does not correspond element by element.
    if (dims(operand.entry) != dims(operands[0].entry)) allow(operand.entry, kPlain);
    tie(operands[0].entry, operand.entry);
  }
}

void LayoutSettlement::constrainIndependent(const Operand &operand, bool suitsTiles) {
  const auto [e, isFilter] = operand;
  if (isFilter) {
    const bool isTiled = suitsTiles && WeightReorder::hasTiles(dims(e));
    allow(e, isTiled ? kFilters : kPlain);
    if (isTiled) want(e, Layout::FilterTiles);
    return;
  }
  allow(e, dims(e)[1] % kVector ? kPlain : kImages);
  want(e, Layout::ChannelsLast);
}

void LayoutSettlement::constrain(NodeId n, const NodeLayout &node) {
  SmallVector<Operand, 8> operands;
  collectOperands(n, node.filters, operands);
  switch (node.role) {
    case LayoutRole::Plain:
      for (const Operand &operand : operands) allow(operand.entry, isOnePixel(operand.entry) ? kImages : kPlain);
      return;
    case LayoutRole::Same: return tieImages(operands);
    case LayoutRole::Elements: return tieElements(operands);
    case LayoutRole::Independent:
      for (const Operand &operand : operands) constrainIndependent(operand, node.suitsTiles);
      return;
  }
}

Layout LayoutSettlement::settled(EntryId e) {
  if (!isMovable(e)) return Layout::Plain;
  const Preferences &all = preferences[find(e)];
  const uint8_t granted = all.wanted & all.allowed;
  if (granted == bit(Layout::ChannelsLast)) return Layout::ChannelsLast;
  return granted == bit(Layout::FilterTiles) ? Layout::FilterTiles : Layout::Plain;
}

void LayoutSettlement::settle(const NodeMap<NodeLayout> &nodes) {
  parent = EntryMap<EntryId>(graph, EntryId());
  preferences = EntryMap<Preferences>(graph, {kAny, 0});
  const uint8_t ofArguments = movesArguments ? kFilters : kPlain;
  for (Value head : graph.heads()) allow(graph.entry(head), ofArguments);
  for (EntryId e : plain) allow(e, kPlain);
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    if (graph.isVariable(NodeId(id))) allow(graph.firstEntry(NodeId(id)), ofArguments);
    else if (!isSkipped(NodeId(id))) constrain(NodeId(id), nodes[NodeId(id)]);
  }
  for (uint32_t e = 0; e < graph.numEntries(); ++e) layouts[EntryId(e)] = settled(EntryId(e));
}

bool LayoutSettlement::touchesMoved(NodeId n) const {
  SmallVector<Operand, 8> operands;
  collectOperands(n, {}, operands);
  return any_of(operands, [&](const Operand &operand) {
    const Layout layout = layouts[operand.entry];
    return layout == Layout::FilterTiles || (layout == Layout::ChannelsLast && !isOnePixel(operand.entry));
  });
}

}  // namespace gradc
