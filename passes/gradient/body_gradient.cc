// Phases: the combined gradient graph of the body; the backward part, which reads variables in place of computed
// forward values; the body with these values as heads. Tested by tests/passes/gradient/body_gradient_test.cc
#include "passes/gradient/body_gradient.h"

#include "passes/order/requests.h"
#include "passes/rewrite/rewriter.h"

#include "ir/base/error.h"
#include "ir/graph/body_flow.h"
#include "ir/graph/effects.h"
#include "ir/graph/graph_builder.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

class BodyDifferentiation {
 public:
  BodyDifferentiation(Context &ctx, const Graph &body, const BodyRequest &request, BodyGradients &known,
                      BodyGradients::Differentiate &differentiate)
      : ctx(ctx), body(body), request(request), known(known), differentiate(differentiate), inputs(bodyInputs(body)) {}

  Error run(const Inference *inference, const GradientOptions &given) {
    if (Error error = combine(inference, given)) return error;
    return split();
  }
  std::shared_ptr<const DifferentiatedBody> take() && {
    return std::make_shared<const DifferentiatedBody>(std::move(result));
  }

 private:
  LLVM_ATTRIBUTE_NOINLINE Error split() {
    Expected<Frozen> backward = separate();
    return backward ? describe(*backward) : backward.takeError();
  }

  GradientOptions optionsInside(const Inference *inference, const GradientOptions &given) const {
    GradientOptions options = given;
    options.inference = inference;
    options.headPolicy = HeadPolicy::Ones;
    options.duplicates = DuplicatePolicy::Allow;
    options.unused = UnusedPolicy::Zeros;
    options.reach = ReachPolicy::Ignore;
    options.naming = NamingStyle::Unique;
    options.gradientOnly = false;
    options.listener = nullptr;
    return options;
  }

  GradientRequest requestInside() const {
    GradientRequest inside;
    for (uint32_t h : request.heads) inside.heads.push_back({body.heads()[h], std::nullopt, seedName(h)});
    for (uint32_t i : request.inputs) inside.wrt.push_back({Value{inputs[i]}});
    return inside;
  }

  Error combine(const Inference *inference, const GradientOptions &given) {
    const std::unique_ptr<GradientOptions> options(new GradientOptions(optionsInside(inference, given)));
    const std::unique_ptr<GradientRequest> inside(new GradientRequest(requestInside()));
    const std::unique_ptr<Expected<GradientResult>> built(
        new Expected<GradientResult>(differentiate(ctx, body, *inside, *options, known)));
    if (!*built) return built->takeError();
    combined = std::move(**built);
    numForward = combined.stats.numForwardNodes;
    return Error::success();
  }

  // Whether the decomposition of a gradient operator reads inputs or outputs of its forward node, as CTCLoss's does: at
  // a higher order, or in the operators of a host. Its decomposition is run on placeholders.
  // Not inlined, like `separate`: what they hold would be in a frame that each level of nested bodies has on the stack.
  LLVM_ATTRIBUTE_NOINLINE bool readsForward(const KindRef &backward, const KindRef &forward) {
    if (!backward->op->decompose || forward->numInputs == NodeKind::kAnyInputs) return false;
    auto [known, isNew] = forwardReads.try_emplace({backward.get(), forward.get()}, false);
    if (!isNew) return known->second;
    GraphBuilder builder(ctx);
    const NodeId of = builder.addOverVariables(forward), node = builder.addOverVariables(backward);
    DecomposeRule rule(builder, node, NodeId());
    rule.setForward(of);
    backward->op->decompose(rule);
    for (uint32_t n = node.value + 1; n < builder.numNodes(); ++n)
      for (auto [i, v] : enumerate(builder.inputs(NodeId(n))))
        if (v.node.value <= of.value && !builder.kind(NodeId(n)).isIgnored(i)) known->second = true;
    return known->second;
  }

  // Others are only for their shapes.
  void findForwardReads() {
    const Graph &graph = combined.graph;
    givesValues.resize(graph.numNodes());
    isGivenLater.resize(graph.numEntries());
    for (uint32_t n = numForward; n < graph.numNodes(); ++n) {
      const KindRef &kind = graph.kindHandle(NodeId(n));
      const ArrayRef<NodeId> deps = graph.controlDeps(NodeId(n));
      if (kind->isVariable() || !kind->op->flags.isBackward || deps.empty() || !isForward(deps[0])) continue;
      if (readsForward(kind, graph.kindHandle(deps[0]))) givesValues.set(deps[0].value);
    }
  }

