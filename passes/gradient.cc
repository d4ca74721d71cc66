// The driver of reverse-mode differentiation. Phases: check the request, select what carries, make head gradients, walk
// backwards applying rules, collect the asked gradients, freeze. Tested by tests/gradient_test.cc
#include "passes/gradient.h"

#include "passes/accumulate.h"
#include "passes/emitted_nodes.h"
#include "passes/gradient_checks.h"
#include "passes/gradient_table.h"
#include "passes/head_checks.h"
#include "passes/order_mutation.h"
#include "passes/select.h"
#include "passes/walk_order.h"

#include "ir/error.h"
#include "ir/grad_rule.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Differentiator {
 public:
  Differentiator(Context &ctx, const Graph &graph, const GradientRequest &request, const GradientOptions &options)
      : ctx(ctx), graph(graph), request(request), options(options), builder(ctx, graph),
        selection(graph, request, options), namer(builder, graph, options.naming),
        sums(builder, graph, namer, options, stats), numBase(graph.numNodes()) {
    if (options.naming != NamingStyle::Fluid) return;
    fluid.emplace(builder, graph, options.order);
    sums.setFluidNames(*fluid);
  }

  Expected<GradientResult> run() {
    if (Error error = makeHeads()) return error;
    if (Error error = walk()) return error;
    if (Error error = collect(request.wrt, wrt)) return error;
    if (Error error = collect(request.retained, retained)) return error;
    return finish();
  }

 private:
  // ---- head gradients (§4)

  Error makeHeads() {
    builder.reserve(size_t{numBase} * 2 + 64, size_t{graph.numEntries()} * 6, size_t{numBase} * 32);
    for (size_t i = 0; i < request.heads.size(); ++i) {
      const GradientHead &head = request.heads[i];
      Expected<Value> seed = seedOf(head, i);
      if (!seed) return seed.takeError();
      EntryId e = graph.entry(head.y);
      if (selection.isCut(e)) continue;
      sums.push(head.y, *seed);
      top = std::max(top, head.y.node.value);
    }
    return Error::success();
  }

  Expected<Value> seedOf(const GradientHead &head, size_t i) {
    seedNames.emplace_back();
    const WellKnownOps &ops = ctx.ops.wellKnown;
    if (head.seed) {
      keepOpen({static_cast<uint32_t>(i), head.y, *head.seed});
      if (graph.isVariable(head.seed->node)) seedNames.back() = graph.name(head.seed->node).str();
      return *head.seed;
    }
    std::string name = head.seedName;
    if (name.empty() && options.headPolicy == HeadPolicy::Input) name = "_head_grad_" + std::to_string(i);
    if (name.empty()) {
      if (options.headPolicy == HeadPolicy::Scalar) keepOpen({static_cast<uint32_t>(i), head.y, Value()});
      NodeId ones = builder.addKind(cantFail(ctx.kind(*ops.onesLike, AttrsId(0))), {head.y}, sums.originOf(head.y.node));
      if (!fluid) namer.name(ones, "_head_grad_" + std::to_string(i), "");
      return Value{ones};
    }
    Value variable = variableNamed(name);
    seedNames.back() = builder.name(variable.node).str();
    openPairs.push_back({static_cast<uint32_t>(i), head.y, variable});
    // The operand y gives the variable its shape, whatever else reads it (NAME-02).
    NodeId like = builder.addKind(cantFail(ctx.kind(*ops.identityLike, AttrsId(0))), {variable, head.y},
                                  sums.originOf(head.y.node));
    if (!fluid) namer.name(like, builder.name(variable.node).str(), "_id");
    return Value{like};
  }

  // H-03, H-04: what cannot be checked for want of shapes is left to a later inference.
  void keepOpen(HeadPair pair) {
    if (!isSettled(graph, options.inference, pair)) openPairs.push_back(pair);
  }

  // Two y given the same seed name share one variable; two shapes behind it are found by inference.
  Value variableNamed(const std::string &name) {
    for (auto &[known, value] : headVariables)
      if (known == name) return value;
    NodeId n = builder.addKind(ctx.variableKind(AttrsId(0)), {}, NodeId());
    namer.name(n, name, "");
    if (fluid) fluid->take(name);
    headVariables.push_back({name, Value{n}});
    return Value{n};
  }

  // ---- the walk (§3)

  Error walk() {
    if (options.order > 1) {
      for (NodeId n : walkOrder(graph))
        if (Error error = visit(n)) return error;
      return Error::success();
    }
    for (uint32_t n = top + 1; n-- > 0;)
      if (Error error = visit(NodeId(n))) return error;
    return Error::success();
  }

  Error visit(NodeId n) {
    if (graph.isVariable(n) || !hasContribution(n)) return Error::success();
    uint32_t first = builder.numNodes();
    if (Error error = differentiate(n)) return error;
    if (!fluid) namer.nameBackward(first, builder.numNodes(), n);
    return Error::success();
  }

  bool hasContribution(NodeId n) const {
    uint32_t slot = sums.slot(Value{n});
    for (uint32_t o = 0, count = builder.numOutputs(n); o < count; ++o)
      if (!sums.isEmpty(slot + o)) return true;
    return false;
  }

  // Whether a contribution may enter: stopped entries receive theirs and keep them.
  bool receives(Value v) const {
    return v.node.value >= numBase ? carriesExtra[v.node.value - numBase] : selection.carries(graph.entry(v));
  }

  /// Turns the contributions of a node's outputs into contributions of its inputs.
  Error differentiate(NodeId n) {
    const NodeKind &kind = builder.kind(n);
    SmallVector<bool, 8> wanted;
    bool wantsAny = false;
    ArrayRef<Value> inputs = builder.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      wanted.push_back(Selection::flows(kind, i) && receives(inputs[i]));
      wantsAny |= wanted.back();
    }
    if (!wantsAny && options.reach == ReachPolicy::Ignore) return Error::success();
    SmallVector<Value, 4> heads;
    if (!aggregateOutputs(n, heads)) return Error::success();
    if (kind.op->gradient) return applyRule(n, heads, wanted);
    if (kind.op->decompose) return applyDecomposition(n, heads);
    if (kind.op->flags.hasNoGradient || areZero(heads)) return Error::success();  // ZERO-04
    return noGradient(n);
  }

  // False when every head gradient is structurally zero, or stopped.
  bool aggregateOutputs(NodeId n, SmallVectorImpl<Value> &heads) {
    bool isLive = false;
    uint32_t count = builder.numOutputs(n);
    for (uint32_t o = 0; o < count; ++o) {
      Value entry{n, static_cast<uint16_t>(o), 0};
      bool isStopped = n.value < numBase && selection.isStopped(graph.entry(entry));
      heads.push_back(isStopped ? Value() : sums.aggregate(entry));
      isLive |= heads.back().isValid();
    }
    return isLive;
  }

  // Zeros that ZeroPolicy::Keep let in.
  bool areZero(ArrayRef<Value> heads) const {
    return all_of(heads, [&](Value head) { return !head.isValid() || sums.isZero(head); });
  }

  Error noGradient(NodeId n) {
    const NodeKind &kind = builder.kind(n);
    NodeId user = sums.originOf(n);
    if (kind.op->flags.isOpaque)
      return Failure(ErrorKind::UnknownOp, "the gradient pass cannot pass node '" + builder.name(n) +
                                               "': the operator '" + kind.spelling + "' is unknown")
          .at(user)
          .note("stop the gradient there with --stop " + builder.name(n) + ", or ask for other variables");
    return Failure(ErrorKind::NotDifferentiable, "operator '" + kind.spelling + "' of node '" + builder.name(n) +
                                                     "' has no gradient registered, and the gradient passes through it")
        .at(user)
        .note("stop the gradient there with --stop " + builder.name(n) + ", or ask for other variables");
  }

  Error applyRule(NodeId n, ArrayRef<Value> heads, ArrayRef<bool> wanted) {
    current = n;
    HeadGradients given{heads, [](void *self, size_t o) { return static_cast<Differentiator *>(self)->zeroHead(o); },
                        this};
    GradRule rule(builder, n, sums.originOf(n), given, wanted);
    builder.kind(n).op->gradient(rule);
    if (rule.hasFailed()) return amend(rule.takeFailure(), [&](GradcError &info) { info.place.node = sums.originOf(n); });
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      if (rule.slot(i) == GradRule::Slot::Unanswered) return badRule(n, i);
      if (rule.slot(i) != GradRule::Slot::Gradient) continue;
      if (!rule.gradient(i).isValid()) return badRule(n, i);
      sums.push(builder.inputs(n)[i], rule.gradient(i));
    }
    return Error::success();
  }

  Error badRule(NodeId n, size_t input) {
    return Failure(ErrorKind::GradientNull, "the gradient rule of operator '" + builder.kind(n).op->name +
                                                "' says nothing about input " + Twine(input) + " of node '" +
                                                builder.name(n) + "'")
        .at(sums.originOf(n))
        .note("this is a mistake in the operator's definition, not in the graph");
  }

  // A head gradient that is structurally zero, as a value (ZERO-01). That of a hidden output is never read.
  Value zeroHead(size_t output) {
    const WellKnownOps &ops = ctx.ops.wellKnown;
    ++stats.numZeros;
    const bool isHidden = output >= builder.kind(current).numVisible;
    Value y{current, static_cast<uint16_t>(output), 0};
    NodeId n = isHidden ? builder.addKind(cantFail(ctx.kind(*ops.zerosPlaceholder, AttrsId(0))), {}, sums.originOf(current))
                        : builder.addKind(cantFail(ctx.kind(*ops.zerosLike, AttrsId(0))), {y}, sums.originOf(current));
    if (fluid)
      fluid->nameZero(y, n);
    else if (namer.style() != NamingStyle::Unique)
      namer.name(n, isHidden ? "zeros_without_dtype" : "zeros_like", "");
    else if (current.value < numBase)
      namer.name(n, builder.name(current), "_zero_head_" + utostr(output));
    return Value{n};
  }

  // The gradient of a fused operator is the gradient of its decomposition: the decomposition's nodes are appended,
  // the head gradients move to its outputs, and its nodes are differentiated at once, last first. Depth is bounded by
  // how operators are layered, not by the graph.
  Error applyDecomposition(NodeId n, ArrayRef<Value> heads) {
    SmallVector<bool, 4> wanted;
    for (Value head : heads) wanted.push_back(head.isValid());
    DecomposeRule rule(builder, n, sums.originOf(n));
    rule.setWanted(wanted);
    uint32_t first = builder.numNodes();
    builder.kind(n).op->decompose(rule);
    if (rule.hasFailed()) return amend(rule.takeFailure(), [&](GradcError &info) { info.place.node = sums.originOf(n); });
    uint32_t last = builder.numNodes();
    admit(first, last);
    for (size_t o = 0; o < heads.size(); ++o) {
      Value output = rule.output(o);
      if (heads[o].isValid() && output.isValid() && receives(output)) sums.push(output, heads[o]);
    }
    for (uint32_t m = last; m-- > first;)
      if (!builder.kind(NodeId(m)).isVariable() && carriesExtra[m - numBase] && hasContribution(NodeId(m)))
        if (Error error = differentiate(NodeId(m))) return error;
    return Error::success();
  }

  // Slots and the carrying mark for nodes [first, last) of a decomposition.
  void admit(uint32_t first, uint32_t last) {
    sums.addSlots(first, last);
    carriesExtra.resize(last - numBase);
    for (uint32_t m = first; m < last; ++m) {
      const NodeKind &kind = builder.kind(NodeId(m));
      ArrayRef<Value> inputs = builder.inputs(NodeId(m));
      for (size_t i = 0; i < inputs.size() && !carriesExtra[m - numBase]; ++i)
        if (Selection::flows(kind, i) && receives(inputs[i])) carriesExtra.set(m - numBase);
    }
  }

  // ---- results (§6, §7)

  Error collect(ArrayRef<GradientTarget> targets, std::vector<GradientSlot> &slots) {
    slots.reserve(targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      Expected<GradientSlot> slot = slotOf(targets, i);
      if (!slot) return slot.takeError();
      slots.push_back(*slot);
    }
    return Error::success();
  }

  Expected<GradientSlot> slotOf(ArrayRef<GradientTarget> targets, size_t i) {
    Value x = targets[i].x;
    if (Value gradient = sums.aggregate(x); gradient.isValid())
      return GradientSlot{SlotStatus::Grad, distinct(gradient)};
    const bool isRetained = targets.data() == request.retained.data();
    // HO-08: from the second order on, what vanishes identically counts as unused where `none` was asked for.
    const bool isNone = options.order > 1 && options.unused == UnusedPolicy::None;
    if (isRetained || (!isNone && !selection.isCut(graph.entry(x)) && isReachable(x)))
      return GradientSlot{SlotStatus::Grad, zerosFor(x)};
    if (options.unused == UnusedPolicy::Error)  // else a constant, as a gradient may well be, is like any unused x
      if (Error error = checkNotConstant(graph, request.heads)) return error;
    switch (options.unused) {
      case UnusedPolicy::None: return GradientSlot{SlotStatus::None, Value()};
      case UnusedPolicy::Zeros: return GradientSlot{SlotStatus::Zeros, zerosFor(x)};
      case UnusedPolicy::Error: break;
    }
    return Failure(ErrorKind::Unreachable, "x number " + Twine(i + 1) + ", '" + graph.listedName(x) +
                                               "', is not reached from any output that is differentiated")
        .at(x.node)
        .note("--unused none leaves it out, --unused zeros gives it a gradient of zeros");
  }

  bool isReachable(Value x) {
    if (ancestors.empty())
      ancestors = selection.connectedTo(graph, request.heads, options.controlOnly == ControlOnlyPolicy::Zeros);
    return ancestors[x.node.value];
  }

  Value zerosFor(Value x) {
    NodeId n = builder.addKind(cantFail(ctx.kind(*ctx.ops.wellKnown.zerosLike, AttrsId(0))), {x}, sums.originOf(x.node));
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
    NodeId n = builder.addKind(cantFail(ctx.kind(*ctx.ops.wellKnown.copy, AttrsId(0))), {gradient},
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
    stats.numForwardNodes = numBase;
    stats.numForwardEntries = graph.numEntries();
    if (fluid) nameFluid();
    Expected<Frozen> frozen = selection.hasMutations()
                                  ? freezeInOrder(std::move(builder), graph, heads, carriedAttrs(graph), options.overwritten)
                                  : std::move(builder).freeze(heads, carriedAttrs(graph));
    if (frozen && hasFollowingAttrs(graph)) frozen = withFollowingAttrs(ctx, std::move(*frozen), numBase);
    if (!frozen) return frozen.takeError();
    if (options.listener) tellListener(*options.listener, *frozen, numBase, gradientEntries());
    GradientResult result;
    if (selection.hasMutations() || hasRepeatedHeads) noteForwardIds(*frozen, result);
    for (std::vector<GradientSlot> *slots : {&wrt, &retained})
      for (GradientSlot &slot : *slots)
        if (slot.value.isValid()) slot.value = (*frozen)(slot.value);
    result.wrt = std::move(wrt);
    result.retained = std::move(retained);
    result.seedNames = std::move(seedNames);
    result.stats = stats;
    result.graph = withGradientTable(graph, frozen->graph, request, options, result, frozen->newId);
    std::vector<HeadPair> pairs = readHeadPairs(graph);
    pairs.insert(pairs.end(), openPairs.begin(), openPairs.end());
    result.graph = withHeadPairs(result.graph, pairs, *frozen);
    return result;
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
      NodeId n = builder.addKind(cantFail(ctx.kind(*ctx.ops.wellKnown.copy, AttrsId(0))), {head}, sums.originOf(head.node));
      namer.name(n, builder.name(head.node), "_copy" + utostr(count - 2));
      heads.push_back(Value{n});
      hasRepeatedHeads = true;
    }
  }

  // Saved copies and copied heads stand among the forward nodes, which then have other ids.
  void noteForwardIds(const Frozen &frozen, GradientResult &result) {
    ArrayRef<NodeId> ids = ArrayRef(frozen.newId).take_front(numBase);
    const bool isSame = all_of(enumerate(ids), [](auto row) { return row.value() == NodeId(static_cast<uint32_t>(row.index())); });
    if (isSame || !ids.back().isValid()) return;
    result.forwardIds = ids.vec();
    stats.numForwardNodes = ids.back().value + 1;
    stats.numForwardEntries = frozen.graph.firstEntry(ids.back()).value + frozen.graph.numOutputs(ids.back());
  }

  Context &ctx;
  const Graph &graph;
  const GradientRequest &request;
  const GradientOptions &options;
  GradientStats stats;
  GraphBuilder builder;
  Selection selection;
  Namer namer;
  Accumulators sums;
  const uint32_t numBase;
  uint32_t top = 0;        // largest id of a y
  bool hasRepeatedHeads = false;
  NodeId current;          // whose rule runs
  BitVector carriesExtra;  // by builder node beyond the base: all outputs carry
  BitVector ancestors;
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> useCounts;  // gradient entry → times it became a head
  std::vector<std::pair<std::string, Value>> headVariables;
  std::vector<HeadPair> openPairs;
  std::optional<FluidNames> fluid;  // NamingStyle::Fluid
  std::vector<std::string> seedNames;
  std::vector<GradientSlot> wrt, retained;
};

}  // namespace

Expected<GradientResult> buildGradient(Context &context, const Graph &graph, const GradientRequest &request,
                                       const GradientOptions &options) {
  Expected<GradientRequest> checked = checkRequest(graph, request, options);
  if (!checked) return checked.takeError();
  return Differentiator(context, graph, *checked, options).run();
}

}  // namespace gradc
