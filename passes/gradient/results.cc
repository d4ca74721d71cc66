// The end of the gradient pass: the gradient of each requested entry (§6, §7), the heads of the emitted graph, its side
// table. `kSteps` lists the steps in order. Tested by tests/passes/gradient/gradient_test.cc
#include "passes/gradient/results.h"

#include "ir/base/dense_map.h"
#include "passes/gradient/checks.h"
#include "passes/gradient/listener.h"
#include "passes/order/order_mutation.h"
#include "passes/rewrite/inherited_attrs.h"

#include "ir/base/error.h"
#include "ir/rules/verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

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

/// What the steps work on.
struct Emission {
  GradientState &state;                    // its builder is consumed by `freezeGraph`
  GradientResult result = {};              // its values have builder ids until `renumberAnswers`
  SmallVector<Value, 16> heads = {};       // with builder ids
  std::vector<GradientOf> gradients = {};  // with builder ids
  Frozen frozen = {};                      // from `freezeGraph` on
};

/// Makes the gradient of every entry that was requested.
class AnswerMaker {
 public:
  explicit AnswerMaker(GradientState &state) : state(state), isHigher(state.order > 1), policy(state.options.unused) {}

  Error answer(ArrayRef<GradientTarget> targets, bool isRetained, std::vector<GradientSlot> &slots) {
    slots.reserve(targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      Expected<GradientSlot> slot = answer(targets[i].x, i, isRetained);
      if (!slot) return slot.takeError();
      slots.push_back(*slot);
    }
    return Error::success();
  }

 private:
  Expected<GradientSlot> answer(Value x, size_t i, bool isRetained) {
    if (Value gradient = state.sums.aggregate(x); gradient.isValid())
      return GradientSlot{SlotStatus::Grad, distinct(gradient)};
    // HO-08: from the second order on, an identically vanishing gradient is not an error, and counts as unused where
    // `none` was requested.
    const bool isNone = isHigher && policy == UnusedPolicy::None;
    if (isRetained || (!isNone && !state.selection.isCut(state.graph.entry(x)) && isReachable(x)))
      return GradientSlot{SlotStatus::Grad, zerosFor(x)};
    const UnusedPolicy unused = isHigher && policy == UnusedPolicy::Error ? UnusedPolicy::Zeros : policy;
    if (unused == UnusedPolicy::Error)  // other policies allow a constant y, which a gradient may well be
      if (Error error = checkNotConstant(state.graph, state.request.heads)) return error;
    switch (unused) {
      case UnusedPolicy::None: return GradientSlot{SlotStatus::None, Value()};
      case UnusedPolicy::Zeros: return GradientSlot{SlotStatus::Zeros, zerosFor(x)};
      case UnusedPolicy::Error: break;
    }
    return Failure(ErrorKind::Unreachable, "x number " + Twine(i + 1) + ", '" + state.graph.listedName(x) +
                                               "', is not reached from any output that is differentiated")
        .at(x.node)
        .remedy(Remedy::ChooseUnused,
                "UnusedPolicy::None leaves it out, UnusedPolicy::Zeros gives it a gradient of zeros");
  }

  bool isReachable(Value x) {
    const bool isControlEnough = state.options.controlOnly == ControlOnlyPolicy::Zeros;
    if (ancestors.empty()) ancestors = state.selection.connectedTo(state.graph, state.request.heads, isControlEnough);
    return ancestors[x.node.value];
  }

  Value zerosFor(Value x) {
    NodeId n = state.builder.addKind(*state.ctx.ops.wellKnown.zerosLike, {x}, state.sums.originOf(x.node));
    if (state.fluid) state.fluid->nameGradient(x, Value{n});
    else state.namer.name(n, state.builder.name(x.node), x.index ? "_zero_grad_out" + utostr(x.index) : "_zero_grad");
    ++state.stats.numZeros;
    return Value{n};
  }

  // No two graph outputs share a buffer, none is an input or forward value (COPY-01, -03, -06). NAME-04: numbered per
  // entry.
  Value distinct(Value gradient) {
    GraphBuilder &builder = state.builder;
    const OpDef *copy = state.ctx.ops.wellKnown.copy;
    uint32_t &uses = useCounts[{gradient.node.value, gradient.index}];
    const bool isForeign = gradient.node.value < state.numBase || builder.kind(gradient.node).isVariable();
    if ((uses++ == 0 && !isForeign) || !copy) return gradient;  // COPY-02
    NodeId n = builder.addKind(*copy, {gradient}, state.sums.originOf(gradient.node));
    if (!state.fluid)
      state.namer.name(n, builder.name(gradient.node), "_" + utostr(isForeign ? uses : uses - 1) + "_copy");
    ++state.stats.numCopies;
    return Value{n};
  }

