// Reading, inference, passes. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/exercise.h"

#include "tests/fuzz/grammar.h"
#include "tests/fuzz/trial.h"

#include "formats/json/graph_table.h"
#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ir/graph/text.h"
#include "ir/rules/verify.h"
#include "passes/lowering/lower_to.h"
#include "passes/memory/plan_memory.h"
#include "passes/order/order_mutation.h"
#include "tools/diff/diff.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc::fuzz {
namespace {

// One node of a file may have 65,535 operands, each with a gradient: graphs of more nodes are not read back, nor
// differentiated twice.
constexpr uint32_t kManyNodes = 5000;

std::string jsonOf(const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, graph);
  return text;
}

bool isComplete(const Inference &inference) {
  return inference.numUnknownShapes == 0 && inference.numUnknownDTypes == 0;
}

/// The first node with an output of unknown shape or type.
std::string firstUnknown(const Graph &graph, const Inference &inference) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) {
      const EntryId entry(graph.firstEntry(NodeId(n)).value + o);
      if (inference.isKnownShape(entry) && inference.dtype[entry] != DType::Unknown) continue;
      const OpDef *op = graph.op(NodeId(n));
      return "output " + std::to_string(o) + " of '" + graph.name(NodeId(n)).str() + "' (" +
             (op ? op->name.str() : "null") + ")";
    }
  return "none";
}

int64_t numberOf(const Graph &graph, StringRef key) {
  const GraphAttrs attrs = graphAttrsOf(graph);
  const auto found = attrs.find(key.str());
  return found == attrs.end() ? 0 : found->second.number;
}

}  // namespace

std::optional<Level> parseLevel(StringRef text) {
  if (text == "read") return Level::Read;
  if (text == "plan") return Level::Plan;
  if (text == "run") return Level::Run;
  return std::nullopt;
}

std::string textOf(Error error) {
  std::string text = toString(std::move(error));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, 400);
}

void Trial::report(const Twine &what) {
  if (finding.empty()) finding = what.str();
}

bool Trial::isFine(Error error, StringRef stage) {
  if (!error) return true;
  handleAllErrors(
      std::move(error),
      [&](const GradcError &info) {
        const bool isOurs =
            info.kind == ErrorKind::Internal || info.kind == ErrorKind::BadPlan || info.kind == ErrorKind::Io;
        if (isOurs) report(stage + ": " + info.message + " [" + errorKindName(info.kind) + "]");
        if (info.message.empty()) report(stage + ": an error without a message");
      },
      [&](const ErrorInfoBase &info) { report(stage + ": foreign error: " + info.message()); });
  return false;
}

void Trial::mustHold(Error error, StringRef stage) {
  if (error) report(stage + ": " + textOf(std::move(error)));
}

bool Trial::rereads(const Graph &graph, StringRef stage) {
  if (stage != "input" && (graph.numNodes() > kManyNodes || (!isUsual && !dice.chance(25)))) return true;
  const std::string once = jsonOf(graph);
  Expected<LoadedGraph> again = readJson(ctx, once, ReadOptions());
  if (!again) return report(stage + ", read back: " + textOf(again.takeError())), false;
  if (again->wasUpgraded && stage != "input") report(stage + ": what was written is upgraded when read");
  mustHold(verifyGraph(again->graph, 4), (stage + ", read back and verified").str());
  if (jsonOf(again->graph) != once) report(stage + ": not a fixed point of writing and reading");
  if (!wantsDiff) return true;
  const DiffResult difference = diffGraphs(graph, again->graph, DiffOptions());
  if (difference.numDifferences) report(stage + ": differs from what is read back: " + difference.differences[0].text);
  return true;
}

std::optional<Inference> Trial::inferred(const Graph &graph, StringRef stage, bool mustBeComplete,
                                         const InferRequest &given) {
  InferOptions options;
  options.allowUnknown = true;
  options.unknownDim = unknownDim;
  Expected<Inference> inference = infer(ctx, graph, given, options);
  if (!inference) {
    if (mustBeComplete) report(stage + " does not infer: " + textOf(inference.takeError()));
    else isFine(inference.takeError(), (stage + ", infer").str());
    return std::nullopt;
  }
  if (mustBeComplete && !isComplete(*inference))
    report(stage + ": " + Twine(inference->numUnknownShapes) + " shapes and " + Twine(inference->numUnknownDTypes) +
           " types are unknown behind a graph that is fully known; the first is " + firstUnknown(graph, *inference));
  return std::move(*inference);
}

