// Contributions: the gradients that arrive at each entry, in the order of CON-02, and how several become one (§5).
//
// A *slot* is an entry of the base graph, or an output of a node made while a fused operator is decomposed. It holds
// the first contribution itself, since most entries have only one, and later ones as a list in arrival order. Zeros are
// not added (AGG-02, ZERO-02) except under ZeroPolicy::Keep: an empty slot means structurally zero.
#pragma once

#include "passes/gradient/naming.h"

#include "ir/base/dense_map.h"

namespace gradc {

class Accumulators {
 public:
  Accumulators(GraphBuilder &builder, const Graph &base, Namer &namer, const GradientOptions &options,
               GradientStats &stats);
  /// Lets `names` name sums and their operands.
  void setFluidNames(FluidNames &names) { fluid = &names; }

  uint32_t slot(Value v) const {
    return v.node.value < numBase ? base.entry(v).value : extraBegin[v.node.value - numBase] + v.index;
  }
  /// Adds slots for the outputs of nodes [first, last) of the builder.
  void addSlots(uint32_t first, uint32_t last);

  /// Appends a contribution; zero-ops are dropped unless the policy keeps them.
  void push(Value entry, Value contribution);
  bool isEmpty(uint32_t slot) const { return !slots[slot].first.isValid(); }
  /// After `aggregate`, the sum; else the first contribution, if any.
  Value first(uint32_t slot) const { return slots[slot].first; }
  /// The sum of the contributions (AGG-01, -03, -04), for a tapped entry the output of the tap; invalid when there are
  /// none. Later calls return the same value.
  Value aggregate(Value entry);
  /// Makes the gradient of this entry of the base pass a tap.
  void tap(Value entry) { taps.try_emplace(base.entry(entry).value); }
  /// The tap of an entry; invalid if `aggregate` was not called for it, or no gradient arrived.
  NodeId tapOf(Value entry) const { return taps.lookup(base.entry(entry).value); }
  bool isZero(Value v) const;
  /// The user's node for which a node was made, or the node itself.
  NodeId originOf(NodeId n) const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Slot {
    Value first;            // invalid: empty
    uint32_t last = kNone;  // the latest of the later contributions, into cells
  };
  struct Cell {
    Value value;
    uint32_t next;  // a ring: the earliest follows the latest
  };

  bool isPlaceholder(Value v) const;
  bool isChain(size_t n) const;
  Value total(Value entry, llvm::ArrayRef<Value> values);
  Value sum(Value entry, llvm::ArrayRef<Value> values);
  Value chain(Value entry, llvm::ArrayRef<Value> values);
  Value tapped(Value entry, Value gradient);
  KindId sumKind(size_t n);
  /// `sum_grad` in MXNet's style, `<node>_sum_grad` in the unique one.
  void nameSum(NodeId n, Value entry, llvm::StringRef suffix);

  GraphBuilder &builder;
  const Graph &base;
  Namer &namer;
  const GradientOptions &options;
  GradientStats &stats;
  uint32_t numBase;
  std::vector<Slot> slots;
  std::vector<Cell> cells;
  std::vector<uint32_t> extraBegin;  // by builder node beyond the base: first slot
  std::vector<KindId> sumKinds;      // by number of operands
  DenseMap<uint32_t, NodeId> taps;   // by slot; invalid until a gradient passes it
  FluidNames *fluid = nullptr;
};

}  // namespace gradc
