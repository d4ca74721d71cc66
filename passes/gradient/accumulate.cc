// Sums of contributions. Tested by tests/passes/gradient/gradient_sum_test.cc
#include "passes/gradient/accumulate.h"

#include "passes/gradient/select.h"

#include "ir/graph/body_flow.h"
#include "ir/graph/effects.h"
#include "ir/op/hidden_keys.h"
#include "ir/rules/run_flow.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// A loop that may end early fills only the rows of its stacks that belong to executed steps; so do their gradients
// (CF-20).
bool isShortStack(GraphBuilder &builder, Value entry) {
  return isShortOutput(builder.kind(entry.node), entry.index) && builder.context().ops.wellKnown.sumOfRows;
}

NodeId addShortStacks(GraphBuilder &builder, Value entry, ArrayRef<Value> values, NodeId origin) {
  Context &ctx = builder.context();
  const BodyFlow *flow = builder.kind(entry.node).flow;
  SmallVector<Value, 4> operands;
  if (flow->countOutput) operands.push_back(Value{entry.node, static_cast<uint16_t>(*flow->countOutput)});
  else operands.push_back(builder.inputs(entry.node)[*flow->countOperand]);
  llvm::append_range(operands, values);
  const KindRef sum = cantFail(ctx.ops.wellKnown.sumOfRows(ctx, values.size(), flow->maxSteps));
  return builder.addKind(builder.kindId(sum), operands, origin);
}

}  // namespace

Accumulators::Accumulators(GraphBuilder &builder, const Graph &base, Namer &namer, const GradientOptions &options,
                           GradientStats &stats)
    : builder(builder), base(base), namer(namer), options(options), stats(stats), numBase(base.numNodes()),
      slots(base.numEntries()) {}

void Accumulators::addSlots(uint32_t first, uint32_t last) {
  extraBegin.resize(last - numBase, kNone);
  for (uint32_t n = first; n < last; ++n) {
    extraBegin[n - numBase] = static_cast<uint32_t>(slots.size());
    slots.resize(slots.size() + builder.numOutputs(NodeId(n)));
  }
}

NodeId Accumulators::originOf(NodeId n) const {
  NodeId root = builder.origin(n);
  return root.isValid() ? root : n;
}

bool Accumulators::isZero(Value v) const {
  const OpDef *op = builder.kind(v.node).op;
  return op && op->flags.isZero;
}

// Has no shape and must never be read.
bool Accumulators::isPlaceholder(Value v) const {
  return builder.kind(v.node).op == builder.context().ops.wellKnown.zerosPlaceholder;
}

void Accumulators::push(Value entry, Value contribution) {
  if (isZero(contribution) && (options.zeroTerms == ZeroPolicy::Drop || isPlaceholder(contribution))) return;
  Slot &at = slots[slot(entry)];
  if (!at.first.isValid()) {
    at.first = contribution;
    return;
  }
  uint32_t cell = static_cast<uint32_t>(cells.size());
  cells.push_back({contribution, at.last == kNone ? cell : cells[at.last].next});
  if (at.last != kNone) cells[at.last].next = cell;
  at.last = cell;
}

Value Accumulators::aggregate(Value entry) {
  Slot &at = slots[slot(entry)];
  if (at.last != kNone) {
    SmallVector<Value, 16> values{at.first};
    uint32_t cell = at.last;
    do {
      cell = cells[cell].next;
      values.push_back(cells[cell].value);
    } while (cell != at.last);
    at = {total(entry, values), kNone};
  }
  if (!taps.empty() && at.first.isValid()) at.first = tapped(entry, at.first);
  return at.first;
}

Value Accumulators::tapped(Value entry, Value gradient) {
  const auto row = taps.find(slot(entry));
  if (row == taps.end() || row->second.isValid() || isZero(gradient)) return gradient;
  Context &ctx = builder.context();
  Attrs attrs;
  const bool isOfBase = base.numNodes() > entry.node.value;
  if (const std::optional<StringRef> path =
          isOfBase && entry.index == 0 ? base.attrs(entry.node).get(kRetainMark) : std::nullopt)
    attrs = ctx.attrs(AttrText{kRetainMark, *path});
  const KindId kind = cantFail(builder.kindId(*ctx.ops.wellKnown.tap, attrs));
  const NodeId n = builder.addKind(kind, {gradient}, originOf(entry.node));
  row->second = n;
  if (fluid) fluid->nameTap(entry, gradient, n);
  else namer.name(n, builder.name(entry.node), entry.index ? "_tap_out" + utostr(entry.index) : "_tap");
  ++stats.numTaps;
  return Value{n};
}

