// Which gradients are requested of a body is a fixpoint over its states: a state matters when its gradient can be other
// than zero and contributes to a gradient that is requested. Tested by tests/passes/gradient/loop_gradient_test.cc
#include "passes/gradient/save_values.h"

#include "passes/gradient/body_gradient.h"
#include "passes/gradient/select.h"
#include "passes/inference/backward_link.h"
#include "passes/inference/carry.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/op/hidden_keys.h"

#include "llvm/ADT/BitVector.h"

#include <numeric>

using namespace llvm;

namespace gradc {
namespace {

/// Which gradients flow into and out of one body. Linear in the nodes and edges of the body and in the states.
class BodyReach {
 public:
  BodyReach(const Graph &body, const BodyFlow::Body &ports, const BodyFlow &flow, const Inference *inference,
            const GradientOptions &given)
      : body(body), ports(ports), flow(flow), options(given), inputsOf(flow.operands.size()),
        statesOf(flow.operands.size()), operandAt(body.numNodes(), kNone) {
    options.inference = inference;
    options.reach = ReachPolicy::Ignore;
    nothing = Selection(body, {}, options);
    for (uint32_t i = 0; i < ports.inputs.size(); ++i) {
      inputsOf[ports.operandOf[i]].push_back(i);
      operandAt[ports.inputs[i].value] = ports.operandOf[i];
    }
    for (uint32_t k = 0; k < flow.states.size(); ++k) {
      statesOf[flow.states[k].operand].push_back(k);
      statesAt[entryOf(flow.states[k].head)].push_back(k);
    }
    findReaders();
  }

