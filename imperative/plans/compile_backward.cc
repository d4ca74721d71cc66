// Phases: the recorded graph, its gradient, the backward part of that, kernels, memory, instructions; then the places
// where a tape of the same structure keeps what the instructions read. Linear. Tested by
// tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/plan.h"

#include "imperative/plans/recorded_graph.h"
#include "imperative/tape/function_op.h"

#include "ops/kit/builtin.h"
#include "ops/kit/output_reads.h"
#include "passes/memory/plan_memory.h"
#include "runtime/executor/failures.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Compiler {
 public:
  Compiler(Context &context, TapeShapes &shapes, const Collected &collected, const BackwardRequest &request,
           const SignatureOptions &options, function_ref<std::string(const TapeNode &)> describe)
      : ctx(context), shapes(shapes), collected(collected), request(request), options(options), describe(describe),
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
    listDraws();
    listSlots();
    listHeads();
    listTaps();
    listHostCalls();
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
    GradientRequest asked;
    for (auto [i, head] : enumerate(request.heads))
      asked.heads.push_back({recorded(head.y), {}, head.isGiven ? "head" + utostr(i) : std::string()});
    for (uint32_t x : request.wrt) asked.wrt.push_back({recorded(x)});
    for (uint32_t x : request.retained) asked.retained.push_back({recorded(x)});
    for (uint32_t x : request.noGrad) asked.noGrad.push_back(recorded(x));
    for (uint32_t x : request.taps) asked.taps.push_back(recorded(x));
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
    Expected<GradientResult> made = buildGradient(ctx, recorded.graph, asked, gradientOptions);
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

  template <class Visit> void forReads(const Graph &graph, Visit visit) const {
    const RequestTable requests = countRequests(graph, {});
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      const NodeId n(id);
      if (graph.isVariable(n)) continue;
      const uint32_t first = graph.firstEntry(n).value;
      const auto isWanted = [&](uint32_t o) { return requests.request[EntryId(first + o)] != Request::Null; };
      for (auto [i, v] : enumerate(graph.inputs(n)))
        if (readsInput(graph.kind(n), i, isWanted)) visit(n, graph.entry(v));
    }
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
      info.notes.push_back({"in " + describe(*collected.nodes()[static_cast<size_t>(at - recorded.calls.begin())])});
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
      const NodeId node = now(NodeId(n));
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

  NodeId now(NodeId recordedNode) const {
    if (!recordedNode.isValid() || gradient.forwardIds.empty()) return recordedNode;
    return gradient.forwardIds[recordedNode.value];
  }

  /// Which call a node of the combined graph is, or comes from.
  void mapCalls() {
    const Graph &combined = source->combined, &backward = source->split.backward;
    std::vector<uint32_t> &callOf = source->callOf, &leafOf = source->leafOf;
    callOf.assign(combined.numNodes(), Plan::kNone);
    leafOf.assign(combined.numNodes(), Plan::kNone);
    for (auto [i, leaf] : enumerate(recorded.leaves))
      if (const NodeId node = now(leaf.node); node.isValid()) leafOf[node.value] = static_cast<uint32_t>(i);
    for (auto [i, n] : enumerate(recorded.calls))
      if (const NodeId node = now(n); node.isValid()) callOf[node.value] = static_cast<uint32_t>(i);
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

  /// RET-08: a gradient also repeats the numbers that its call drew.
  void listDraws() {
    for (auto [i, instruction] : enumerate(plan->list.instructions)) {
      const uint32_t call = callOf(instruction.node);
      const NodeKind &kind = *instruction.kind;
      if (call != Plan::kNone && (kind.draws || kind.drawsInside))
        plan->draws.push_back({static_cast<uint32_t>(i), call});
    }
  }

  /// Lists where the tape keeps what the instructions read.
  void listSlots() {
    const Graph &combined = source->combined, &backward = source->split.backward;
    DenseMap<uint32_t, uint32_t> numberOf;  // entry of the combined graph → position in `found`
    struct Found {
      Value value;
      SmallVector<Plan::Slot, 2> slots;
      uint32_t lastReader = 0;
      SmallVector<uint32_t, 2> readers = {};  // calls whose gradients read it; kNone: something else does
    };
    std::vector<Found> found;
    EntryMap<uint32_t> positionOf(backward, Plan::kNone);
    for (const CrossingValue &crossing : source->split.saved) {
      numberOf[combined.entry(crossing.entry).value] = static_cast<uint32_t>(found.size());
      positionOf[backward.firstEntry(crossing.variable)] = static_cast<uint32_t>(found.size());
      found.push_back({crossing.entry, {}});
    }
    for (auto [i, node] : enumerate(collected.nodes())) {
      const Signature &signature = *node->signature;
      const NodeId n = now(recorded.calls[i]);
      if (!n.isValid()) continue;
      for (auto [k, operand] : enumerate(signature.kept)) {
        const bool isInput = signature.isInput(operand);
        const Value value =
            isInput ? combined.inputs(n)[operand] : Value{n, static_cast<uint16_t>(operand - signature.numInputs()), 0};
        const auto at = numberOf.find(combined.entry(value).value);
        if (at != numberOf.end())
          found[at->second].slots.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(k)});
      }
    }
    for (auto [i, instruction] : enumerate(plan->list.instructions))
      for (Value v : backward.inputs(instruction.node))
        if (const uint32_t position = positionOf[backward.entry(v)]; position != Plan::kNone)
          found[position].lastReader = static_cast<uint32_t>(i);
    // A result that is such a value is copied behind the last instruction.
    const InstructionList &list = plan->list;
    for (const HeadStep &step : list.steps)
      if (const uint32_t position = positionOf[list.operandEntry[step.from]]; position != Plan::kNone)
        found[position].lastReader = static_cast<uint32_t>(list.instructions.size());
    std::vector<uint32_t> order(found.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return found[a].lastReader < found[b].lastReader; });
    // The call that a gradient belongs to has kept what it reads, in the version that it needs.
    forReads(backward, [&](NodeId n, EntryId e) {
      if (positionOf[e] != Plan::kNone) found[positionOf[e]].readers.push_back(callOf(n));
    });
    for (Value head : backward.heads())
      if (const uint32_t position = positionOf[backward.entry(head)]; position != Plan::kNone)
        found[position].readers.push_back(Plan::kNone);
    for (uint32_t i : order) {
      const uint32_t first = static_cast<uint32_t>(plan->slots.size());
      SmallVectorImpl<Plan::Slot> &slots = found[i].slots;
      SmallVectorImpl<uint32_t> &readers = found[i].readers;
      llvm::sort(readers);
      readers.erase(llvm::unique(readers), readers.end());
      const auto rest = std::stable_partition(slots.begin(), slots.end(),
                                              [&](Plan::Slot slot) { return llvm::binary_search(readers, slot.node); });
      SmallVector<uint32_t, 2> keepers;
      for (const Plan::Slot &slot : make_range(slots.begin(), rest))
        if (keepers.empty() || keepers.back() != slot.node) keepers.push_back(slot.node);
      const bool isExact = keepers.size() == readers.size();
      const size_t numRead = isExact ? static_cast<size_t>(rest - slots.begin()) : slots.size();
      llvm::append_range(plan->slots, slots);
      plan->saved.push_back({backward.firstEntry(source->split.saved[i].variable), first,
                             first + static_cast<uint32_t>(numRead), static_cast<uint32_t>(plan->slots.size()),
                             found[i].lastReader});
      source->savedValue.push_back(found[i].value);
    }
  }

  /// The given head gradients, and the heads of the results.
  void listHeads() {
    const Graph &combined = source->combined, &backward = source->split.backward;
    StringMap<NodeId> seeds;
    for (uint32_t n = gradient.stats.numForwardNodes; n < combined.numNodes(); ++n)
      if (combined.isVariable(NodeId(n))) seeds[combined.name(NodeId(n))] = NodeId(n);
    for (auto [i, head] : enumerate(request.heads)) {
      plan->headEntry.emplace_back();
      source->headValue.emplace_back();
      if (!head.isGiven) continue;
      const auto at = seeds.find(gradient.seedNames[i]);
      if (at == seeds.end()) continue;
      source->headValue.back() = Value{at->second};
      if (const NodeId n = source->split.newId[at->second.value]; n.isValid())
        plan->headEntry.back() = backward.firstEntry(n);
    }
    uint32_t next = 0;
    for (const std::vector<GradientSlot> *slots : {&gradient.wrt, &gradient.retained})
      for (const GradientSlot &slot : *slots) {
        const bool isComputed = slot.status == SlotStatus::Grad && !combined.isVariable(slot.value.node);
        plan->isZeros.push_back(slot.status == SlotStatus::Zeros ||
                                (isComputed && combined.op(slot.value.node)->flags.isZero));
        plan->results.push_back(slot.status == SlotStatus::None ? Plan::kNone : next++);
      }
    listHeadMemory();
  }

  void listHeadMemory() {
    const InstructionList &list = plan->list;
    EntryMap<uint32_t> headOf(list.graph, Plan::kNone);
    std::vector<uint32_t> firstWriter(list.heads.size(), 0);
    std::vector<std::vector<uint32_t>> operands(list.heads.size());
    for (auto [h, e] : enumerate(list.headEntry))
      if (e.isValid()) headOf[e] = static_cast<uint32_t>(h);
    for (auto [i, instruction] : enumerate(list.instructions)) {
      const EntryId first = list.graph.firstEntry(instruction.node);
      for (uint32_t o = 0; o < list.graph.numOutputs(instruction.node); ++o)
        if (const uint32_t h = headOf[EntryId(first.value + o)]; h != Plan::kNone)
          firstWriter[h] = static_cast<uint32_t>(i);
    }
    for (auto [k, e] : enumerate(list.operandEntry))
      if (headOf[e] != Plan::kNone) operands[headOf[e]].push_back(static_cast<uint32_t>(k));
    for (uint32_t h = 0; h < list.heads.size(); ++h) {
      const uint32_t first = static_cast<uint32_t>(plan->operandsOfHeads.size());
      llvm::append_range(plan->operandsOfHeads, operands[h]);
      plan->heads.push_back({h, firstWriter[h], first, static_cast<uint32_t>(plan->operandsOfHeads.size())});
    }
    llvm::stable_sort(plan->heads, [](const Plan::HeadMemory &a, const Plan::HeadMemory &b) {
      return a.firstWriter < b.firstWriter;
    });
  }

  void listTaps() {
    source->tapNodes = gradient.taps;
    NodeMap<uint32_t> tapOf(plan->list.graph, Plan::kNone);
    for (auto [t, node] : enumerate(gradient.taps))
      if (node.isValid()) tapOf[source->split.newId[node.value]] = static_cast<uint32_t>(t);
    listEmptyTaps(tapOf);
    bool hasFunctions = false;
    plan->list.setFailure(plan->failure.address());
    for (auto [i, instruction] : enumerate(plan->list.instructions)) {
      const uint32_t t = tapOf[instruction.node];
      const bool isFunction = instruction.kind->op == &kFunctionGradient;
      if (t != Plan::kNone || isFunction) plan->stops.push_back({static_cast<uint32_t>(i), t});
      hasFunctions |= isFunction;
    }
    llvm::stable_sort(plan->stops,
                      [](const Plan::Stop &a, const Plan::Stop &b) { return a.instruction < b.instruction; });
    if (hasFunctions) listGradients();
  }

  /// In the order of the nodes, which is that of the instructions.
  void listEmptyTaps(const NodeMap<uint32_t> &tapOf) {
    const InstructionList &list = plan->list;
    uint32_t next = 0;
    for (uint32_t n = 0; n < list.graph.numNodes(); ++n) {
      while (next < list.instructions.size() && list.instructions[next].node.value < n) ++next;
      if (tapOf[NodeId(n)] != Plan::kNone && list.inference.elements(list.graph.firstEntry(NodeId(n))) == 0)
        plan->stops.push_back({next, tapOf[NodeId(n)], NodeId(n)});
    }
  }

  /// Operators of the host, whose kernels may fail, or look for the object of their call.
  void listHostCalls() {
    SmallPtrSet<const NodeKind *, 4> hosts;
    for (const KindRef &kind : plan->list.graph.kinds()) {
      if (kind->op && !isBuiltinOp(*kind->op)) hosts.insert(kind.get());
      plan->hasHostCode |= hosts.contains(kind.get()) || !kind->bodies.empty();
    }
    if (hosts.empty()) return;
    for (auto [i, instruction] : enumerate(plan->list.instructions)) {
      const uint32_t call = callOf(instruction.node);
      if (call == Plan::kNone || !hosts.contains(instruction.kind)) continue;
      plan->hostCalls.push_back({static_cast<uint32_t>(i), call});
      plan->list.needExtras(instruction);
    }
  }

  /// Marks the entries that a gradient flows through: they have none if none arrives because a function gave none.
  void listGradients() {
    const Graph &backward = source->split.backward;
    BitVector &isGradient = plan->isGradient;
    isGradient.resize(backward.numEntries());
    for (EntryId e : plan->headEntry)
      if (e.isValid()) isGradient.set(e.value);
    for (uint32_t n = 0; n < backward.numNodes(); ++n) {
      const NodeId node(n);
      if (backward.isVariable(node)) continue;
      const OpDef *const op = backward.op(node);
      const bool isOn = op == &kFunctionGradient || op == ctx.ops.wellKnown.onesLike ||
                        any_of(backward.inputs(node), [&](Value v) { return isGradient[backward.entry(v).value]; });
      const uint32_t first = backward.firstEntry(node).value;
      if (isOn) isGradient.set(first, first + backward.numOutputs(node));
    }
  }

  Context &ctx;
  TapeShapes &shapes;
  const Collected &collected;
  const BackwardRequest &request;
  const SignatureOptions &options;
  const function_ref<std::string(const TapeNode &)> describe;
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
                                                bool keepsSource,
                                                function_ref<std::string(const TapeNode &)> describe) {
  return Compiler(context, shapes, collected, request, options, describe).run(keepsSource);
}

}  // namespace gradc
