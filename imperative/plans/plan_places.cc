// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/plan_places.h"

#include "imperative/tape/function_op.h"
#include "ops/kit/families.h"
#include "ops/kit/output_reads.h"

#include "ir/base/dense_map.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

class Places {
 public:
  Places(const Context &context, const Collected &collected, const BackwardRequest &request,
         const RecordedGraph &recorded, const GradientResult &gradient, PlanSource &source, Plan &plan)
      : ctx(context), collected(collected), request(request), recorded(recorded), gradient(gradient), source(source),
        plan(plan) {}

  void run() {
    listDraws();
    listSlots();
    listHeads();
    listTaps();
    listHostCalls();
  }

 private:
  uint32_t callOf(NodeId n) const { return plan.callOf[n.value]; }

  /// RET-08: a gradient also repeats the numbers that its call drew.
  void listDraws() {
    for (auto [i, instruction] : enumerate(plan.list.instructions)) {
      const uint32_t call = callOf(instruction.node);
      const NodeKind &kind = *instruction.kind;
      if (call != Plan::kNone && (kind.draws || kind.drawsInBodies))
        plan.draws.push_back({static_cast<uint32_t>(i), call});
    }
  }

  /// Lists where the tape keeps what the instructions read.
  void listSlots() {
    const Graph &combined = source.combined, &backward = source.split.backward;
    DenseMap<uint32_t, uint32_t> numberOf;  // entry of the combined graph → position in `found`
    struct Found {
      Value value;
      SmallVector<Plan::Slot, 2> slots;
      uint32_t lastReader = 0;
      SmallVector<uint32_t, 2> readers = {};  // calls whose gradients read it; kNone: something else does
    };
    std::vector<Found> found;
    EntryMap<uint32_t> positionOf(backward, Plan::kNone);
    for (const CrossingValue &crossing : source.split.saved) {
      numberOf[combined.entry(crossing.entry).value] = static_cast<uint32_t>(found.size());
      positionOf[backward.firstEntry(crossing.variable)] = static_cast<uint32_t>(found.size());
      found.push_back({crossing.entry, {}});
    }
    for (auto [i, node] : enumerate(collected.nodes())) {
      const Signature &signature = *node->signature;
      const NodeId n = nodeAfter(gradient, recorded.calls[i]);
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
    for (auto [i, instruction] : enumerate(plan.list.instructions))
      for (Value v : backward.inputs(instruction.node))
        if (const uint32_t position = positionOf[backward.entry(v)]; position != Plan::kNone)
          found[position].lastReader = static_cast<uint32_t>(i);
    // A result that is such a value is copied behind the last instruction.
    const InstructionList &list = plan.list;
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
      const uint32_t first = static_cast<uint32_t>(plan.slots.size());
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
      llvm::append_range(plan.slots, slots);
      plan.saved.push_back({backward.firstEntry(source.split.saved[i].variable), first,
                            first + static_cast<uint32_t>(numRead), static_cast<uint32_t>(plan.slots.size()),
                            found[i].lastReader});
      source.savedValue.push_back(found[i].value);
    }
  }

  /// The given head gradients, and the heads of the results.
  void listHeads() {
    const Graph &combined = source.combined, &backward = source.split.backward;
    StringMap<NodeId> seeds;
    for (uint32_t n = gradient.stats.numForwardNodes; n < combined.numNodes(); ++n)
      if (combined.isVariable(NodeId(n))) seeds[combined.name(NodeId(n))] = NodeId(n);
    for (auto [i, head] : enumerate(request.heads)) {
      plan.headEntry.emplace_back();
      source.headValue.emplace_back();
      if (!head.isGiven) continue;
      const auto at = seeds.find(gradient.seedNames[i]);
      if (at == seeds.end()) continue;
      source.headValue.back() = Value{at->second};
      if (const NodeId n = source.split.newId[at->second.value]; n.isValid())
        plan.headEntry.back() = backward.firstEntry(n);
    }
    uint32_t next = 0;
    for (const std::vector<GradientSlot> *slots : {&gradient.wrt, &gradient.retained})
      for (const GradientSlot &slot : *slots) {
        const bool isComputed = slot.status == SlotStatus::Grad && !combined.isVariable(slot.value.node);
        plan.isZeros.push_back(slot.status == SlotStatus::Zeros ||
                               (isComputed && combined.op(slot.value.node)->flags.isZero));
        plan.results.push_back(slot.status == SlotStatus::None ? Plan::kNone : next++);
      }
    listHeadMemory();
  }