void Trial::checkPlanned(const Graph &graph, const Inference &inference, ArrayRef<Request> headRequests,
                         StringRef stage) {
  const RequestTable requests = countRequests(graph, headRequests);
  PlanOptions options;
  options.allowInplace = !dice.chance(25);
  Expected<MemoryPlan> plan = planMemory(ctx, graph, inference, requests, options);
  if (!plan) return void(isFine(plan.takeError(), (stage + ", plan").str()));
  mustHold(checkPlan(graph, inference, requests, *plan, options), (stage + ", plan checked").str());
  if (plan->plannedBytes < plan->boundBytes) report(stage + ": the plan is smaller than its bound");
  if (plan->plannedBytes < 0 || plan->externalBytes < 0 || plan->boundBytes < 0)
    report(stage + ": negative bytes in the plan");
  if (plan->peakNode.isValid() && plan->peakNode.value >= graph.numNodes()) report(stage + ": the peak is at no node");
  rereads(annotatePlan(annotate(graph, inference), inference, *plan), (stage + ", planned").str());
}

std::optional<StringMap<NodeId>> variablesOf(const Graph &graph) {
  StringMap<NodeId> named;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)) && !named.try_emplace(graph.name(NodeId(n)), NodeId(n)).second) return std::nullopt;
  return named;
}

std::optional<InferRequest> knownOf(const Graph &graph, const Inference &inference, const Graph &lowered) {
  const std::optional<StringMap<NodeId>> from = variablesOf(graph), to = variablesOf(lowered);
  if (!from || !to) return std::nullopt;
  InferRequest request;
  for (const auto &[name, variable] : *to) {
    const auto found = from->find(name);
    if (found == from->end()) continue;
    const EntryId entry = graph.entry(Value{found->second});
    request.shapes.push_back({variable, DimsBuffer(inference.shapeOf(entry).dims())});
    request.dtypes.push_back({variable, inference.dtype[entry]});
  }
  return request;
}

/// Whether a decomposition is part of what MXNet gets, a loop with other bodies, or reshape_like, which says nothing of
/// its operand. What the operator said of the shapes of nodes before it, or the variables of its bodies, is lost with
/// it.
bool isTakenApart(const Graph &graph) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const NodeKind &kind = graph.kind(NodeId(n));
    if (kind.isVariable() || kind.op->flags.isOpaque || kMxnetTarget.has(kind)) continue;
    const bool hasRow = llvm::any_of(kMxnetTarget.rows, [&](const TargetRow &row) { return row.op == kind.op->name; });
    if (!hasRow || !kind.bodies.empty() || kind.op->name == "_repeat_axes_like") return true;
  }
  return false;
}

bool takesShapesFromReaders(const Graph &graph, bool isBody) {
  return llvm::any_of(graph.kinds(), [&](const KindRef &kind) {
    if (isBody && kind->op && kind->op->name == "Reshape" && !kind->inherited.get("shape") &&
        !kind->inherited.get("target_shape"))
      return true;
    return llvm::any_of(kind->bodies, [](const Graph &body) { return takesShapesFromReaders(body, true); });
  });
}

/// What every graph that a pass may yield has to withstand.
void Trial::checkGraph(const Graph &graph, const Inference &inference, StringRef stage) {
  std::string text;
  raw_string_ostream os(text);
  printText(os, graph);
  Expected<std::optional<GradientTable>> table = readGradientTable(graph);
  std::vector<Request> requests;
  if (!table) isFine(table.takeError(), (stage + ", side table").str());
  else if (*table)
    for (const GradientTable::Head &head : (*table)->heads) requests.push_back(head.request);
  checkPlanned(graph, inference, requests, stage);
  Expected<Graph> lowered = lowerTo(ctx, graph, kMxnetTarget, &inference);
  if (!lowered) return void(isFine(lowered.takeError(), (stage + ", lowering").str()));
  mustHold(verifyGraph(*lowered, 4), (stage + ", lowered and verified").str());
  // MXNet 1.9.1 has no empty arrays: the same file means the same to its readers only with --unknown-dim.
  if (zeroIsEmpty) unknownDim = UnknownDim::MinusOne;
  std::optional<InferRequest> known;
  if (isComplete(inference) && !isListed && !isTakenApart(graph)) known = knownOf(graph, inference, *lowered);
  inferred(*lowered, (stage + ", lowered").str(), known.has_value(), known.value_or(InferRequest()));
  unknownDim = UnknownDim::Auto;
}

