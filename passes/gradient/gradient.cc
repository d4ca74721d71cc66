// The driver of reverse-mode differentiation, and its first phase, head gradients (§4). Phases: check the request, let
// loops yield what their gradients read, select what carries, make head gradients, walk backwards applying rules,
// answer the request, freeze.
// Tested by tests/passes/gradient/gradient_test.cc, tests/passes/gradient/gradient_heads_test.cc
#include "passes/gradient/body_gradient.h"
#include "passes/gradient/checks.h"

#include "ir/base/out_of_memory.h"
#include "passes/gradient/state.h"

#include "ir/base/error.h"
#include "ir/op/attr_spec.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

class HeadSeeder {
 public:
  explicit HeadSeeder(GradientState &state) : state(state) {}

  Error run() {
    const size_t numNodes = state.graph.numNodes(), numEntries = state.graph.numEntries();
    state.builder.reserve(numNodes * 2 + 64, numEntries * 6, numNodes * 32);
    for (size_t i = 0; i < state.request.heads.size(); ++i) {
      const GradientHead &head = state.request.heads[i];
      Expected<Value> seed = seedOf(head, i);
      if (!seed) return seed.takeError();
      EntryId e = state.graph.entry(head.y);
      if (state.selection.isCut(e) || state.selection.isInteger(e)) continue;  // P-09: others may be live
      state.sums.push(head.y, *seed);
      state.top = std::max(state.top, head.y.node.value);
    }
    return Error::success();
  }

 private:
  Expected<Value> seedOf(const GradientHead &head, size_t i) {
    state.seedNames.emplace_back();
    const WellKnownOps &ops = state.ctx.ops.wellKnown;
    if (head.seed) {
      keepOpen({static_cast<uint32_t>(i), head.y, *head.seed});
      if (state.graph.isVariable(head.seed->node)) state.seedNames.back() = state.graph.name(head.seed->node).str();
      return *head.seed;
    }
    std::string name = head.seedName;
    if (name.empty() && state.options.headPolicy == HeadPolicy::Input) name = "_head_grad_" + std::to_string(i);
    if (name.empty()) {
      if (state.options.headPolicy == HeadPolicy::Scalar) keepOpen({static_cast<uint32_t>(i), head.y, Value()});
      NodeId ones = state.builder.addKind(*ops.onesLike, {head.y}, state.sums.originOf(head.y.node));
      if (!state.fluid) state.namer.name(ones, "_head_grad_" + std::to_string(i), "");
      if (state.options.lossScale == 1) return Value{ones};
      Expected<Value> scaled = state.scaled(Value{ones}, state.sums.originOf(head.y.node));
      if (scaled) state.namer.name(scaled->node, "_head_grad_" + std::to_string(i), "_scaled");
      return scaled;
    }
    Value variable = variableNamed(name);
    state.seedNames.back() = state.builder.name(variable.node).str();
    state.openPairs.push_back({static_cast<uint32_t>(i), head.y, variable});
    // The operand y gives the variable its shape, whatever else reads it (NAME-02).
    NodeId like = state.builder.addKind(*ops.identityLike, {variable, head.y}, state.sums.originOf(head.y.node));
    if (!state.fluid) state.namer.name(like, state.builder.name(variable.node).str(), "_id");
    return Value{like};
  }

  // H-03, H-04: a pair that cannot be checked without more shapes is left to a later inference.
  void keepOpen(HeadPair pair) {
    if (!isFullyChecked(state.graph, state.options.inference, pair)) state.openPairs.push_back(pair);
  }

  // Two y with the same seed name share one variable; inference finds out if they differ in shape.
  Value variableNamed(const std::string &name) {
    auto [known, isNew] = headVariables.try_emplace(name);
    if (!isNew) return known->second;
    NodeId n = state.builder.addKind(state.ctx.variableKind(Attrs()), {}, NodeId());
    state.namer.name(n, name, "");
    if (state.fluid) state.fluid->take(name);
    return known->second = Value{n};
  }

  GradientState &state;
  StringMap<Value> headVariables;
};

