// The walk of the gradient pass (§3): visits nodes backwards and applies each one's rule, or walks through its
// decomposition. Tested by tests/passes/gradient/gradient_test.cc
#include "passes/gradient/walk.h"

#include "passes/gradient/walk_order.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class BackwardWalk {
 public:
  explicit BackwardWalk(GradientState &state) : state(state), builder(state.builder), sums(state.sums) {}

  Error run() {
    if (state.order > 1) {
      for (NodeId n : walkOrder(state.graph, state.ctx.ops.wellKnown))
        if (Error error = visit(n)) return error;
      return Error::success();
    }
    for (uint32_t n = state.top + 1; n-- > 0;)
      if (Error error = visit(NodeId(n))) return error;
    return Error::success();
  }

 private:
  Error visit(NodeId n) {
    if (state.graph.isVariable(n) || !hasContribution(n)) return Error::success();
    uint32_t first = builder.numNodes();
    if (Error error = differentiate(n)) return error;
    if (!state.fluid) state.namer.nameBackward(first, builder.numNodes(), n);
    return Error::success();
  }

  bool hasContribution(NodeId n) const {
    uint32_t slot = sums.slot(Value{n});
    for (uint32_t o = 0, count = builder.numOutputs(n); o < count; ++o)
      if (!sums.isEmpty(slot + o)) return true;
    return false;
  }

  // Whether a contribution may enter. Stopped entries receive contributions but do not pass them on.
  bool receives(Value v) const {
    const bool isExtra = v.node.value >= state.numBase;
    return isExtra ? carriesExtra[v.node.value - state.numBase] : state.selection.carries(state.graph.entry(v));
  }

  /// Turns the contributions of a node's outputs into contributions of its inputs.
  Error differentiate(NodeId n) {
    const NodeKind &kind = builder.kind(n);
    SmallVector<bool, 8> wanted;
    bool wantsAny = false;
    ArrayRef<Value> inputs = builder.inputs(n);
    const bool hasBodies = kind.flow && n.value < state.numBase;
    const FlowGradient *saved = hasBodies ? flowOf(n) : nullptr;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool isUseful = !hasBodies || (saved && saved->wanted[i]);
      wanted.push_back(isUseful && Selection::flows(kind, i) && receives(inputs[i]));
      wantsAny |= wanted.back();
    }
    if (!wantsAny && state.options.reach == ReachPolicy::Ignore) return Error::success();
    SmallVector<Value, 4> heads;
    if (!aggregateOutputs(n, heads)) return Error::success();
    if (const std::optional<StringRef> from = kind.attrs.get(kLoweredFromMark); from && !areZero(heads))
      return hasLostGradient(n, *from);
    if (kind.op->gradient) return applyRule(n, heads, wanted);
    if (kind.op->isDifferentiable()) return applyDecomposition(n, heads);
    if (kind.op->flags.hasNoGradient || areZero(heads)) return Error::success();  // ZERO-04
    return noGradient(n, heads);
  }

  // False when every head gradient is structurally zero, or stopped.
  bool aggregateOutputs(NodeId n, SmallVectorImpl<Value> &heads) {
    bool isLive = false;
    uint32_t count = builder.numOutputs(n);
    for (uint32_t o = 0; o < count; ++o) {
      Value entry{n, static_cast<uint16_t>(o), 0};
      bool isStopped = n.value < state.numBase && state.selection.isStopped(state.graph.entry(entry));
      heads.push_back(isStopped ? Value() : sums.aggregate(entry));
      isLive |= heads.back().isValid();
    }
    return isLive;
  }

  // Whether all are zeros, which ZeroPolicy::Keep admits.
  bool areZero(ArrayRef<Value> heads) const {
    return all_of(heads, [&](Value head) { return !head.isValid() || sums.isZero(head); });
  }

  /// The outputs that a gradient arrives at, as entries are named: `t,t:1`.
  std::string reachedOutputs(NodeId n, ArrayRef<Value> heads) const {
    std::string names;
    for (size_t o = 0; o < heads.size(); ++o) {
      const bool isReached = heads[o].isValid();
      if (isReached && !names.empty()) names += ',';
      if (isReached) names += builder.name(n);
      if (isReached && o > 0) names += ":" + std::to_string(o);
    }
    return names;
  }

  Error noGradient(NodeId n, ArrayRef<Value> heads) {
    const NodeKind &kind = builder.kind(n);
    NodeId user = sums.originOf(n);
    if (kind.op->flags.isOpaque)
      return Failure(ErrorKind::UnknownOp, "the gradient pass cannot handle node '" + builder.name(n) +
                                               "': the operator '" + kind.spelling + "' is unknown")
          .at(user)
          .remedy(Remedy::StopGradient, "stop the gradient there, or request other variables",
                  reachedOutputs(n, heads));
    return Failure(ErrorKind::NotDifferentiable, "operator '" + kind.spelling + "' of node '" + builder.name(n) +
                                                     "' has no gradient registered, and the gradient passes through it")
        .at(user)
        .remedy(Remedy::StopGradient, "stop the gradient there, or request other variables", reachedOutputs(n, heads));
  }

  // Its operator has the values of the one that it replaces, but not the gradient.
  Error hasLostGradient(NodeId n, StringRef from) {
    return Failure(ErrorKind::NotDifferentiable, "the gradient passes through node '" + builder.name(n) + "' (" +
                                                     builder.kind(n).spelling + "), which was lowered from " + from +
                                                     " and lacks the gradient that " + from + " defines")
        .at(sums.originOf(n))
        .note("differentiate the graph before it is lowered");
  }

  Error applyRule(NodeId n, ArrayRef<Value> heads, ArrayRef<bool> wanted) {
    current = n;
    std::vector<BodyGradient> emitted;
    if (builder.kind(n).flow && n.value >= state.numBase) {
      Expected<std::vector<BodyGradient>> made = saveEmitted(n, heads, wanted);
      if (!made) return made.takeError();
      emitted = std::move(*made);
    }
    HeadGradients given{heads, [](void *self, size_t o) { return static_cast<BackwardWalk *>(self)->zeroHead(o); },
                        this, emitted.empty() ? bodiesOf(n) : ArrayRef<BodyGradient>(emitted)};
    GradRule rule(builder, n, sums.originOf(n), given, wanted);
    rule.setTypes(typeLookup());
    rule.setForward(forwardOf(n));
    builder.kind(n).op->gradient(rule);
    if (rule.hasFailed())
      return amend(rule.takeFailure(), [&](GradcError &info) { info.place.node = sums.originOf(n); });
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      if (rule.slot(i) == GradRule::Slot::Unanswered) return badRule(n, i);
      if (rule.slot(i) != GradRule::Slot::Gradient) continue;
      if (!rule.gradient(i).isValid()) return badRule(n, i);
      if (!isScaled(n)) {
        sums.push(builder.inputs(n)[i], rule.gradient(i));
        continue;
      }
      Expected<Value> scaled = state.scaled(rule.gradient(i), sums.originOf(n));
      if (!scaled) return scaled.takeError();
      sums.push(builder.inputs(n)[i], *scaled);
    }
    return Error::success();
  }

  bool isScaled(NodeId n) const {
    const NodeKind &kind = builder.kind(n);
    return state.options.lossScale != 1 && kind.op->ignoresHead(kind);
  }

  const FlowGradient *flowOf(NodeId n) const {
    auto at = llvm::lower_bound(state.flows, n, [](const FlowGradient &flow, NodeId key) { return flow.node < key; });
    return at != state.flows.end() && at->node == n ? at : nullptr;
  }

  ArrayRef<BodyGradient> bodiesOf(NodeId n) const {
    const FlowGradient *flow = flowOf(n);
    return flow ? ArrayRef<BodyGradient>(flow->bodies) : ArrayRef<BodyGradient>();
  }

  // Makes a loop that a decomposition emitted also yield what its gradient reads. Only now is it known which gradients
  // are given, and nothing differentiates the added outputs.
  Expected<std::vector<BodyGradient>> saveEmitted(NodeId n, ArrayRef<Value> heads, ArrayRef<bool> isWanted) {
    BitVector wanted(static_cast<unsigned>(isWanted.size())), live(static_cast<unsigned>(heads.size()));
    for (unsigned i = 0; i < wanted.size(); ++i)
      if (isWanted[i]) wanted.set(i);
    for (unsigned o = 0; o < live.size(); ++o)
      if (heads[o].isValid()) live.set(o);
    const SmallVector<const Inference *, 3> nothing(builder.kind(n).bodies.size(), nullptr);
    auto within = [&](Error error, uint32_t b) {
      return amend(std::move(error), [&](GradcError &info) {
        info.message = ("operator '" + builder.kind(n).spelling + "' > " + bodyName(builder.kind(n).bodies.size(), b) +
                        " > " + info.message)
                           .str();
        info.place = {};
        info.place.node = sums.originOf(n);
      });
    };
    Expected<SavingNode> made = saveBodies(state.ctx, builder.kindHandle(n), wanted, live, BitVector(live.size()),
                                           nothing, state.options, *state.bodies, within);
    if (!made) return made.takeError();
    builder.setKind(n, builder.kindId(made->kind));
    return std::move(made->bodies);
  }

  Error badRule(NodeId n, size_t input) {
    return Failure(ErrorKind::GradientNull, "the gradient rule of operator '" + builder.kind(n).op->name +
                                                "' sets no gradient of input " + Twine(input) + " of node '" +
                                                builder.name(n) + "'")
        .at(sums.originOf(n))
        .note("this is a mistake in the operator's definition, not in the graph");
  }

  // The forward node of a fused gradient operator in the base; invalid for nodes of decompositions.
  NodeId forwardOf(NodeId n) const {
    if (n.value >= state.numBase || !state.graph.op(n)->flags.isBackward) return NodeId();
    ArrayRef<NodeId> deps = state.graph.controlDeps(n);
    return deps.empty() ? NodeId() : deps.front();
  }

  // Makes a value of a structurally zero head gradient (ZERO-01). That of a hidden output is never read.
  Value zeroHead(size_t output) {
    const WellKnownOps &ops = state.ctx.ops.wellKnown;
    ++state.stats.numZeros;
    const bool isHidden = output >= builder.kind(current).numVisible;
    Value y{current, static_cast<uint16_t>(output), 0};
    NodeId n = isHidden ? builder.addKind(*ops.zerosPlaceholder, {}, sums.originOf(current))
                        : builder.addKind(*ops.zerosLike, {y}, sums.originOf(current));
    if (state.fluid) state.fluid->nameZero(y, n);
    else if (state.namer.style() != NamingStyle::Unique)
      state.namer.name(n, isHidden ? "zeros_without_dtype" : "zeros_like", "");
    else if (current.value < state.numBase) state.namer.name(n, builder.name(current), "_zero_head_" + utostr(output));
    return Value{n};
  }

  // The gradient of a fused operator is the gradient of its decomposition: the decomposition's nodes are
  // appended, the head gradients move to its outputs, and its nodes are differentiated at once, last first. Depth is
  // bounded by how operators are layered, not by the graph.
  Error applyDecomposition(NodeId n, ArrayRef<Value> heads) {
    if (numOpen == kMaxDecompositions) return endless(n);
    if (numOpen == 0) {
      outermost = n;
      numBefore = builder.numNodes();
    } else if (builder.numNodes() - numBefore > kMaxDecomposedNodes) {
      return Failure(ErrorKind::TooLarge,
                     outermostDecomposition() + " has more than " + Twine(kMaxDecomposedNodes) + " nodes")
          .at(sums.originOf(n));
    }
    ++numOpen;
    Error error = decompose(n, heads);
    --numOpen;
    return error;
  }

  Error badDecomposition(NodeId n, size_t output) {
    return Failure(ErrorKind::GradientNull, "the decomposition of operator '" + builder.kind(n).op->name +
                                                "' sets no value for output " + Twine(output) + " of node '" +
                                                builder.name(n) + "'")
        .at(sums.originOf(n))
        .note("this is a mistake in the operator's definition, not in the graph");
  }

  std::string outermostDecomposition() const {
    return ("the decomposition of operator '" + builder.kind(outermost).op->name + "' of node '" +
            builder.name(outermost) + "'")
        .str();
  }

  Error endless(NodeId n) {
    return Failure(ErrorKind::GradientCount, outermostDecomposition() + " does not end: '" + builder.kind(n).op->name +
                                                 "' remains after " + Twine(kMaxDecompositions) + " levels")
        .at(sums.originOf(n))
        .note("this is a mistake in the operator's definition, not in the graph");
  }

  Error decompose(NodeId n, ArrayRef<Value> heads) {
    SmallVector<bool, 4> wanted;
    for (Value head : heads) wanted.push_back(head.isValid());
    DecomposeRule rule(builder, n, sums.originOf(n));
    rule.setForward(forwardOf(n));
    rule.setWanted(wanted);
    rule.setShapes({[](void *self, Value v) { return static_cast<BackwardWalk *>(self)->shapeOf(v); }, this});
    rule.setTypes(typeLookup());
    uint32_t first = builder.numNodes();
    builder.kind(n).op->decompose(rule);
    if (rule.hasFailed())
      return amend(rule.takeFailure(), [&](GradcError &info) { info.place.node = sums.originOf(n); });
    for (auto [later, earlier] : rule.waits()) builder.addControlDep(later, earlier);
    uint32_t last = builder.numNodes();
    admit(first, last);
    for (size_t o = 0; o < heads.size(); ++o) {
      if (!heads[o].isValid()) continue;
      const Value output = rule.output(o);
      if (!output.isValid()) return badDecomposition(n, o);
      if (receives(output)) sums.push(output, heads[o]);
    }
    for (uint32_t m = last; m-- > first;)
      if (!builder.kind(NodeId(m)).isVariable() && carriesExtra[m - state.numBase] && hasContribution(NodeId(m)))
        if (Error error = differentiate(NodeId(m))) return error;
    return Error::success();
  }

  // Only shapes of the base's entries are known, which is enough for rules that need a rank or size of an operand.
  ShapeRef shapeOf(Value v) const {
    const Inference *known = state.options.inference;
    return known && v.node.value < state.numBase ? known->shapeOf(state.graph.entry(v)) : ShapeRef();
  }

  // The same for types.
  DType typeOf(Value v) const {
    const Inference *known = state.options.inference;
    return known && v.node.value < state.numBase ? known->dtype[state.graph.entry(v)] : DType::Unknown;
  }
  TypeLookup typeLookup() {
    return {[](void *self, Value v) { return static_cast<BackwardWalk *>(self)->typeOf(v); }, this};
  }

  // Adds slots and carrying marks for nodes [first, last) of a decomposition.
  void admit(uint32_t first, uint32_t last) {
    sums.addSlots(first, last);
    carriesExtra.resize(last - state.numBase);
    for (uint32_t m = first; m < last; ++m) {
      const NodeKind &kind = builder.kind(NodeId(m));
      if (isMarkedStopped(kind)) continue;
      ArrayRef<Value> inputs = builder.inputs(NodeId(m));
      for (size_t i = 0; i < inputs.size() && !carriesExtra[m - state.numBase]; ++i)
        if (Selection::flows(kind, i) && receives(inputs[i])) carriesExtra.set(m - state.numBase);
    }
  }

  GradientState &state;
  GraphBuilder &builder;
  Accumulators &sums;
  NodeId current;          // whose rule runs
  NodeId outermost;        // whose decomposition is being differentiated
  uint32_t numOpen = 0;    // decompositions within it, itself included
  uint32_t numBefore = 0;  // nodes when the outermost decomposition began
  BitVector carriesExtra;  // by builder node beyond the base: all outputs carry
};

}  // namespace

Error walkBackwards(GradientState &state) { return BackwardWalk(state).run(); }

}  // namespace gradc