  void listHeadMemory() {
    const InstructionList &list = plan.list;
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
      const uint32_t first = static_cast<uint32_t>(plan.operandsOfHeads.size());
      llvm::append_range(plan.operandsOfHeads, operands[h]);
      plan.heads.push_back({h, firstWriter[h], first, static_cast<uint32_t>(plan.operandsOfHeads.size())});
    }
    llvm::stable_sort(
        plan.heads, [](const Plan::HeadMemory &a, const Plan::HeadMemory &b) { return a.firstWriter < b.firstWriter; });
  }

  void listTaps() {
    source.tapNodes = gradient.taps;
    NodeMap<uint32_t> tapOf(plan.list.graph, Plan::kNone);
    for (auto [t, node] : enumerate(gradient.taps))
      if (node.isValid()) tapOf[source.split.newId[node.value]] = static_cast<uint32_t>(t);
    listEmptyTaps(tapOf);
    bool hasFunctions = false;
    plan.list.setFailure(plan.failure.address());
    for (auto [i, instruction] : enumerate(plan.list.instructions)) {
      const uint32_t t = tapOf[instruction.node];
      const bool isFunction = instruction.kind->op == &kFunctionGradient;
      if (t != Plan::kNone || isFunction) plan.stops.push_back({static_cast<uint32_t>(i), t});
      hasFunctions |= isFunction;
    }
    llvm::stable_sort(plan.stops,
                      [](const Plan::Stop &a, const Plan::Stop &b) { return a.instruction < b.instruction; });
    if (hasFunctions) listGradients();
  }

  /// In the order of the nodes, which is that of the instructions.
  void listEmptyTaps(const NodeMap<uint32_t> &tapOf) {
    const InstructionList &list = plan.list;
    uint32_t next = 0;
    for (uint32_t n = 0; n < list.graph.numNodes(); ++n) {
      while (next < list.instructions.size() && list.instructions[next].node.value < n) ++next;
      if (tapOf[NodeId(n)] != Plan::kNone && list.inference.elements(list.graph.firstEntry(NodeId(n))) == 0)
        plan.stops.push_back({next, tapOf[NodeId(n)], NodeId(n)});
    }
  }

  /// Operators of the host, whose kernels may fail, or look for the object of their call.
  void listHostCalls() {
    SmallPtrSet<const NodeKind *, 4> hosts;
    for (const KindRef &kind : plan.list.graph.kinds()) {
      if (kind->op && !isBuiltinOp(*kind->op)) hosts.insert(kind.get());
      plan.hasHostCode |= hosts.contains(kind.get()) || !kind->bodies.empty();
    }
    if (hosts.empty()) return;
    for (auto [i, instruction] : enumerate(plan.list.instructions)) {
      const uint32_t call = callOf(instruction.node);
      if (call == Plan::kNone || !hosts.contains(instruction.kind)) continue;
      plan.hostCalls.push_back({static_cast<uint32_t>(i), call});
      plan.list.needExtras(instruction);
    }
  }

  /// Marks the entries that a gradient flows through: they have none if none arrives because a function gave none.
  void listGradients() {
    const Graph &backward = source.split.backward;
    BitVector &isGradient = plan.isGradient;
    isGradient.resize(backward.numEntries());
    for (EntryId e : plan.headEntry)
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

  const Context &ctx;
  const Collected &collected;
  const BackwardRequest &request;
  const RecordedGraph &recorded;
  const GradientResult &gradient;
  PlanSource &source;
  Plan &plan;
};

}  // namespace

void forReads(const Graph &graph, function_ref<void(NodeId, EntryId)> visit) {
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

NodeId nodeAfter(const GradientResult &gradient, NodeId recorded) {
  if (!recorded.isValid() || gradient.forwardIds.empty()) return recorded;
  return gradient.forwardIds[recorded.value];
}

void listPlaces(const Context &context, const Collected &collected, const BackwardRequest &request,
                const RecordedGraph &recorded, const GradientResult &gradient, PlanSource &source, Plan &plan) {
  Places(context, collected, request, recorded, gradient, source, plan).run();
}

}  // namespace gradc
