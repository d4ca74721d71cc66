// The driver of reverse-mode differentiation, and its first phase, head gradients (§4). Phases: check the request, let
// loops yield what their gradients read, select what carries, make head gradients, walk backwards applying rules, make
// the requested gradients, freeze.
// Tested by tests/passes/gradient/gradient_test.cc, tests/passes/gradient/gradient_heads_test.cc
#include "passes/gradient/body_gradient.h"
#include "passes/gradient/checks.h"

#include "ir/base/out_of_memory.h"
#include "passes/gradient/results.h"
#include "passes/gradient/walk.h"

#include "ir/base/error.h"

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

/// A request that was checked, and what is known before the bodies are differentiated.
struct CheckedRequest {
  GradientRequest request;
  std::vector<Value> tapped;
  std::optional<GradientTable> earlier;
};

LLVM_ATTRIBUTE_NOINLINE static Expected<CheckedRequest> check(Context &context, const Graph &graph,
                                                              const GradientRequest &request,
                                                              const GradientOptions &options) {
  if (Error error = checkScale(options)) return error;
  Expected<GradientRequest> checked = checkRequest(graph, request, options);
  if (!checked) return checked.takeError();
  std::vector<Value> tapped = tappedEntries(graph);
  if (!(checked->taps.empty() && tapped.empty()) && !context.ops.wellKnown.tap)
    return Failure(ErrorKind::UnsupportedOption, "gradients cannot be tapped: the context has no operator for it");
  Expected<std::optional<GradientTable>> earlier = readGradientTable(graph);
  if (!earlier) return earlier.takeError();
  return CheckedRequest{std::move(*checked), std::move(tapped), std::move(*earlier)};
}

LLVM_ATTRIBUTE_NOINLINE static Expected<GradientResult> differentiate(Context &context, const Graph &graph,
                                                                      CheckedRequest &checked,
                                                                      const std::optional<SavingGraph> &saving,
                                                                      const GradientOptions &options,
                                                                      BodyGradients &bodies) {
  GradientOptions known = options;
  if (saving && saving->inference) known.inference = &*saving->inference;
  const Graph &base = saving ? saving->graph : graph;
  auto state = std::make_unique<GradientState>(context, base, std::move(checked.earlier), checked.request, known);
  if (saving) state->flows = saving->flows;
  for (Value v : checked.tapped) state->sums.tap(v);
  state->bodies = &bodies;
  if (Error error = HeadSeeder(*state).run()) return error;
  if (Error error = walkBackwards(*state)) return error;
  return finishGradient(*state);
}

// Recursion through `saveValues` is as deep as bodies are nested, so large objects are not on the stack.
static Expected<GradientResult> buildGradientWith(Context &context, const Graph &graph, const GradientRequest &request,
                                                  const GradientOptions &options, BodyGradients &bodies) {
  const std::unique_ptr<Expected<CheckedRequest>> checked(
      new Expected<CheckedRequest>(check(context, graph, request, options)));
  if (!*checked) return checked->takeError();
  const std::unique_ptr<Expected<std::optional<SavingGraph>>> saving(
      new Expected<std::optional<SavingGraph>>(saveValues(context, graph, (*checked)->request, options, bodies)));
  if (!*saving) return saving->takeError();
  return differentiate(context, graph, **checked, **saving, options, bodies);
}

Expected<GradientResult> buildGradient(Context &context, const Graph &graph, const GradientRequest &request,
                                       const GradientOptions &options) {
  return catchingBadAlloc("to differentiate the graph", [&]() -> Expected<GradientResult> {
    BodyGradients bodies(buildGradientWith);
    return buildGradientWith(context, graph, request, options, bodies);
  });
}

AllTargets allTargets(const Graph &graph, const Inference *inference) {
  // Read by at least one edge that is not a stop input, nor a mutated one.
  BitVector flows(graph.numNodes());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (graph.isVariable(NodeId(n))) continue;
    const NodeKind &kind = graph.kind(NodeId(n));
    ArrayRef<Value> inputs = graph.inputs(NodeId(n));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isStopped(i) && !kind.isMutated(i)) flows.set(inputs[i].node.value);
  }
  for (Value head : graph.heads()) flows.set(head.node.value);
  AllTargets all;
  for (NodeId n : listInputs(graph).args) {
    DType type = inference ? inference->dtype[graph.firstEntry(n)] : DType::Unknown;
    if (type != DType::Unknown && !isFloating(type))
      all.skipped.push_back("'" + graph.name(n).str() + "' (" + dtypeName(type).str() + ")");
    else if (isMarkedStopped(graph, n))
      all.skipped.push_back("'" + graph.name(n).str() + "' (marked __stop_gradient__)");
    else if (!flows[n.value])
      all.skipped.push_back("'" + graph.name(n).str() + "' (read only where no gradient flows)");
    else all.targets.push_back({Value{n}, Request::Write});
  }
  return all;
}

Expected<std::optional<GradientTable>> readGradientTable(const Graph &graph) {
  return catchingBadAlloc("to read the gradient table", [&]() -> Expected<std::optional<GradientTable>> {
    if (!graph.table().gradientFault.empty()) return Failure(ErrorKind::GraphAttr, graph.table().gradientFault);
    return graph.table().gradient;
  });
}

}  // namespace gradc