  GradientState &state;
  const bool isHigher;
  const UnusedPolicy policy;
  BitVector ancestors;
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> useCounts;  // gradient entry → times it became a head
};

Error answerRequest(Emission &e) {
  e.result.seedNames = std::move(e.state.seedNames);
  AnswerMaker maker(e.state);
  if (Error error = maker.answer(e.state.request.wrt, false, e.result.wrt)) return error;
  return maker.answer(e.state.request.retained, true, e.result.retained);
}

// COPY-05: a forward head that is listed again is a copy, so that no two outputs share a buffer.
void listForwardHeads(GradientState &state, SmallVectorImpl<Value> &heads) {
  const OpDef *copy = state.ctx.ops.wellKnown.copy;
  if (state.graph.heads().size() == 1) return heads.push_back(state.graph.heads()[0]);
  DenseMap<uint32_t, uint32_t> timesListed;
  for (Value head : state.graph.heads()) {
    uint32_t &count = timesListed[state.graph.entry(head).value];
    if (count++ == 0 || !copy) {
      heads.push_back(head);
      continue;
    }
    NodeId n = state.builder.addKind(*copy, {head}, state.sums.originOf(head.node));
    state.namer.name(n, state.builder.name(head.node), "_copy" + utostr(count - 2));
    heads.push_back(Value{n});
  }
}

Error listHeads(Emission &e) {
  if (!e.state.options.gradientOnly) listForwardHeads(e.state, e.heads);
  for (const std::vector<GradientSlot> *slots : {&e.result.wrt, &e.result.retained})
    for (const GradientSlot &slot : *slots)
      if (slot.value.isValid()) e.heads.push_back(slot.value);
  return Error::success();
}

// Lists the gradients that the walk left at the entries of the base, last node first, then the heads, some of them
// copies.
Error listGradients(Emission &e) {
  const GradientState &state = e.state;
  if (!state.fluid && !state.options.listener) return Error::success();
  for (uint32_t n = state.numBase; n-- > 0;)
    for (uint32_t o = 0; o < state.graph.numOutputs(NodeId(n)); ++o) {
      Value entry{NodeId(n), static_cast<uint16_t>(o), 0};
      if (Value gradient = state.sums.first(state.sums.slot(entry)); gradient.isValid())
        e.gradients.push_back({gradient, entry});
    }
  auto addHeads = [&](ArrayRef<GradientSlot> slots, ArrayRef<GradientTarget> targets) {
    for (auto [slot, target] : zip(slots, targets))
      if (slot.value.isValid()) e.gradients.push_back({slot.value, target.x});
  };
  addHeads(e.result.wrt, state.request.wrt);
  addHeads(e.result.retained, state.request.retained);
  return Error::success();
}

Error nameFluid(Emission &e) {
  std::optional<FluidNames> &fluid = e.state.fluid;
  if (!fluid) return Error::success();
  for (bool isFirst : {true, false})
    for (const GradientOf &pair : e.gradients)
      if ((pair.gradient.index == 0) == isFirst) fluid->nameGradient(pair.entry, pair.gradient);
  fluid->nameRest();
  return Error::success();
}

Error freezeGraph(Emission &e) {
  GradientState &state = e.state;
  state.stats.numGenerated = state.builder.numNodes() - state.numBase;
  Expected<Frozen> frozen = state.selection.hasMutations() ? freezeInOrder(std::move(state.builder), state.graph,
                                                                           e.heads, state.options.overwritten)
                                                           : std::move(state.builder).freeze(e.heads, {});
  if (!frozen) return frozen.takeError();
  e.frozen = std::move(*frozen);
  return Error::success();
}

Error inheritAttrs(Emission &e) {
  if (!hasInheritedAttrs(e.state.graph)) return Error::success();
  Expected<Frozen> frozen = withInheritedAttrs(e.state.ctx, std::move(e.frozen), e.state.numBase);
  if (!frozen) return frozen.takeError();
  e.frozen = std::move(*frozen);
  return Error::success();
}

Error callListener(Emission &e) {
  if (GradientListener *listener = e.state.options.listener)
    notifyListener(*listener, e.frozen, e.state.numBase, e.gradients, e.state.ctx.ops.wellKnown);
  return Error::success();
}

