// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/plan.h"

#include "imperative/tape/function_op.h"
#include "ir/base/dense_map.h"
#include "ir/graph/effects.h"
#include "ops/kit/output_reads.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// Only the columns of a graph: kinds are the Context's.
size_t bytesOf(const Graph &graph) {
  const GraphColumns &c = graph.columns();
  return heapBlock(sizeof(GraphColumns)) + heapBlock(sizeof(GraphTable)) +
         heapBytesOf(c.kinds, c.kindList, c.inputBegin, c.inputs, c.depBegin, c.deps) +
         heapBytesOf(c.entryBegin, c.nameBegin, c.names, c.origins, c.heads);
}

/// Rows by entry: shape, type, storage; and a slab of shapes.
size_t bytesOf(const Inference &inference) {
  const size_t entries = inference.dtype.size();
  return heapBlock(entries * sizeof(ShapeId)) + heapBlock(entries * sizeof(DType)) +
         heapBlock(entries * sizeof(StorageKind)) + heapBlock(sizeof(ShapeTable)) + heapBlock(4096);
}

/// Lists everything about the calls that is the same each time.
class CallLister {
 public:
  CallLister(Context &context, SignatureTable &signatures, TapeShapes &shapes, const SignatureOptions &options,
             const PlanSource &source)
      : ctx(context), signatures(signatures), shapes(shapes), options(options), source(source), graph(source.combined),
        requests(countRequests(source.split.backward, {})), list(std::make_unique<PlanSource::Calls>()) {}

  std::unique_ptr<PlanSource::Calls> run() {
    for (auto [t, node] : enumerate(source.tapNodes))
      if (node.isValid()) tapOf[node.value] = static_cast<uint32_t>(t);
    DenseMap<uint32_t, uint32_t> savedOf;
    for (auto [i, value] : enumerate(source.savedValue)) savedOf[graph.entry(value).value] = static_cast<uint32_t>(i);
    for (const std::vector<CrossingValue> *crossings : {&source.split.saved, &source.split.shapesOnly})
      for (const CrossingValue &crossing : *crossings) {
        const auto at = savedOf.find(graph.entry(crossing.entry).value);
        list->forward.push_back({crossing.entry, typeOf(source.split.backward.firstEntry(crossing.variable)),
                                 at == savedOf.end() ? Plan::kNone : at->second, 0});
      }
    for (uint32_t n = source.numForwardNodes; n < graph.numNodes(); ++n)
      if (!graph.isVariable(NodeId(n))) add(NodeId(n));
    DenseMap<uint32_t, uint32_t> lastReader;
    for (auto [c, call] : enumerate(list->calls))
      for (uint32_t i = call.firstInput; i < call.lastInput; ++i) {
        const auto [at, isFirst] = lastReader.try_emplace(list->inputs[i]);
        at->second = static_cast<uint32_t>(c);
        if (const auto type = unwanted.find(list->inputs[i]); isFirst && type != unwanted.end())
          list->shapesOnly.push_back({list->inputs[i], type->second});
      }
    for (PlanSource::ForwardValue &value : list->forward)
      value.lastReader = lastReader.lookup(graph.entry(value.value).value);
    llvm::stable_sort(list->forward, [](const PlanSource::ForwardValue &a, const PlanSource::ForwardValue &b) {
      return a.lastReader < b.lastReader;
    });
    listOthers();
    for (const PlanSource::ForwardValue &value : list->forward) list->shapes.add(shapes, value.type.shape);
    for (const auto &[entry, type] : list->shapesOnly) list->shapes.add(shapes, type.shape);
    for (const KnownOutput &output : list->outputs) list->shapes.add(shapes, output.type.shape);
    return std::move(list);
  }

 private:
  /// Finds the results whose memory forward values, head gradients or code of the host may share.
  void listOthers() {
    const OpDef *const copy = ctx.ops.wellKnown.copy;
    std::vector<uint8_t> isOthers(graph.numEntries(), true);
    for (uint32_t n = source.numForwardNodes; n < graph.numNodes(); ++n) {
      const NodeId node(n);
      if (graph.isVariable(node) || tapOf.contains(n) || graph.op(node) == &kFunctionGradient) continue;
      const uint32_t first = graph.firstEntry(node).value;
      for (uint32_t o = 0; o < graph.numOutputs(node); ++o)
        isOthers[first + o] = graph.op(node) != copy && any_of(graph.op(node)->inplace, [&](const InplacePair &pair) {
                                return pair.isIdentity && pair.output == o && pair.input < graph.inputs(node).size() &&
                                       isOthers[graph.entry(graph.inputs(node)[pair.input]).value];
                              });
    }
    for (Value head : graph.heads().drop_front(source.numForwardHeads))
      list->isOthers.push_back(isOthers[graph.entry(head).value]);
  }

