// Decides which entries of a graph are not row-major between the nodes that read and write them.
//
// An entry of rank three or four and type float32 starts with every layout allowed and none preferred. A node forbids
// the layouts it cannot read and prefers the one it is fast on. Element-wise nodes tie their operands together, so
// whole stretches of a network change at once. An entry gets the layout that is both preferred and allowed, and stays
// plain if there is none or more than one. Variables and heads have owners: they are plain, or filter tiles if the
// owner converts them. Linear, except for the union-find. Tested by tests/runtime/kernels/fast_kernels_test.cc,
// tests/runtime/kernels/filter_tiles_test.cc
#pragma once

#include "passes/inference/infer.h"
#include "passes/order/requests.h"
#include "runtime/kernels/table.h"

namespace gradc {

/// A node's constraints and preferences on layouts.
struct NodeLayout {
  LayoutRole role = LayoutRole::Plain;
  FilterOperands filters;   // of role Independent
  bool suitsTiles = false;  // the filters may and should be FilterTiles
};

class LayoutSettlement {
 public:
  /// `movesArguments`: variables and heads may be filter tiles, except those in `plain`.
  LayoutSettlement(const Graph &graph, const Inference &inference, const RequestTable &requests, bool movesArguments,
                   llvm::ArrayRef<EntryId> plain);

  /// Rows of variables in `nodes` are ignored.
  void settle(const NodeMap<NodeLayout> &nodes);
  Layout layout(EntryId e) const { return layouts[e]; }
  /// Whether the bytes of an operand of the node are not in row-major order.
  bool touchesMoved(NodeId n) const;
  EntryMap<Layout> take() { return std::move(layouts); }

 private:
  /// Sets of layouts, as bits: of an entry or, at the root, of all entries tied to it.
  struct Preferences {
    uint8_t allowed, wanted;
  };
  struct Operand {
    EntryId entry;
    bool isFilter;
  };

  bool isSkipped(NodeId n) const;
  Dims dims(EntryId e) const;
  bool isMovable(EntryId e) const;
  bool isOnePixel(EntryId e) const { return numPixels(dims(e)) == 1; }
  EntryId find(EntryId e);
  void tie(EntryId a, EntryId b);
  void allow(EntryId e, uint8_t layouts) { preferences[find(e)].allowed &= layouts; }
  void want(EntryId e, Layout layout);
  void collectOperands(NodeId n, const FilterOperands &filters, llvm::SmallVectorImpl<Operand> &operands) const;
  void constrain(NodeId n, const NodeLayout &node);
  void tieImages(llvm::ArrayRef<Operand> operands);
  void tieElements(llvm::ArrayRef<Operand> operands);
  void constrainIndependent(const Operand &operand, bool suitsTiles);
  Layout settled(EntryId e);

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const bool movesArguments;
  const std::vector<EntryId> plain;
  EntryMap<Layout> layouts;
  EntryMap<EntryId> parent;  // union-find
  EntryMap<Preferences> preferences;
};

}  // namespace gradc