  /// `wanted` by operand, `live` and `cut` by output of the node; states make the first two grow.
  BodyRequest request(BitVector wanted, BitVector live, const BitVector &cut) const {
    const BitVector carrying = carryingEntries(wanted), read = readNodes(live);
    BodyRequest found;
    for (uint32_t h = 0; h < ports.outputOf.size(); ++h)
      if (live[ports.outputOf[h]] && carrying[entryOf(h)]) found.heads.push_back(h);
    for (uint32_t i = 0; i < ports.inputs.size(); ++i)
      if (wanted[ports.operandOf[i]] && read[ports.inputs[i].value]) found.inputs.push_back(i);
    for (uint32_t operand : ports.operandOf)
      found.isGivenAgain.push_back(flow.operands[operand] != BodyFlow::Operand::State && !flow.isMutated[operand]);
    for (uint32_t o : ports.outputOf)
      found.isReadable.push_back((flow.form != BodyFlow::Form::Loop || flow.isStacked[o]) && !cut[o]);
    return found;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Reader {
    uint32_t node, input;
  };

  uint32_t entryOf(uint32_t head) const { return body.entry(body.heads()[head]).value; }

  void findReaders() {
    readerBegin.assign(body.numEntries() + 1, 0);
    auto forEach = [&](auto note) {
      for (uint32_t n = 0; n < body.numNodes(); ++n)
        for (auto [i, v] : llvm::enumerate(body.inputs(NodeId(n)))) note(body.entry(v).value, n, i);
    };
    forEach([&](uint32_t e, uint32_t, size_t) { ++readerBegin[e + 1]; });
    std::partial_sum(readerBegin.begin(), readerBegin.end(), readerBegin.begin());
    readers.resize(readerBegin.back());
    std::vector<uint32_t> next = readerBegin;
    forEach([&](uint32_t e, uint32_t n, size_t i) { readers[next[e]++] = {n, static_cast<uint32_t>(i)}; });
  }

  // By entry: whether a wanted input reaches it. A state is wanted if one reaches its next value.
  BitVector carryingEntries(BitVector &wanted) const {
    BitVector carrying(body.numEntries());
    std::vector<uint32_t> open;
    auto reach = [&](uint32_t e) {
      if (carrying[e] || nothing.isCut(EntryId(e))) return;
      carrying.set(e);
      open.push_back(e);
    };
    auto reachInputs = [&](uint32_t operand) {
      for (uint32_t i : inputsOf[operand]) reach(body.firstEntry(ports.inputs[i]).value);
    };
    for (unsigned operand : wanted.set_bits()) reachInputs(operand);
    while (!open.empty()) {
      const uint32_t e = open.back();
      open.pop_back();
      for (uint32_t at = readerBegin[e]; at < readerBegin[e + 1]; ++at) {
        const NodeId n(readers[at].node);
        if (!Selection::flows(body.kind(n), readers[at].input)) continue;
        const uint32_t first = body.firstEntry(n).value;
        for (uint32_t output = first; output < first + body.numOutputs(n); ++output)
          if (!nothing.isInteger(EntryId(output))) reach(output);
      }
      const auto states = statesAt.find(e);
      if (states == statesAt.end()) continue;
      for (uint32_t k : states->second) {
        wanted.set(flow.states[k].operand);
        reachInputs(flow.states[k].operand);
      }
    }
    return carrying;
  }

  // Whether a live head depends on a node. The next value of a state is live if one depends on the state.
  BitVector readNodes(BitVector &live) const {
    BitVector read(body.numNodes());
    std::vector<NodeId> open;
    auto reach = [&](Value v) {
      if (read[v.node.value] || nothing.isCut(body.entry(v))) return;
      read.set(v.node.value);
      open.push_back(v.node);
    };
    for (size_t h = 0; h < ports.outputOf.size(); ++h)
      if (live[ports.outputOf[h]]) reach(body.heads()[h]);
    while (!open.empty()) {
      const NodeId n = open.back();
      open.pop_back();
      for (Value v : body.inputs(n)) reach(v);
      if (operandAt[n.value] == kNone) continue;
      for (uint32_t k : statesOf[operandAt[n.value]]) {
        live.set(ports.outputOf[flow.states[k].head]);
        reach(body.heads()[flow.states[k].head]);
      }
    }
    return read;
  }

  const Graph &body;
  const BodyFlow::Body &ports;
  const BodyFlow &flow;
  GradientOptions options;
  Selection nothing;                                         // cuts and integers
  std::vector<SmallVector<uint32_t, 1>> inputsOf, statesOf;  // by operand
  std::vector<uint32_t> operandAt;                           // by node
  DenseMap<uint32_t, SmallVector<uint32_t, 1>> statesAt;     // by entry: those whose next value it is
  std::vector<uint32_t> readerBegin;                         // by entry, into readers
  std::vector<Reader> readers;
};

// Not inlined: otherwise each level of nested bodies would have a BodyReach on the stack.
LLVM_ATTRIBUTE_NOINLINE BodyRequest requestOf(const NodeKind &kind, uint32_t b, const Inference *inference,
                                              const GradientOptions &options, const BitVector &wanted,
                                              const BitVector &live, const BitVector &cut) {
  const BodyReach reach(kind.bodies[b], kind.flow->bodies[b], *kind.flow, inference, options);
  return reach.request(wanted, live, cut);
}

// From the first gradient on, a node also yields its decision or number of steps; otherwise it changes only if heads
// are added.
LLVM_ATTRIBUTE_NOINLINE Expected<KindRef> savingNodeKind(Context &ctx, const KindRef &handle, const std::string &added,
                                                         ArrayRef<Graph> bodies) {
  const NodeKind &kind = *handle;
  const std::optional<StringRef> known = kind.attrs.get(kSavedKey);
  const bool isNothing = StringRef(added).find_first_not_of("0,") == StringRef::npos;
  const bool yieldsDecision = kind.flow->countOutput || kind.flow->decisionOutput || !kind.flow->isDecision(0);
  if (isNothing && yieldsDecision) return handle;
  SmallVector<StringRef, 8> counts;
  if (known && *known != "None") (void)splitList(*known, counts);
  std::string text = "(";
  for (StringRef count : counts) text += count.trim().str() + ",";
  text += added + ")";
  return ctx.kindLike(kind, ctx.withAttrs(kind.attrs, {{kSavedKey, text}}), bodies);
}

class Saving {
 public:
  Saving(Context &ctx, const Graph &graph, const GradientRequest &request, const GradientOptions &options,
         BodyGradients &known)
      : ctx(ctx), graph(graph), options(options), known(known), selection(graph, request, options), summaries(ctx) {
    findLive(request.heads);
    findUseful(request);
  }