void Trial::checkGradient(const Graph &graph, const Inference &inference, uint32_t order) {
  const std::string stage = "gradient of order " + std::to_string(order);
  const GradientRequest request = drawRequest(graph, inference);
  GradientOptions options = drawOptions();
  options.inference = &inference;
  const bool isKnown = isComplete(inference);
  Expected<GradientResult> result = buildGradientOfOrder(ctx, graph, request, options, order);
  if (!result) {
    // To an operator that has no gradient, a refusal that names its node is the answer.
    Error refusal = amend(result.takeError(), [&](GradcError &info) {
      const Place &place = info.place;
      if (info.kind != ErrorKind::NotDifferentiable || !isKnown || order != 1) return;
      if (!place.node.isValid() || !place.path.empty()) return;
      const OpDef *op = graph.op(place.node);
      if (op && !op->isDifferentiable()) tally.count(*op, Reached::Differentiated);
    });
    return void(isFine(std::move(refusal), stage));
  }
  mustHold(verifyGraph(result->graph, 4), stage + ", verified");
  mustHold(checkMutationOrder(result->graph), stage + ", order of mutations");
  rereads(result->graph, stage);
  if (order == 1 && level == Level::Run && !options.gradientOnly && isKnown && isSmall(inference))
    checkForms(graph, result->graph, stage);
  // A head gradient of the user's may have another shape than its output (E-38). Without its forward part a graph may
  // have lost what made a variable known.
  const bool mayBeUnknown =
      isListed || options.gradientOnly || takesShapesFromReaders(graph) ||
      llvm::any_of(request.heads, [](const GradientHead &head) { return head.seed || !head.seedName.empty(); });
  std::optional<Inference> shapes = inferred(result->graph, stage, isKnown && !mayBeUnknown);
  if (!shapes) return;
  checkGraph(result->graph, *shapes, stage);
  if (isKnown && isComplete(*shapes) && order == 1) countDifferentiated(graph, request, options);
  if (isKnown && isComplete(*shapes) && level == Level::Run) checkRun(result->graph, *shapes, stage);
}

void Trial::checkPasses(const Graph &graph, const Inference &inference) {
  const Graph annotated = annotate(graph, inference);
  rereads(annotated, "annotated");
  const bool isKnown = isComplete(inference);
  if (isKnown) inferred(annotated, "annotated", true);
  Expected<OrderedGraph> ordered = orderMutations(ctx, graph, OverwrittenPolicy::Save);
  if (!ordered) return void(isFine(ordered.takeError(), "order of mutations"));
  mustHold(verifyGraph(ordered->graph, 4), "put in order and verified");
  mustHold(checkMutationOrder(ordered->graph), "put in order");
  std::optional<Inference> shapes = inferred(ordered->graph, "put in order", isKnown);
  if (!shapes) return;
  checkGraph(ordered->graph, *shapes, "graph");
  if (isKnown) countNodes(ordered->graph, Reached::Inferred);
  if (isKnown && level == Level::Run) checkRun(ordered->graph, *shapes, "graph");
  if (isKnown && level == Level::Run && isSmall(*shapes)) checkForms(graph, ordered->graph, "put in order");
  if (isKnown && (isUsual || dice.chance(30))) checkLoweredGradient(ordered->graph, *shapes);
  const uint32_t orders = ordered->graph.numNodes() > kManyNodes ? 1 : 2;
  for (uint32_t order = 1; order <= orders; ++order) checkGradient(ordered->graph, *shapes, order);
}

std::string exercise(const OpRegistry &ops, StringRef text, const ExerciseOptions &options, Tally &tally) {
  Context ctx;
  ctx.ops = ops;
  Expected<LoadedGraph> loaded = readJson(ctx, text, ReadOptions());
  Trial trial{ctx, options.level, options.maxRunBytes, tally};
  if (!loaded) {
    trial.isFine(loaded.takeError(), "read");
    return trial.finding;
  }
  const Graph &graph = loaded->graph;
  trial.seed(static_cast<uint64_t>(numberOf(graph, kChoiceKey)));
  trial.isListed = !graph.table().entries.shapes.empty();
  trial.zeroIsEmpty = numberOf(graph, "mxnet_version") >= 20000;
  trial.wantsDiff = options.level != Level::Read;
  if (Error error = verifyGraph(graph, 4)) {
    trial.isFine(std::move(error), "verify");
    return trial.finding;
  }
  trial.rereads(graph, "input");
  std::optional<Inference> inference = trial.inferred(graph, "input", false);
  if (inference && options.level != Level::Read) trial.checkPasses(graph, *inference);
  return trial.finding;
}

}  // namespace gradc::fuzz