// Forward ids change if saved copies or copied heads are among the forward nodes, and if only gradients are emitted.
Error noteForwardPart(Emission &e) {
  const Frozen &frozen = e.frozen;
  const uint32_t numBase = e.state.numBase;
  ArrayRef<NodeId> ids = ArrayRef(frozen.newId).take_front(numBase);
  auto isOwnId = [](auto row) { return row.value().value == row.index(); };
  const bool isSame = all_of(enumerate(ids), isOwnId);
  if (!isSame) e.result.forwardIds = ids.vec();
  if (e.state.options.gradientOnly) return Error::success();
  const NodeId last = isSame ? NodeId(numBase - 1) : *max_element(ids);
  e.state.stats.numForwardNodes = last.value + 1;
  e.state.stats.numForwardEntries = frozen.graph.firstEntry(last).value + frozen.graph.numOutputs(last);
  return Error::success();
}

Error renumberAnswers(Emission &e) {
  for (std::vector<GradientSlot> *slots : {&e.result.wrt, &e.result.retained})
    for (GradientSlot &slot : *slots)
      if (slot.value.isValid()) slot.value = e.frozen(slot.value);
  for (Value entry : e.state.request.taps) {
    const NodeId tap = e.state.sums.tapOf(entry);
    e.result.taps.push_back(tap.isValid() ? e.frozen.newId[tap.value] : tap);
  }
  return Error::success();
}

// The base's table, for nodes that are still there.
GraphTable carriedTable(const GradientState &state, const Frozen &frozen) {
  GraphTable table = state.graph.table();
  table.gradient.reset();
  table.forgetEntries();
  remap(table, {ArrayRef(frozen.newId).take_front(state.numBase), state.graph.columns().entryBegin}, frozen.graph);
  // New heads update nothing.
  if (state.options.gradientOnly) table.updates.reset();
  else if (table.updates) table.updates->parameterOf.resize(frozen.graph.heads().size());
  return table;
}

void addOpenPairs(ArrayRef<HeadPair> open, const Frozen &frozen, std::vector<HeadPair> &pairs) {
  for (const HeadPair &pair : open) {
    const HeadPair now{pair.position, frozen(pair.y), pair.seed.isValid() ? frozen(pair.seed) : Value()};
    if (now.y.isValid() && now.seed.isValid() == pair.seed.isValid()) pairs.push_back(now);
  }
}

void addConstants(const GradientRequest &request, const Frozen &frozen, std::vector<Value> &constants) {
  DenseSet<uint32_t> seen;
  for (Value v : constants) seen.insert(frozen.graph.entry(v).value);
  for (const std::vector<Value> *list : {&request.noGrad, &request.stop})
    for (Value v : *list) {
      const Value now = frozen(v);
      if (!now.isValid() || frozen.graph.isVariable(now.node) || !seen.insert(frozen.graph.entry(now).value).second)
        continue;
      constants.push_back(Value{now.node, now.index, 0});
    }
}

Error attachTable(Emission &e) {
  GraphTable table = carriedTable(e.state, e.frozen);
  table.gradient = gradientTableOf(e.state, e.result, e.frozen.newId);
  addOpenPairs(e.state.openPairs, e.frozen, table.headPairs);
  addConstants(e.state.request, e.frozen, table.constants);
  e.frozen.graph = e.frozen.graph.withTable(std::move(table));
  return Error::success();
}

using Step = Error (*)(Emission &);
constexpr Step kSteps[] = {answerRequest, listHeads,    listGradients,   nameFluid,       freezeGraph,
                           inheritAttrs,  callListener, noteForwardPart, renumberAnswers, attachTable};

// If the base graph has mistakes, so may the emitted one.
[[maybe_unused]] bool isSound(const Emission &e) {
  auto hasMistakes = [](const Graph &graph) { return errorToBool(verifyGraph(graph, 1)); };
  const bool isFrozen = !e.frozen.newId.empty();
  return !isFrozen || !hasMistakes(e.frozen.graph) || hasMistakes(e.state.graph);
}

}  // namespace

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

Expected<GradientResult> finishGradient(GradientState &state) {
  Emission emission{state};
  for (Step step : kSteps) {
    if (Error error = step(emission)) return error;
    assert(isSound(emission) && "a step left a graph that the verifier rejects");
  }
  emission.result.stats = state.stats;
  emission.result.graph = std::move(emission.frozen.graph);
  return std::move(emission.result);
}

}  // namespace gradc
