// Phases: the recorded graph, its gradient, the backward part of that, kernels, memory, instructions; then the places
// where a tape of the same structure keeps what the instructions read. Linear. Tested by
// tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/compile_backward.h"

#include "imperative/plans/plan_places.h"
#include "passes/memory/plan_memory.h"
#include "runtime/executor/failures.h"
#include "runtime/executor/instructions.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Compiler {
 public:
  Compiler(Context &context, TapeShapes &shapes, const Collected &collected, const BackwardRequest &request,
           const SignatureOptions &options)
      : ctx(context), shapes(shapes), collected(collected), request(request), options(options),
        plan(std::make_unique<Plan>()), source(std::make_unique<PlanSource>()) {}

  Expected<std::unique_ptr<Plan>> run(bool keepsSource) {
    SmallVector<uint32_t, 4> ys;
    for (const BackwardRequest::Head &head : request.heads) ys.push_back(head.y);
    Expected<RecordedGraph> graph = recordedGraph(ctx, shapes, collected, ys, RecordedNames::Messages);
    if (!graph) return graph.takeError();
    recorded = std::move(*graph);
    if (Error error = differentiate()) return error;
    mapCalls();
    if (Error error = prepare()) return error;
    listPlaces(ctx, collected, request, recorded, gradient, *source, *plan);
    if (plan->stops.empty() && request.taps.empty()) trim();
    holdKey();
    if (keepsSource) {
      source->inference = std::move(inference);
      plan->source = std::move(source);
    }
    plan->saved.shrink_to_fit();
    plan->slots.shrink_to_fit();
    plan->callOf.shrink_to_fit();
    plan->operandsOfHeads.shrink_to_fit();
    plan->bytes = plan->heapBytes();
    return std::move(plan);
  }

 private:
  Error differentiate() {
    GradientRequest wanted;
    for (auto [i, head] : enumerate(request.heads))
      wanted.heads.push_back({recorded(head.y), {}, head.isGiven ? "head" + utostr(i) : std::string()});
    for (uint32_t x : request.wrt) wanted.wrt.push_back({recorded(x)});
    for (uint32_t x : request.retained) wanted.retained.push_back({recorded(x)});
    for (uint32_t x : request.noGrad) wanted.noGrad.push_back(recorded(x));
    for (uint32_t x : request.taps) wanted.taps.push_back(recorded(x));
    GradientOptions gradientOptions;
    gradientOptions.headPolicy = request.headPolicy;
    gradientOptions.duplicates = request.duplicates;
    gradientOptions.unused = request.unused;
    gradientOptions.controlOnly = request.policies.controlOnly;
    gradientOptions.reach = request.policies.reach;
    gradientOptions.sumCap = request.policies.sumCap;
    gradientOptions.chain = request.policies.chain;
    gradientOptions.integers = options.integers;
    gradientOptions.inference = &recorded.inference;
    Expected<GradientResult> made = buildGradient(ctx, recorded.graph, wanted, gradientOptions);
    if (!made) return atCall(made.takeError());
    gradient = std::move(*made);
    source->combined = gradient.graph;
    InferOptions inferOptions;
    const uint32_t numForward = gradient.stats.numForwardNodes;
    const bool isForwardKept = gradient.forwardIds.empty() && entriesBefore(numForward) == recorded.graph.numEntries();
    inferOptions.forward = isForwardKept ? &recorded.inference : nullptr;
    InferRequest hints;
    if (!inferOptions.forward) hints = hintsOfVariables();
    Expected<Inference> known = infer(ctx, source->combined, hints, inferOptions);
    if (!known) return known.takeError();
    source->numForwardNodes = numForward;
    source->numForwardHeads = static_cast<uint32_t>(recorded.graph.heads().size());
    Expected<SplitGradient> split = splitGradient(ctx, source->combined, numForward, source->numForwardHeads);
    if (!split) return split.takeError();
    source->split = std::move(*split);
    dropUnread();
    inference = backwardInference(source->split, source->combined, *known);
    return Error::success();
  }

  /// Of an operand that no requested output depends on, the shape is enough.
  void dropUnread() {
    const Graph &graph = source->split.backward;
    BitVector isRead(graph.numEntries());
    forReads(graph, [&](NodeId, EntryId e) { isRead.set(e.value); });
    for (Value head : graph.heads()) isRead.set(graph.entry(head).value);
    std::vector<CrossingValue> &saved = source->split.saved;
    const auto unread = std::stable_partition(saved.begin(), saved.end(), [&](const CrossingValue &crossing) {
      return isRead[graph.firstEntry(crossing.variable).value];
    });
    source->split.shapesOnly.insert(source->split.shapesOnly.end(), unread, saved.end());
    saved.erase(unread, saved.end());
  }

  /// Moves the shapes of operands to the table of the Imperative.
  void trim() {
    ShapeTable known;
    plan->list.trim(known);
    DenseMap<const int64_t *, Dims> ownOf;
    auto own = [&](Dims &dims) {
      if (dims.empty()) return void(dims = Dims());
      const auto [at, isNew] = ownOf.try_emplace(dims.data());
      if (isNew) {
        at->second = shapes[*shapes.intern(dims)].dims();
        plan->shapes.add(at->second.data());
      }
      dims = at->second;
    };
    for (TensorRef &operand : plan->list.operands) own(operand.shape);
    for (TensorRef &head : plan->list.heads)
      if (head.data) own(head.shape);
  }

  void holdKey() {
    DenseSet<const Signature *> held;
    for (TapeNode *node : collected.nodes()) {
      if (!held.insert(node->signature).second) continue;
      plan->signatures.push_back(node->signature);
      retain(node->signature);
    }
    for (const Mark *mark : collected.leaves()) plan->shapes.add(mark->dims);
    for (const TapeValue &value : collected.outside()) plan->shapes.add(shapes, value.type.shape);
  }

  /// An error at a node of the recorded graph, with the call that it is.
  Error atCall(Error error) const {
    return amend(std::move(error), [&](GradcError &info) {
      const auto at = find(recorded.calls, info.place.node);
      if (!info.place.node.isValid() || at == recorded.calls.end()) return;
      info.notes.push_back(
          {"in " + describeFully(*collected.nodes()[static_cast<size_t>(at - recorded.calls.begin())])});
    });
  }

  uint32_t entriesBefore(uint32_t n) const {
    const Graph &graph = source->combined;
    return n < graph.numNodes() ? graph.firstEntry(NodeId(n)).value : graph.numEntries();
  }

  /// For a gradient that renumbered the forward part.
  InferRequest hintsOfVariables() {
    InferRequest hints;
    for (uint32_t n = 0; n < recorded.graph.numNodes(); ++n) {
      const NodeId node = nodeAfter(gradient, NodeId(n));
      if (!recorded.graph.isVariable(NodeId(n)) || !node.isValid()) continue;
      const EntryId e = recorded.graph.firstEntry(NodeId(n));
      const Dims dims = recorded.inference.shapeOf(e).dims();
      hints.shapes.push_back({node, DimsBuffer(dims.begin(), dims.end())});
      hints.dtypes.push_back({node, recorded.inference.dtype[e]});
    }
    return hints;
  }

  Error prepare() {
    const Graph &graph = source->split.backward;
    const RequestTable requests = countRequests(graph, {});
    const std::vector<CallForm> forms = formsOf(graph);
    KernelSet kernels;
    PlanOptions planOptions;
    auto make = [&]() -> Error {
      KernelSetOptions kernelOptions;
      kernelOptions.forms = forms;
      kernelOptions.threads = options.threads;
      kernels = KernelSet::create(graph, inference, requests, kernelOptions);
      return Error::success();
    };
    if (options.backend == Backend::Auto) {
      if (Error error = catching("to prepare the kernels of a backward", make)) return error;
      planOptions.workspaceOf = KernelSet::planWorkspace;
      planOptions.user = &kernels;
    }
    Expected<MemoryPlan> placed = planMemory(ctx, graph, inference, requests, planOptions);
    if (!placed) return placed.takeError();
    memory = std::move(*placed);
    plan->arenaBytes = static_cast<size_t>(memory.plannedBytes);
    ExecOptions exec;
    exec.backend = options.backend;
    exec.forms = forms;
    exec.threads = options.threads;
    exec.kernels = options.backend == Backend::Auto ? &kernels : nullptr;
    // Any address: those of the arena and of heads are set for each run.
    alignas(kPlanAlignment) static char nowhere[kPlanAlignment];
    exec.arena = nowhere;
    const std::vector<void *> headMemory(graph.heads().size(), nowhere);
    exec.headMemory = headMemory;
    auto list = [&]() -> Error {
      Expected<InstructionList> made = prepareInstructions(graph, inference, requests, memory, exec);
      if (!made) return made.takeError();
      plan->list = std::move(*made);
      plan->places = ArenaPlaces(plan->list, memory, nowhere);
      return Error::success();
    };
    return catching("to prepare a backward", list);
  }

  /// Which call a node of the combined graph is, or comes from.
  void mapCalls() {
    const Graph &combined = source->combined, &backward = source->split.backward;
    std::vector<uint32_t> &callOf = source->callOf, &leafOf = source->leafOf;
    callOf.assign(combined.numNodes(), Plan::kNone);
    leafOf.assign(combined.numNodes(), Plan::kNone);
    for (auto [i, leaf] : enumerate(recorded.leaves))
      if (const NodeId node = nodeAfter(gradient, leaf.node); node.isValid())
        leafOf[node.value] = static_cast<uint32_t>(i);
    for (auto [i, n] : enumerate(recorded.calls))
      if (const NodeId node = nodeAfter(gradient, n); node.isValid()) callOf[node.value] = static_cast<uint32_t>(i);
    for (uint32_t n = 0; n < combined.numNodes(); ++n)
      if (const NodeId origin = combined.origin(NodeId(n)); origin.isValid()) callOf[n] = callOf[origin.value];
    for (uint32_t n = 0; n < backward.numNodes(); ++n)
      plan->callOf.push_back(callOf[source->split.source[n].node.value]);
  }

  uint32_t callOf(NodeId n) const { return plan->callOf[n.value]; }

  /// RET-08: a gradient is computed in the form its call had.
  std::vector<CallForm> formsOf(const Graph &backward) const {
    std::vector<CallForm> forms(backward.numNodes());
    for (uint32_t n = 0; n < backward.numNodes(); ++n)
      if (const uint32_t call = callOf(NodeId(n)); call != Plan::kNone)
        forms[n].isTraining = collected.nodes()[call]->signature->isTraining;
    return forms;
  }

  Context &ctx;
  TapeShapes &shapes;
  const Collected &collected;
  const BackwardRequest &request;
  const SignatureOptions &options;
  std::unique_ptr<Plan> plan;
  std::unique_ptr<PlanSource> source;
  RecordedGraph recorded;
  GradientResult gradient;
  Inference inference;
  MemoryPlan memory;
};

}  // namespace

Expected<std::unique_ptr<Plan>> compileBackward(Context &context, TapeShapes &shapes, const Collected &collected,
                                                const BackwardRequest &request, const SignatureOptions &options,
                                                bool keepsSource) {
  return Compiler(context, shapes, collected, request, options).run(keepsSource);
}

}  // namespace gradc