  Expected<std::optional<SavingGraph>> run() {
    Expected<Graph> made = withKinds(ctx, graph, [&](NodeId n) -> Expected<KindRef> {
      return isOnPath(n) ? differentiate(n) : graph.kindHandle(n);
    });
    if (!made) return made.takeError();
    if (result.flows.empty()) return std::optional<SavingGraph>();
    result.graph = *made;
    if (options.inference) {
      std::vector<Value> source;
      for (uint32_t n = 0; n < graph.numNodes(); ++n) source.push_back(Value{NodeId(n)});
      result.inference = carry(*options.inference, graph, result.graph, source);
    }
    return std::optional<SavingGraph>(std::move(result));
  }

 private:
  bool isOnPath(NodeId n) const {
    if (!graph.kind(n).flow || !hasLiveOutput(n)) return false;
    return llvm::any_of(graph.inputs(n), [&](Value v) { return isUseful[graph.entry(v).value]; });
  }

  bool hasLiveOutput(NodeId n) const {
    const uint32_t first = graph.firstEntry(n).value;
    return isLive.find_first_in(first, first + graph.numOutputs(n)) >= 0;
  }

  // By entry: whether a gradient may arrive there from a y and flow on into the node.
  void findLive(ArrayRef<GradientHead> heads) {
    isLive.resize(graph.numEntries());
    auto reach = [&](Value v) {
      const EntryId e = graph.entry(v);
      if (!selection.isCut(e) && !selection.isStopped(e) && !selection.isInteger(e)) isLive.set(e.value);
    };
    for (const GradientHead &head : heads) reach(head.y);
    for (uint32_t n = graph.numNodes(); n-- > 0;) {
      if (!hasLiveOutput(NodeId(n))) continue;
      ArrayRef<Value> inputs = graph.inputs(NodeId(n));
      for (uint32_t i = 0; i < inputs.size(); ++i)
        if (Selection::flows(graph.kind(NodeId(n)), i) && !isZeroByRule(graph.kindHandle(NodeId(n)), i))
          reach(inputs[i]);
    }
  }

  // By entry: whether an x is reached from its gradient by rules that do not give zeros by definition. Otherwise a loop
  // would save what only a gradient reads that is dropped later, as the second one through the ones_like of a head.
  void findUseful(const GradientRequest &request) {
    isUseful.resize(graph.numEntries());
    const bool carriesAll = options.reach == ReachPolicy::WholeGraph;
    for (const auto &targets : {request.wrt, request.retained})
      for (const GradientTarget &target : targets) isUseful.set(graph.entry(target.x).value);
    for (Value v : request.taps) isUseful.set(graph.entry(v).value);
    for (Value v : tappedEntries(graph)) isUseful.set(graph.entry(v).value);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      const uint32_t first = graph.firstEntry(NodeId(n)).value, end = first + graph.numOutputs(NodeId(n));
      const bool passes = carriesAll || passesOn(NodeId(n));
      for (uint32_t e = first; e < end; ++e)
        if ((passes || isUseful[e]) && selection.carries(EntryId(e))) isUseful.set(e);
        else isUseful.reset(e);
    }
  }

  bool passesOn(NodeId n) {
    for (auto [i, v] : llvm::enumerate(graph.inputs(n)))
      if (isUseful[graph.entry(v).value] && Selection::flows(graph.kind(n), i) &&
          !isZeroByRule(graph.kindHandle(n), static_cast<uint32_t>(i)))
        return true;
    return false;
  }