  OperandType typeOf(EntryId e) {
    const Inference &known = source.inference;
    return {*shapes.intern(known.shapeOf(e).dims()), known.dtype[e]};
  }

  void add(NodeId n) {
    PlanSource::Call call;
    list->kinds.push_back(Kind(signatures.row(graph.kindHandle(n))));
    call.kind = list->kinds.back().get();
    call.node = n;
    call.call = source.callOf[n.value];
    const bool isFused = graph.op(n)->flags.isBackward && !graph.controlDeps(n).empty();
    call.forwardNode = isFused ? graph.controlDeps(n)[0] : NodeId();
    const auto tap = tapOf.find(n.value);
    call.tap = tap == tapOf.end() ? Plan::kNone : tap->second;
    call.firstInput = static_cast<uint32_t>(list->inputs.size());
    for (Value v : graph.inputs(n)) list->inputs.push_back(graph.entry(v).value);
    call.lastInput = static_cast<uint32_t>(list->inputs.size());
    call.firstType = static_cast<uint32_t>(list->outputs.size());
    const uint32_t number = graph.numOutputs(n), first = graph.firstEntry(n).value;
    const EntryId now = source.split.backward.firstEntry(source.split.newId[n.value]);
    auto isRead = [&](uint32_t o) { return requests.request[EntryId(now.value + o)] != Request::Null; };
    bool isNeeded = call.tap != Plan::kNone || graph.op(n) == &kFunctionGradient || hasEffects(graph.kind(n));
    for (uint32_t o = 0; o < number; ++o) isNeeded |= isRead(o);
    for (uint32_t o = 0; o < number; ++o) {
      const OperandType type = typeOf(EntryId(now.value + o));
      // The operator's own gradient rule may read an output that nothing else reads.
      const bool mayBeRead = graph.op(n)->gradient && options.carriesGradient(type.dtype) && hasOperands(n, o, isRead);
      const bool isWanted = isNeeded && (mayBeRead || isRead(o));
      if (isNeeded) list->outputs.push_back({type, isWanted, isRead(o) && o >= graph.kind(n).numVisible});
      if (!isWanted) unwanted.try_emplace(first + o, type);
    }
    if (isNeeded) list->calls.push_back(call);
    else list->inputs.resize(call.firstInput);
  }

  /// Whether the contents of everything that an output depends on are at hand: requested outputs read them too.
  template <class IsRead> bool hasOperands(NodeId n, uint32_t output, IsRead isRead) const {
    const NodeKind &kind = graph.kind(n);
    for (size_t i = 0; i < graph.inputs(n).size(); ++i)
      if (!kind.isIgnored(i) && dependsOn(kind, output, i) && !readsInput(kind, i, isRead)) return false;
    return true;
  }

  Context &ctx;
  SignatureTable &signatures;
  TapeShapes &shapes;
  const SignatureOptions &options;
  const PlanSource &source;
  const Graph &graph;
  const RequestTable requests;
  DenseMap<uint32_t, uint32_t> tapOf;        // by node of the combined graph
  DenseMap<uint32_t, OperandType> unwanted;  // by entry of it: results that no call needs the contents of
  std::unique_ptr<PlanSource::Calls> list;
};

/// "input 'lhs', 'x', of call 3 of operator 'elemwise_mul'"
std::string describeKept(const Collected &collected, Plan::Slot slot) {
  TapeNode &node = *collected.nodes()[slot.node];
  const NodeKind &kind = *node.signature->handle;
  const KeptOperand operand = node.signature->kept[slot.kept];
  const std::string call = " of " + describe(node);
  if (!node.signature->isInput(operand))
    return "output '" + outputName(kind, operand - node.signature->numInputs()) + "'" + call;
  const Edge &edge = node.edges()[operand];
  const bool isNamed = edge.isOfMark() && !edge.mark()->name.empty();
  const std::string own = isNamed ? edge.mark()->name : "";
  return "input '" + inputName(kind, operand) + "'" + (own.empty() ? "" : ", '" + own + "',") + call;
}

/// "call 12 of operator 'exp'"; without the operator if nothing refers to that any more.
std::string describeWriter(const SignatureTable &signatures, const Storage &storage) {
  const KindRow *const row = signatures.findKind(storage.writerKind);
  return row ? describeCall(storage.writerCall, *row->kind) : "call " + std::to_string(storage.writerCall);
}

/// The value of a slot, checked: E-31, E-20.
Expected<Storage *> keptValue(const SignatureTable &signatures, const Collected &collected, Plan::Slot slot) {
  const Kept kept = collected.nodes()[slot.node]->kept()[slot.kept];
  if (!kept.storage)
    return Failure(ErrorKind::HistoryCleared,
                   describeKept(collected, slot) + " was released by an earlier backward without `retain`")
        .note("retain on the first call to run another one over the same history");
  const uint32_t version = kept.storage->version.load(std::memory_order_relaxed);
  if (version == kept.version) return kept.storage;
  const std::string writer =
      kept.storage->writerKind == Storage::kNoWriter ? "the host" : describeWriter(signatures, *kept.storage);
  return Failure(ErrorKind::StaleVersion, describeKept(collected, slot) +
                                              " was overwritten: its gradient needs version " + Twine(kept.version) +
                                              ", it is " + Twine(version) + ", written by " + writer);
}

}  // namespace