  static std::string seedName(uint32_t head) { return "head_grad_" + std::to_string(head); }

  // Whether it draws the random numbers of its forward node again; other backward operators read what that node saved.
  static bool drawsAgain(const NodeKind &kind) { return kind.draws && kind.op->flags.isBackward; }

  /// Where a node of the body is in the combined graph.
  NodeId inCombined(NodeId n) const { return combined.forwardIds.empty() ? n : combined.forwardIds[n.value]; }
  Value inCombined(Value v) const { return Value{inCombined(v.node), v.index, v.version}; }

  // Copies every node; freezing drops those that no gradient needs.
  LLVM_ATTRIBUTE_NOINLINE Expected<Frozen> separate() {
    const Graph &graph = combined.graph;
    findForwardReads();
    GraphRewriter rewriter(ctx, graph);
    valueOf.resize(graph.numEntries());
    for (uint32_t n = 0; n < graph.numNodes(); ++n) copy(rewriter, NodeId(n));
    SmallVector<Value, 8> heads;
    for (const GradientSlot &slot : combined.wrt) heads.push_back(read(rewriter, slot.value));
    for (uint32_t n = 0; n < graph.numNodes(); ++n) copies.push_back(rewriter(Value{NodeId(n)}).node);
    // The origins are forward nodes, which have run elsewhere, so the copies have none.
    return std::move(rewriter.builder()).freeze(heads, {});
  }

  bool isForward(NodeId n) const { return n.value < numForward; }

  // The value of an entry whose contents are read. A computed forward entry becomes a variable for what the body
  // yielded.
  Value read(GraphRewriter &rewriter, Value v) {
    const uint32_t e = combined.graph.entry(v).value;
    if (!isForward(v.node) || combined.graph.isVariable(v.node)) return rewriter(v);
    if (!valueOf[e].isValid()) {
      valueOf[e] = rewriter.builder().addVariable(combined.graph.listedName(v), Attrs());
      saved.push_back({valueOf[e].node, v});
    }
    return valueOf[e];
  }

  void copy(GraphRewriter &rewriter, NodeId n) {
    const Graph &graph = combined.graph;
    const NodeKind &kind = graph.kind(n);
    SmallVector<Value, 8> operands;
    ArrayRef<Value> given = graph.inputs(n);
    // The gradient of a head has the head's shape anyway, so the node that states this for inference is not needed.
    if (!isForward(n) && kind.op == ctx.ops.wellKnown.identityLike && isForward(given[1].node))
      return rewriter.replace(n, rewriter(given[0]), {});
    for (size_t i = 0; i < given.size(); ++i) {
      const bool isForShape = kind.isIgnored(i) || (isForward(n) && !givesValues[n.value]);
      operands.push_back(isForShape ? rewriter(given[i]) : read(rewriter, given[i]));
      if (isForward(n) && !isForShape) isGivenLater.set(graph.entry(given[i]).value);
    }
    // The forward node of a backward operator must be its first dependency. At higher orders the forward part has such
    // operators too.
    const ArrayRef<NodeId> deps = graph.controlDeps(n);
    if (kind.op && kind.op->flags.isBackward && !deps.empty() && isForward(deps[0])) {
      GraphBuilder &builder = rewriter.builder();
      builder.addControlDep(NodeId(builder.numNodes()), rewriter(Value{deps[0]}).node);
    }
    if (isForward(n)) rewriter.copyForShape(n, forShape(n), operands);  // has run
    else rewriter.copy(n, operands);
  }

  // When the backward part runs, forward nodes have already overwritten their variables and must not do so again.
  KindRef forShape(NodeId n) const {
    const KindRef &handle = combined.graph.kindHandle(n);
    return handle->isVariable() ? handle : withoutEffects(ctx, handle);
  }