  /// Whether the rule gives zeros by definition for that input, as BlockGrad's does, and these are dropped.
  bool isZeroByRule(const KindRef &kind, uint32_t input) {
    if (options.zeroTerms == ZeroPolicy::Keep) return false;
    return llvm::any_of(summaries.of(kind).nodes, [&](const BackwardLink &link) {
      return link.kind->op->flags.isZero && llvm::is_contained(link.outputs, LinkedEntry{0, input});
    });
  }

  Expected<KindRef> differentiate(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    BitVector wanted(static_cast<unsigned>(inputs.size())), live(graph.numOutputs(n)), cut(graph.numOutputs(n));
    for (unsigned i = 0; i < wanted.size(); ++i)
      if (Selection::flows(kind, i) && isUseful[graph.entry(inputs[i]).value]) wanted.set(i);
    for (unsigned o = 0; o < live.size(); ++o)
      if (isLive[graph.firstEntry(n).value + o]) live.set(o);
    for (unsigned o = 0; o < cut.size(); ++o)
      if (selection.isCut(EntryId(graph.firstEntry(n).value + o))) cut.set(o);
    SmallVector<const Inference *, 3> inference;
    for (uint32_t b = 0; b < kind.bodies.size(); ++b)
      inference.push_back(options.inference ? options.inference->body(n, b) : nullptr);
    auto within = [&](Error error, uint32_t b) { return withinBody(std::move(error), graph, n, b); };
    Expected<SavingNode> made =
        saveBodies(ctx, graph.kindHandle(n), wanted, live, cut, inference, options, known, within);
    if (!made) return made.takeError();
    result.flows.push_back({n, std::move(made->bodies), std::move(wanted)});
    return made->kind;
  }

  Context &ctx;
  const Graph &graph;
  const GradientOptions &options;
  BodyGradients &known;
  const Selection selection;
  RuleSummaries summaries;
  BitVector isLive, isUseful;  // by entry
  SavingGraph result;
};

}  // namespace

Expected<SavingNode> saveBodies(Context &ctx, const KindRef &handle, const BitVector &wanted, const BitVector &live,
                                const BitVector &cut, ArrayRef<const Inference *> inference,
                                const GradientOptions &options, BodyGradients &known,
                                function_ref<Error(Error, uint32_t)> within) {
  const NodeKind &kind = *handle;
  const BodyFlow &flow = *kind.flow;
  SavingNode made;
  SmallVector<Graph, 3> bodies(kind.bodies);
  std::string added;
  for (uint32_t b = 0; b < flow.bodies.size(); ++b) {
    made.bodies.emplace_back();
    if (flow.isDecision(b) || flow.bodies[b].outputOf.empty()) continue;
    const BodyRequest request = requestOf(kind, b, inference[b], options, wanted, live, cut);
    size_t numAdded = 0;
    if (!request.heads.empty() && !request.inputs.empty()) {
      auto body = known.find(ctx, kind.bodies[b], inference[b], request, options);
      if (!body) return within(body.takeError(), b);
      made.bodies[b] = (*body)->gradient;
      bodies[b] = (*body)->forward;
      numAdded = (*body)->numAdded;
    }
    added += std::to_string(numAdded) + ",";
  }
  Expected<KindRef> saving = savingNodeKind(ctx, handle, added, bodies);
  if (!saving) return saving.takeError();
  made.kind = *saving;
  return made;
}

Expected<std::optional<SavingGraph>> saveValues(Context &context, const Graph &graph, const GradientRequest &request,
                                                const GradientOptions &options, BodyGradients &bodies) {
  const bool hasFlow = llvm::any_of(graph.kinds(), [](const KindRef &kind) { return kind->flow; });
  if (!hasFlow) return std::optional<SavingGraph>();
  return std::make_unique<Saving>(context, graph, request, options, bodies)->run();
}

}  // namespace gradc
