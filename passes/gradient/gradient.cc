// The driver of reverse-mode differentiation, and its first phase: what arrives at the y (§4). Phases: check the request,
// select what carries, make head gradients, walk backwards applying rules, settle what was asked, freeze.
// Tested by tests/gradient_test.cc, tests/gradient_heads_test.cc
#include "passes/gradient/checks.h"
#include "passes/gradient/state.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

class HeadSeeder : GradientPhase {
 public:
  explicit HeadSeeder(GradientState &state) : GradientPhase(state) {}

  Error run() {
    builder.reserve(size_t{numBase} * 2 + 64, size_t{graph.numEntries()} * 6, size_t{numBase} * 32);
    for (size_t i = 0; i < request.heads.size(); ++i) {
      const GradientHead &head = request.heads[i];
      Expected<Value> seed = seedOf(head, i);
      if (!seed) return seed.takeError();
      EntryId e = graph.entry(head.y);
      if (selection.isCut(e) || selection.isInteger(e)) continue;  // P-09: others may be live
      sums.push(head.y, *seed);
      state.top = std::max(state.top, head.y.node.value);
    }
    return Error::success();
  }

 private:
  Expected<Value> seedOf(const GradientHead &head, size_t i) {
    state.seedNames.emplace_back();
    const WellKnownOps &ops = ctx.ops.wellKnown;
    if (head.seed) {
      keepOpen({static_cast<uint32_t>(i), head.y, *head.seed});
      if (graph.isVariable(head.seed->node)) state.seedNames.back() = graph.name(head.seed->node).str();
      return *head.seed;
    }
    std::string name = head.seedName;
    if (name.empty() && options.headPolicy == HeadPolicy::Input) name = "_head_grad_" + std::to_string(i);
    if (name.empty()) {
      if (options.headPolicy == HeadPolicy::Scalar) keepOpen({static_cast<uint32_t>(i), head.y, Value()});
      NodeId ones = builder.addKind(*ops.onesLike, {head.y}, sums.originOf(head.y.node));
      if (!fluid) namer.name(ones, "_head_grad_" + std::to_string(i), "");
      return Value{ones};
    }
    Value variable = variableNamed(name);
    state.seedNames.back() = builder.name(variable.node).str();
    state.openPairs.push_back({static_cast<uint32_t>(i), head.y, variable});
    // The operand y gives the variable its shape, whatever else reads it (NAME-02).
    NodeId like = builder.addKind(*ops.identityLike, {variable, head.y},
                                  sums.originOf(head.y.node));
    if (!fluid) namer.name(like, builder.name(variable.node).str(), "_id");
    return Value{like};
  }

  // H-03, H-04: what cannot be checked for want of shapes is left to a later inference.
  void keepOpen(HeadPair pair) {
    if (!isSettled(graph, options.inference, pair)) state.openPairs.push_back(pair);
  }

  // Two y given the same seed name share one variable; two shapes behind it are found by inference.
  Value variableNamed(const std::string &name) {
    auto [known, isNew] = headVariables.try_emplace(name);
    if (!isNew) return known->second;
    NodeId n = builder.addKind(ctx.variableKind(Attrs()), {}, NodeId());
    namer.name(n, name, "");
    if (fluid) fluid->take(name);
    return known->second = Value{n};
  }

  StringMap<Value> headVariables;
};

}  // namespace

Expected<GradientResult> buildGradient(Context &context, const Graph &graph, const GradientRequest &request,
                                       const GradientOptions &options) {
  Expected<GradientRequest> checked = checkRequest(graph, request, options);
  if (!checked) return checked.takeError();
  Expected<std::optional<GradientTable>> earlier = readGradientTable(graph);
  if (!earlier) return earlier.takeError();
  GradientState state(context, graph, std::move(*earlier), *checked, options);
  if (Error error = HeadSeeder(state).run()) return error;
  if (Error error = walkBackwards(state)) return error;
  return finishGradient(state);
}

}  // namespace gradc