// AGG-02: if all terms are zeros, which ZeroPolicy::Keep admits, one of them is kept.
Value Accumulators::total(Value entry, ArrayRef<Value> values) {
  if (options.zeroTerms == ZeroPolicy::Keep && all_of(values, [&](Value v) { return isZero(v); })) return values[0];
  return isChain(values.size()) && !isShortStack(builder, entry) ? chain(entry, values) : sum(entry, values);
}

bool Accumulators::isChain(size_t n) const {
  if (namer.style() == NamingStyle::Nnvm) return false;  // AGG-07
  return options.chain == ChainPolicy::FromCap ? n >= options.sumCap : n <= options.sumCap;
}

KindId Accumulators::sumKind(size_t n) {
  if (sumKinds.size() <= n) sumKinds.resize(n + 1);
  if (!sumKinds[n].isValid()) {
    Context &ctx = builder.context();
    sumKinds[n] = builder.kindId(cantFail(ctx.ops.wellKnown.sumOf(ctx, n)));
  }
  return sumKinds[n];
}

void Accumulators::nameSum(NodeId n, Value entry, StringRef suffix) {
  if (namer.style() != NamingStyle::Unique)
    return namer.name(n, namer.style() == NamingStyle::Nnvm ? "grad_sum" : "sum_grad", suffix);
  SmallString<32> marked("_sum_grad");
  if (entry.index) marked += "_out" + utostr(entry.index);
  marked += suffix;
  if (entry.node.value < numBase) namer.nameRegularly(n, entry.node, marked);
  else namer.name(n, builder.name(entry.node), marked);  // within a decomposition
}

Value Accumulators::sum(Value entry, ArrayRef<Value> values) {
  if (fluid) fluid->nameSummands(entry, values);
  const NodeId origin = originOf(entry.node), n = isShortStack(builder, entry)
                                                      ? addShortStacks(builder, entry, values, origin)
                                                      : builder.addKind(sumKind(values.size()), values, origin);
  if (fluid) fluid->nameGradient(entry, Value{n});
  else nameSum(n, entry, "");
  ++stats.numSums;
  return Value{n};
}

// AGG-04: `_grad_add` one after another, closed by a copy so that no external buffer sees the running sum. AGG-05: a
// producer waits for the running sum before it, so that few contributions live at once; only if it was made after all
// producers already in the sum, so that no cycle can arise.
Value Accumulators::chain(Value entry, ArrayRef<Value> values) {
  const WellKnownOps &ops = builder.context().ops.wellKnown;
  const KindId add = cantFail(builder.kindId(*ops.add, Attrs()));
  if (fluid) fluid->nameSummands(entry, values);
  Value total = values[0];
  uint32_t latest = values[0].node.value;
  for (size_t i = 1; i < values.size(); ++i) {
    uint32_t producer = values[i].node.value;
    if (producer >= numBase && producer > latest && !builder.kind(NodeId(producer)).isVariable() &&
        !builder.kind(total.node).isVariable())
      builder.addControlDep(NodeId(producer), total.node);
    latest = std::max(latest, producer);
    NodeId n = builder.addKind(add, {total, values[i]}, originOf(entry.node));
    if (fluid) fluid->nameAddition(entry, n, i);
    else nameSum(n, entry, "_" + utostr(i));
    total = Value{n};
  }
  ++stats.numChains;
  if (!ops.copy) return total;  // COPY-02
  NodeId last = builder.addKind(*ops.copy, {total}, originOf(entry.node));
  if (fluid) fluid->nameGradient(entry, Value{last});
  else nameSum(last, entry, "_final");
  return Value{last};
}

}  // namespace gradc