void BackwardRequest::clear() {
  heads.clear();
  for (std::vector<uint32_t> *list : {&wrt, &retained, &noGrad, &taps}) list->clear();
  types.clear();
  unused = UnusedPolicy::None;
  headPolicy = HeadPolicy::Ones;
  duplicates = DuplicatePolicy::Allow;
  policies = {};
}

void BackwardRequest::encode(std::vector<uint32_t> &words) const {
  words.push_back(static_cast<uint32_t>(headPolicy) | static_cast<uint32_t>(duplicates) << 4 |
                  static_cast<uint32_t>(unused) << 8 | static_cast<uint32_t>(policies.controlOnly) << 12 |
                  static_cast<uint32_t>(policies.reach) << 16 | static_cast<uint32_t>(policies.chain) << 20);
  words.push_back(policies.sumCap);
  words.push_back(static_cast<uint32_t>(heads.size()));
  for (const Head &head : heads) {
    words.push_back(head.y);
    words.push_back(head.isGiven);
  }
  for (const std::vector<uint32_t> *list : {&wrt, &retained, &noGrad, &taps}) {
    words.push_back(static_cast<uint32_t>(list->size()));
    words.insert(words.end(), list->begin(), list->end());
  }
}

size_t Plan::heapBytes() const {
  size_t sum = heapBlock(sizeof(Plan)) + list.ownedBytes + heapBlock(list.address.size() * sizeof(char *)) +
               heapBytesOf(list.instructions, list.extras, list.operands, list.operandEntry, list.requests) +
               heapBytesOf(list.steps, list.heads, list.headEntry, list.neededVariables, list.buffers, list.kinds) +
               heapBytesOf(saved, slots, callOf, results, heads, operandsOfHeads, draws, hostCalls, stops, headEntry) +
               places.heapBytes() + isGradient.size() / 8 + heapBytesOf(signatures, shapes);
  if (!list.isTrimmed()) sum += bytesOf(list.graph) + bytesOf(list.inference);
  for (const std::unique_ptr<MovableRunner> &runner : list.runners) sum += runner->heapBytes();
  if (source) sum += source->heapBytes();
  return sum;
}

size_t PlanSource::heapBytes() const {
  size_t bytes = heapBlock(sizeof(PlanSource)) + bytesOf(combined) + bytesOf(split.backward) + bytesOf(inference) +
                 heapBytesOf(split.newId, split.source, split.saved, split.shapesOnly) +
                 heapBytesOf(callOf, leafOf, savedValue, headValue, tapNodes);
  return calls ? bytes + calls->heapBytes() : bytes;
}

size_t PlanSource::Calls::heapBytes() const {
  return heapBlock(sizeof(Calls)) + heapBytesOf(forward, calls, inputs, shapesOnly, outputs, isOthers, kinds, shapes);
}

// A gradient that the host made a leaf gets new memory with the next backward, if the tape keeps the old one.
Expected<Storage *> savedValue(const SignatureTable &signatures, const Collected &collected, const Plan &plan,
                               const Plan::Saved &saved) {
  Storage *found = nullptr;
  for (uint32_t i = saved.firstSlot; i < saved.lastRead; ++i) {
    Expected<Storage *> storage = keptValue(signatures, collected, plan.slots[i]);
    if (!storage) return storage.takeError();
    if (!found) found = *storage;
    if (*storage != found)
      return Failure(ErrorKind::StaleVersion, describeKept(collected, plan.slots[i]) + " and " +
                                                  describeKept(collected, plan.slots[saved.firstSlot]) +
                                                  " are one tensor, which was overwritten between these calls");
  }
  if (found) return found;
  return Failure(ErrorKind::Internal,
                 "a gradient reads entry " + Twine(saved.entry.value) + ", which no call of the tape keeps");
}

Error overwrittenByHook(const Collected &collected, const Plan &plan, const Plan::Saved &saved) {
  return Failure(ErrorKind::StaleVersion, describeKept(collected, plan.slots[saved.firstSlot]) +
                                              ", which this backward reads, was overwritten by a hook");
}

std::unique_ptr<PlanSource::Calls> listCalls(Context &context, SignatureTable &signatures, TapeShapes &shapes,
                                             const SignatureOptions &options, const Plan &plan) {
  return CallLister(context, signatures, shapes, options, *plan.source).run();
}

}  // namespace gradc
