// The gradient of what another framework gets. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/trial.h"

#include "ir/rules/verify.h"
#include "passes/lowering/lower_to.h"
#include "runtime/arrays/elements.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::fuzz {
namespace {

/// Gradients by variable: values of heads.
using Gradients = StringMap<Array>;

struct NamedGradients {
  Graph graph;
  StringMap<size_t> heads;
};

NamedGradients named(const GradientResult &result, const GradientRequest &request, const Graph &of) {
  NamedGradients made{result.graph, {}};
  const ArrayRef<Value> heads = result.graph.heads();
  for (const auto &[target, slot] : zip(request.wrt, result.wrt)) {
    if (slot.status == SlotStatus::None) continue;
    const auto found = llvm::find(heads.drop_front(of.heads().size()), slot.value);
    if (found != heads.end()) made.heads[of.name(target.x.node)] = static_cast<size_t>(found - heads.begin());
  }
  return made;
}

/// `inputs` by variable: used, then filled.
std::optional<Gradients> runGradients(Trial &trial, const NamedGradients &gradients, StringMap<Array> &inputs,
                                      const SessionOptions &options) {
  std::vector<NamedArray> bindings;
  for (uint32_t n = 0; n < gradients.graph.numNodes(); ++n)
    if (gradients.graph.isVariable(NodeId(n)))
      if (const auto found = inputs.find(gradients.graph.name(NodeId(n))); found != inputs.end())
        bindings.push_back({found->first().str(), found->second});
  Expected<Session> session = Session::create(trial.ctx, gradients.graph, std::move(bindings), options);
  if (!session) return trial.isFine(session.takeError(), "gradient of the lowered graph, run"), std::nullopt;
  auto copy = [](const TensorRef &tensor) {
    return Array{tensor.dtype, tensor.shape.vec(), {tensor.as<char>(), tensor.as<char>() + tensor.bytes()}};
  };
  for (uint32_t n = 0; n < gradients.graph.numNodes(); ++n)
    if (gradients.graph.isVariable(NodeId(n)))
      inputs.try_emplace(gradients.graph.name(NodeId(n)), copy(session->variable(NodeId(n))));
  if (!trial.isFine(session->run(1), "gradient of the lowered graph, run")) return std::nullopt;
  Gradients values;
  for (const auto &head : gradients.heads)
    if (session->head(head.second).data) values.try_emplace(head.first(), copy(session->head(head.second)));
  return values;
}

}  // namespace

bool drawsNumbers(const Graph &graph) {
  return any_of(graph.kinds(), [](const KindRef &kind) { return kind->draws || kind->drawsInBodies; });
}

std::string differenceOf(const TensorRef &a, const TensorRef &b) {
  if (!a.data || !b.data || !isFloating(a.dtype) || !isFloating(b.dtype)) return "";
  if (a.size() != b.size()) return std::to_string(a.size()) + " and " + std::to_string(b.size()) + " elements";
  double largest = 1e-3, worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = readElement(a, i), y = readElement(b, i);
    if (!std::isfinite(x) || !std::isfinite(y)) return "";  // 0 · ∞ depends on the order of factors
    largest = std::fmax(largest, std::fmax(std::fabs(x), std::fabs(y)));
    worst = std::fmax(worst, std::fabs(x - y));
  }
  const bool isDouble = a.dtype == DType::Float64 && b.dtype == DType::Float64;
  // Where numbers are that large, terms that almost cancel each other are far larger.
  if (largest > 1e6 || worst <= (isDouble ? 1e-7 : 0.05) * largest) return "";
  return "distance " + std::to_string(worst) + " of " + std::to_string(largest);
}

/// Refused where the lowered form has lost the gradient, with an error that names the node, or the same gradient.
void Trial::checkLoweredGradient(const Graph &graph, const Inference &inference) {
  const std::optional<StringMap<NodeId>> variables = variablesOf(graph);
  Expected<Graph> lowered = lowerTo(ctx, graph, kMxnetTarget, &inference);
  if (!lowered) return consumeError(lowered.takeError());  // checkGraph has judged it
  const std::optional<StringMap<NodeId>> known = variablesOf(*lowered);
  if (!variables || !known) return;
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  options.inference = &inference;
  GradientRequest request, ofLowered;
  for (const GradientTarget &target : allTargets(graph, &inference).targets)
    if (const auto found = known->find(graph.name(target.x.node)); found != known->end()) {
      request.wrt.push_back(target);
      ofLowered.wrt.push_back({Value{found->second}});
    }
  if (request.wrt.empty()) return;
  Expected<GradientResult> own = buildGradient(ctx, graph, request, options);
  if (!own) return consumeError(own.takeError());
  const std::string stage = "gradient of the lowered graph";
  if (zeroIsEmpty) unknownDim = UnknownDim::MinusOne;
  std::optional<Inference> shapes = inferred(*lowered, "lowered graph", false, *knownOf(graph, inference, *lowered));
  if (!shapes || shapes->numUnknownShapes || shapes->numUnknownDTypes) return void(unknownDim = UnknownDim::Auto);
  options.inference = &*shapes;
  Expected<GradientResult> result = buildGradient(ctx, *lowered, ofLowered, options);
  if (!result) {
    unknownDim = UnknownDim::Auto;
    Error rest = handleErrors(result.takeError(), [&](std::unique_ptr<GradcError> info) -> Error {
      if (info->kind == ErrorKind::NotDifferentiable && !StringRef(info->message).contains("lowered from"))
        report(stage + " is refused though the graph has one: " + info->message);
      return Error(std::move(info));
    });
    return void(isFine(std::move(rest), stage));
  }
  mustHold(verifyGraph(result->graph, 4), stage + ", verified");
  rereads(result->graph, stage);
  std::optional<Inference> slopes = inferred(result->graph, stage, false, *knownOf(graph, inference, result->graph));
  unknownDim = UnknownDim::Auto;
  if (!slopes) return report(stage + " does not infer");
  checkPlanned(result->graph, *slopes, {}, stage);
  if (level != Level::Run || !isSmall(*slopes) || drawsNumbers(graph) || drawsNumbers(*lowered)) return;
  SessionOptions session;
  session.initSeed = 1 + dice.below(4);
  session.infer.floatAs = DType::Float64;
  session.exec.isTraining = isUsual || dice.chance(60);
  session.exec.backend = Backend::Reference;
  StringMap<Array> inputs;
  const std::optional<Gradients> expected = runGradients(*this, named(*own, request, graph), inputs, session);
  if (zeroIsEmpty) session.infer.unknownDim = UnknownDim::MinusOne;
  const std::optional<Gradients> found =
      expected ? runGradients(*this, named(*result, ofLowered, *lowered), inputs, session) : std::nullopt;
  if (!expected || !found) return;
  for (const auto &gradient : *expected) {
    const auto other = found->find(gradient.first());
    if (other == found->end()) continue;
    const std::string difference = differenceOf(gradient.second.view(), other->second.view());
    if (!difference.empty()) report(stage + ": that of '" + gradient.first() + "' is another one: " + difference);
  }
}

}  // namespace gradc::fuzz
