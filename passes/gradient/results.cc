// The end of the gradient pass: the gradient of each asked entry (§6, §7), the heads of the emitted graph, its side table.
// Tested by tests/gradient_test.cc
#include "passes/emitted_nodes.h"
#include "passes/gradient/checks.h"
#include "passes/gradient/state.h"
#include "passes/gradient/table.h"
#include "passes/order_mutation.h"

#include "ir/error.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Settlement : GradientPhase {
 public:
  explicit Settlement(GradientState &state) : GradientPhase(state) {}

  Expected<GradientResult> run() {
    if (Error error = collect(request.wrt, false, wrt)) return error;
    if (Error error = collect(request.retained, true, retained)) return error;
    return finish();
  }

 private:
  Error collect(ArrayRef<GradientTarget> targets, bool isRetained, std::vector<GradientSlot> &slots) {
    slots.reserve(targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      Expected<GradientSlot> slot = slotOf(targets[i].x, i, isRetained);
      if (!slot) return slot.takeError();
      slots.push_back(*slot);
    }
    return Error::success();
  }

  Expected<GradientSlot> slotOf(Value x, size_t i, bool isRetained) {
    if (Value gradient = sums.aggregate(x); gradient.isValid())
      return GradientSlot{SlotStatus::Grad, distinct(gradient)};
    // HO-08: from the second order on, what vanishes identically is no mistake, and counts as unused where `none` was
    // asked for.
    const bool isHigher = state.order > 1, isNone = isHigher && options.unused == UnusedPolicy::None;
    if (isRetained || (!isNone && !selection.isCut(graph.entry(x)) && isReachable(x)))
      return GradientSlot{SlotStatus::Grad, zerosFor(x)};
    const UnusedPolicy unused = isHigher && options.unused == UnusedPolicy::Error ? UnusedPolicy::Zeros : options.unused;
    if (unused == UnusedPolicy::Error)  // else a constant, as a gradient may well be, is like any unused x
      if (Error error = checkNotConstant(graph, request.heads)) return error;
    switch (unused) {
      case UnusedPolicy::None: return GradientSlot{SlotStatus::None, Value()};
      case UnusedPolicy::Zeros: return GradientSlot{SlotStatus::Zeros, zerosFor(x)};
      case UnusedPolicy::Error: break;
    }
    return Failure(ErrorKind::Unreachable, "x number " + Twine(i + 1) + ", '" + graph.listedName(x) +
                                               "', is not reached from any output that is differentiated")
        .at(x.node)
        .remedy(Remedy::ChooseUnused, "UnusedPolicy::None leaves it out, UnusedPolicy::Zeros gives it a gradient of zeros");
  }

  bool isReachable(Value x) {
    if (ancestors.empty())
      ancestors = selection.connectedTo(graph, request.heads, options.controlOnly == ControlOnlyPolicy::Zeros);
    return ancestors[x.node.value];
  }

  Value zerosFor(Value x) {
    NodeId n = builder.addKind(*ctx.ops.wellKnown.zerosLike, {x}, sums.originOf(x.node));
    if (fluid) fluid->nameGradient(x, Value{n});
    else namer.name(n, builder.name(x.node), x.index ? "_zero_grad_out" + utostr(x.index) : "_zero_grad");
    ++stats.numZeros;
    return Value{n};
  }

  // No two graph outputs share a buffer, none is an input or forward value (COPY-01, -03, -06). NAME-04: numbered per entry.
  Value distinct(Value gradient) {
    uint32_t &uses = useCounts[{gradient.node.value, gradient.index}];
    const bool isForeign = gradient.node.value < numBase || builder.kind(gradient.node).isVariable();
    if ((uses++ == 0 && !isForeign) || !ctx.ops.wellKnown.copy) return gradient;  // COPY-02
    NodeId n = builder.addKind(*ctx.ops.wellKnown.copy, {gradient},
                               sums.originOf(gradient.node));
    if (!fluid) namer.name(n, builder.name(gradient.node), "_" + utostr(isForeign ? uses : uses - 1) + "_copy");
    ++stats.numCopies;
    return Value{n};
  }

  Expected<GradientResult> finish() {
    SmallVector<Value, 16> heads;
    if (!options.gradientOnly) appendForwardHeads(heads);
    for (const std::vector<GradientSlot> *slots : {&wrt, &retained})
      for (const GradientSlot &slot : *slots)
        if (slot.value.isValid()) heads.push_back(slot.value);
    stats.numGenerated = builder.numNodes() - numBase;
    if (fluid) nameFluid();
    Expected<Frozen> frozen = selection.hasMutations()
                                  ? freezeInOrder(std::move(builder), graph, heads, options.overwritten)
                                  : std::move(builder).freeze(heads, {});
    if (frozen && hasFollowingAttrs(graph)) frozen = withFollowingAttrs(ctx, std::move(*frozen), numBase);
    if (!frozen) return frozen.takeError();
    if (options.listener) tellListener(*options.listener, *frozen, numBase, gradientEntries(), ctx.ops.wellKnown);
    GradientResult result;
    noteForwardPart(*frozen, result);
    for (std::vector<GradientSlot> *slots : {&wrt, &retained})
      for (GradientSlot &slot : *slots)
        if (slot.value.isValid()) slot.value = (*frozen)(slot.value);
    result.wrt = std::move(wrt);
    result.retained = std::move(retained);
    result.seedNames = std::move(state.seedNames);
    result.stats = stats;
    GraphTable table = carriedTable(*frozen);
    table.gradient = gradientTableOf(state, result, frozen->newId);
    addOpenPairs(*frozen, table.headPairs);
    addConstants(*frozen, table.constants);
    result.graph = frozen->graph.withTable(std::move(table));
    return result;
  }

  // What the base's table says of nodes that are still there.
  GraphTable carriedTable(const Frozen &frozen) const {
    GraphTable table = graph.table();
    table.gradient.reset();
    table.forgetEntries();
    remap(table, {ArrayRef(frozen.newId).take_front(numBase), graph.columns().entryBegin}, frozen.graph);
    // New heads update nothing.
    if (options.gradientOnly) table.updates.reset();
    else if (table.updates) table.updates->parameterOf.resize(frozen.graph.heads().size());
    return table;
  }

  void addOpenPairs(const Frozen &frozen, std::vector<HeadPair> &pairs) const {
    for (const HeadPair &pair : state.openPairs) {
      const HeadPair now{pair.position, frozen(pair.y), pair.seed.isValid() ? frozen(pair.seed) : Value()};
      if (now.y.isValid() && now.seed.isValid() == pair.seed.isValid()) pairs.push_back(now);
    }
  }

  void addConstants(const Frozen &frozen, std::vector<Value> &constants) const {
    DenseSet<uint32_t> seen;
    for (Value v : constants) seen.insert(frozen.graph.entry(v).value);
    for (const std::vector<Value> *list : {&request.noGrad, &request.stop})
      for (Value v : *list) {
        const Value now = frozen(v);
        if (!now.isValid() || frozen.graph.isVariable(now.node) || !seen.insert(frozen.graph.entry(now).value).second) continue;
        constants.push_back(Value{now.node, now.index, 0});
      }
  }

  void nameFluid() {
    const std::vector<GradientOf> list = gradientEntries();
    for (bool isFirst : {true, false})
      for (const GradientOf &pair : list)
        if ((pair.gradient.index == 0) == isFirst) fluid->nameGradient(pair.entry, pair.gradient);
    fluid->nameRest();
  }

  // What the walk left at every entry of the base, those of the y first, and the heads, some of which are copies of that.
  std::vector<GradientOf> gradientEntries() const {
    std::vector<GradientOf> list;
    for (uint32_t n = numBase; n-- > 0;)
      for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) {
        Value entry{NodeId(n), static_cast<uint16_t>(o), 0};
        if (Value gradient = sums.first(sums.slot(entry)); gradient.isValid()) list.push_back({gradient, entry});
      }
    for (size_t i = 0; i < wrt.size(); ++i)
      if (wrt[i].value.isValid()) list.push_back({wrt[i].value, request.wrt[i].x});
    for (size_t i = 0; i < retained.size(); ++i)
      if (retained[i].value.isValid()) list.push_back({retained[i].value, request.retained[i].x});
    return list;
  }

  // COPY-05: a forward head that is listed again is a copy, so that no two outputs share a buffer.
  void appendForwardHeads(SmallVectorImpl<Value> &heads) {
    if (graph.heads().size() == 1) return heads.push_back(graph.heads()[0]);
    DenseMap<uint32_t, uint32_t> timesListed;
    for (Value head : graph.heads()) {
      uint32_t &count = timesListed[graph.entry(head).value];
      if (count++ == 0 || !ctx.ops.wellKnown.copy) {
        heads.push_back(head);
        continue;
      }
      NodeId n = builder.addKind(*ctx.ops.wellKnown.copy, {head}, sums.originOf(head.node));
      namer.name(n, builder.name(head.node), "_copy" + utostr(count - 2));
      heads.push_back(Value{n});
      hasRepeatedHeads = true;
    }
  }

  // Saved copies and copied heads are among the forward nodes, which then have other ids; so have those that are left
  // where the gradients alone are emitted.
  void noteForwardPart(const Frozen &frozen, GradientResult &result) {
    ArrayRef<NodeId> ids = ArrayRef(frozen.newId).take_front(numBase);
    const bool isSame = all_of(enumerate(ids), [](auto row) { return row.value() == NodeId(static_cast<uint32_t>(row.index())); });
    if (!isSame) result.forwardIds = ids.vec();
    if (options.gradientOnly) return;
    const NodeId last = isSame ? NodeId(numBase - 1) : *max_element(ids);
    stats.numForwardNodes = last.value + 1;
    stats.numForwardEntries = frozen.graph.firstEntry(last).value + frozen.graph.numOutputs(last);
  }

  bool hasRepeatedHeads = false;
  BitVector ancestors;
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> useCounts;  // gradient entry → times it became a head
  std::vector<GradientSlot> wrt, retained;
};

}  // namespace

Expected<GradientResult> finishGradient(GradientState &state) { return Settlement(state).run(); }

}  // namespace gradc