Error checkScale(const GradientOptions &options) {
  if (!std::isfinite(options.lossScale) || options.lossScale <= 0)
    return Failure(ErrorKind::UnsupportedOption,
                   "losses are scaled by " + std::to_string(options.lossScale) + ", expected a finite number above 0");
  if (options.lossScale != 1 && options.naming == NamingStyle::Fluid)
    return Failure(ErrorKind::UnsupportedOption, "Fluid naming does not support a loss scale");
  return Error::success();
}

}  // namespace

Expected<Value> GradientState::scaled(Value v, NodeId origin) {
  const OpDef *op = ctx.ops.find("_mul_scalar");
  if (!op) return Failure(ErrorKind::UnknownOp, "the registry has no operator '_mul_scalar'");
  std::string text;
  raw_string_ostream os(text);
  printAttr(os, options.lossScale);
  Expected<NodeId> node = builder.add(*op, v, NodeSpec{"", ctx.attrs({{"scalar", os.str()}}), origin});
  if (!node) return node.takeError();
  return Value{*node};
}

/// A request that was checked, and what is known before the bodies are differentiated.
struct Asked {
  GradientRequest request;
  std::vector<Value> tapped;
  std::optional<GradientTable> earlier;
};

LLVM_ATTRIBUTE_NOINLINE static Expected<Asked> check(Context &context, const Graph &graph,
                                                     const GradientRequest &request, const GradientOptions &options) {
  if (Error error = checkScale(options)) return error;
  Expected<GradientRequest> checked = checkRequest(graph, request, options);
  if (!checked) return checked.takeError();
  std::vector<Value> tapped = tappedEntries(graph);
  if (!(checked->taps.empty() && tapped.empty()) && !context.ops.wellKnown.tap)
    return Failure(ErrorKind::UnsupportedOption, "gradients cannot be tapped: the context has no operator for it");
  Expected<std::optional<GradientTable>> earlier = readGradientTable(graph);
  if (!earlier) return earlier.takeError();
  return Asked{std::move(*checked), std::move(tapped), std::move(*earlier)};
}

LLVM_ATTRIBUTE_NOINLINE static Expected<GradientResult> differentiate(Context &context, const Graph &graph,
                                                                      Asked &asked,
                                                                      const std::optional<SavingGraph> &saving,
                                                                      const GradientOptions &options,
                                                                      BodyGradients &bodies) {
  GradientOptions known = options;
  if (saving && saving->inference) known.inference = &*saving->inference;
  const Graph &base = saving ? saving->graph : graph;
  auto state = std::make_unique<GradientState>(context, base, std::move(asked.earlier), asked.request, known);
  if (saving) state->flows = saving->flows;
  for (Value v : asked.tapped) state->sums.tap(v);
  state->bodies = &bodies;
  if (Error error = HeadSeeder(*state).run()) return error;
  if (Error error = walkBackwards(*state)) return error;
  return finishGradient(*state);
}

// Recursion through `saveValues` is as deep as bodies are nested, so large objects are not on the stack.
Expected<GradientResult> buildGradientWith(Context &context, const Graph &graph, const GradientRequest &request,
                                           const GradientOptions &options, BodyGradients &bodies) {
  const std::unique_ptr<Expected<Asked>> asked(new Expected<Asked>(check(context, graph, request, options)));
  if (!*asked) return asked->takeError();
  const std::unique_ptr<Expected<std::optional<SavingGraph>>> saving(
      new Expected<std::optional<SavingGraph>>(saveValues(context, graph, (*asked)->request, options, bodies)));
  if (!*saving) return saving->takeError();
  return differentiate(context, graph, **asked, **saving, options, bodies);
}

Expected<GradientResult> buildGradient(Context &context, const Graph &graph, const GradientRequest &request,
                                       const GradientOptions &options) {
  return catchingBadAlloc("to differentiate the graph", [&]() -> Expected<GradientResult> {
    BodyGradients bodies;
    return buildGradientWith(context, graph, request, options, bodies);
  });
}

}  // namespace gradc
