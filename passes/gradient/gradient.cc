// The driver of reverse-mode differentiation, and its first phase: what arrives at the y (§4). Phases: check the request,
// let loops yield what their gradients read, select what carries, make head gradients, walk backwards applying rules, answer what was asked, freeze.
// Tested by tests/gradient_test.cc, tests/gradient_heads_test.cc
#include "passes/gradient/body_gradient.h"
#include "passes/gradient/checks.h"
#include "passes/gradient/state.h"

#include "llvm/ADT/StringMap.h"

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
      return Value{ones};
    }
    Value variable = variableNamed(name);
    state.seedNames.back() = state.builder.name(variable.node).str();
    state.openPairs.push_back({static_cast<uint32_t>(i), head.y, variable});
    // The operand y gives the variable its shape, whatever else reads it (NAME-02).
    NodeId like = state.builder.addKind(*ops.identityLike, {variable, head.y}, state.sums.originOf(head.y.node));
    if (!state.fluid) state.namer.name(like, state.builder.name(variable.node).str(), "_id");
    return Value{like};
  }

  // H-03, H-04: what cannot be checked for want of shapes is left to a later inference.
  void keepOpen(HeadPair pair) {
    if (!isFullyChecked(state.graph, state.options.inference, pair)) state.openPairs.push_back(pair);
  }

  // Two y given the same seed name share one variable; two shapes behind it are found by inference.
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

}  // namespace

Expected<GradientResult> buildGradientWith(Context &context, const Graph &graph, const GradientRequest &request,
                                           const GradientOptions &options, BodyGradients &bodies) {
  Expected<GradientRequest> checked = checkRequest(graph, request, options);
  if (!checked) return checked.takeError();
  Expected<std::optional<GradientTable>> earlier = readGradientTable(graph);
  if (!earlier) return earlier.takeError();
  Expected<std::optional<SavingGraph>> saving = saveValues(context, graph, *checked, options, bodies);
  if (!saving) return saving.takeError();
  GradientOptions known = options;
  if (*saving && (*saving)->inference) known.inference = &*(*saving)->inference;
  const Graph &base = *saving ? (*saving)->graph : graph;
  auto state = std::make_unique<GradientState>(context, base, std::move(*earlier), *checked, known);
  if (*saving) state->flows = (*saving)->flows;
  if (Error error = HeadSeeder(*state).run()) return error;
  if (Error error = walkBackwards(*state)) return error;
  return finishGradient(*state);
}

Expected<GradientResult> buildGradient(Context &context, const Graph &graph, const GradientRequest &request,
                                       const GradientOptions &options) {
  BodyGradients bodies;
  return buildGradientWith(context, graph, request, options, bodies);
}

}  // namespace gradc