  Error describe(const Frozen &backward) {
    const Graph &graph = backward.graph;
    const RequestTable requests = countRequests(graph, {});
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (drawsAgain(graph.kind(NodeId(n))))
        return Failure(ErrorKind::UnsupportedOption, graph.describe(NodeId(n)) +
                                                         " draws the numbers of its forward node again, which is not "
                                                         "available inside a body");
    std::vector<std::optional<BodyGradient::Input>> sourceOf(graph.numNodes());
    auto note = [&](NodeId made, BodyGradient::Source source, size_t index) {
      const NodeId n = backward.newId[made.value];
      if (n.isValid()) sourceOf[n.value] = {source, static_cast<uint32_t>(index)};
    };
    // Heads of the body, then the added ones.
    SmallVector<Value, 16> heads;
    DenseMap<uint32_t, size_t> headOf;  // by entry of the combined graph
    for (Value head : body.heads()) {
      const Value v = inCombined(head);
      if (request.isReadable[heads.size()]) headOf.try_emplace(combined.graph.entry(v).value, heads.size());
      heads.push_back(v);
    }
    auto headFor = [&](Value v) {
      auto [at, isNew] = headOf.try_emplace(combined.graph.entry(v).value, heads.size());
      if (isNew) heads.push_back(v);
      return at->second;
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NodeId made = copies[inCombined(inputs[i]).value];
      if (!backward.newId[made.value].isValid()) continue;
      const bool isRead = requests.reads[graph.firstEntry(backward.newId[made.value])] != 0 ||
                          isGivenLater[combined.graph.firstEntry(inCombined(inputs[i])).value];
      if (request.isGivenAgain[i] || !isRead) note(made, BodyGradient::Source::Input, i);
      else note(made, BodyGradient::Source::Value, headFor(Value{inCombined(inputs[i])}));
    }
    for (auto [variable, entry] : saved)
      if (backward.newId[variable.value].isValid()) note(variable, BodyGradient::Source::Value, headFor(entry));
    StringMap<uint32_t> headOfSeed;
    for (size_t k = 0; k < request.heads.size(); ++k) headOfSeed[combined.seedNames[k]] = request.heads[k];
    for (uint32_t n = numForward; n < combined.graph.numNodes(); ++n)
      if (combined.graph.isVariable(NodeId(n)))
        note(copies[n], BodyGradient::Source::HeadGradient, headOfSeed.at(combined.graph.name(NodeId(n))));
    BodyGradient &made = result.gradient;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n))) made.inputs.push_back(*sourceOf[n]);
    made.gradientOf = request.inputs;
    made.backward = graph;
    result.numAdded = heads.size() - body.heads().size();
    return yieldHeads(heads);
  }

  // Only the forward part, whose inner bodies already have the heads that their gradients read.
  Error yieldHeads(ArrayRef<Value> heads) {
    GraphTable table = body.table();
    table.forgetEntries();
    Expected<Frozen> forward = GraphBuilder(ctx, combined.graph.withTable({})).freeze(heads, {});
    if (!forward) return forward.takeError();
    result.forward = forward->graph.withTable(std::move(table));
    return Error::success();
  }

  Context &ctx;
  const Graph &body;
  const BodyRequest &request;
  BodyGradients &known;
  BodyGradients::Differentiate &differentiate;
  const std::vector<NodeId> inputs;
  GradientResult combined;
  uint32_t numForward = 0;
  std::map<std::pair<const NodeKind *, const NodeKind *>, bool> forwardReads;  // by kinds of the combined graph
  BitVector givesValues;       // by node of the combined graph: forward nodes that their decomposed gradients read
  BitVector isGivenLater;      // by entry of the combined graph: such a node reads it
  std::vector<NodeId> copies;  // by node of the combined graph
  std::vector<Value> valueOf;  // by entry: the variable for what the body yielded
  std::vector<std::pair<NodeId, Value>> saved;  // variable, entry of the combined graph, in the order of first use
  DifferentiatedBody result;
};

}  // namespace

// Recursion is as deep as bodies are nested, so large objects are not on the stack.
Expected<std::shared_ptr<const DifferentiatedBody>> BodyGradients::find(Context &context, const Graph &body,
                                                                        const Inference *inference,
                                                                        const BodyRequest &request,
                                                                        const GradientOptions &options) {
  using Found = std::shared_ptr<const DifferentiatedBody>;
  Expected<const Found *> found = rows.find(body, inference, request, [&]() -> Expected<Found> {
    auto work = std::make_unique<BodyDifferentiation>(context, body, request, *this, differentiate);
    if (Error error = work->run(inference, options)) return error;
    return std::move(*work).take();
  });
  if (!found) return found.takeError();
  return **found;
}

}  // namespace gradc
