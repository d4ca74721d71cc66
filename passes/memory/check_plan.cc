// Live ranges are sorted by offset. An output may be written only to bytes that no live entry owns, except the bytes of
// the input that it takes over by a declared pair: then nothing may read that input, or anything sharing its bytes,
// again, unless the pair is an identity.
#include "passes/memory/check_plan.h"

#include "passes/memory/workspace.h"
#include "passes/order/requests.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <map>

using namespace llvm;

namespace gradc {
namespace {

struct Range {
  int64_t end;
  SmallVector<EntryId, 2> owners;  // live entries with exactly these bytes; none: a workspace
  NodeId workspaceOf = {};
};

class PlanReplay {
 public:
  PlanReplay(const Graph &graph, const Inference &inference, const RequestTable &requests, const MemoryPlan &plan,
             const PlanOptions &options)
      : graph(graph), inference(inference), requests(requests), plan(plan), options(options), pending(requests.reads),
        placeOf(graph, 0), isCallers(graph, 0) {}

  Error run() {
    if (Error error = verifySchedule(graph, options.schedule)) return error;
    findCallers();
    countRetained();
    for (uint32_t step = 0; step < graph.numNodes(); ++step) {
      const NodeId id = options.schedule.nodeAt(step);
      if (graph.isVariable(id) || isDead(graph, requests, id)) continue;
      for (uint32_t o = 0; o < graph.numOutputs(id); ++o)
        if (Error error = write(id, o)) return error;
      if (Error error = takeWorkspace(id)) return error;
      release(id);
      if (step < lastStepBeside(step)) continue;
      if (Error error = endGroup(id)) return error;
      releaseWorkspaces(step);
    }
    return Error::success();
  }

 private:
  // Heads, and what steps after the planned ones read.
  void findCallers() {
    for (Value head : graph.heads()) isCallers[graph.entry(head)] = 1;
    for (uint32_t step = options.steps.end; step < graph.numNodes(); ++step) {
      const NodeId n = options.schedule.nodeAt(step);
      if (isDead(graph, requests, n)) continue;
      ArrayRef<Value> inputs = graph.inputs(n);
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!graph.kind(n).isIgnored(i)) isCallers[graph.entry(inputs[i])] = 1;
    }
  }

  /// RC-01, RET-07: one more read, which never comes, of what the backward part reads of the steps before it.
  void countRetained() {
    if (options.backwardBegin >= graph.numNodes()) return;
    EntryMap<uint8_t> isCounted(graph, 0);
    for (uint32_t step = options.backwardBegin; step < graph.numNodes(); ++step) {
      const NodeId n = options.schedule.nodeAt(step);
      if (isDead(graph, requests, n)) continue;
      ArrayRef<Value> inputs = graph.inputs(n);
      for (size_t i = 0; i < inputs.size(); ++i) {
        const EntryId e = graph.entry(inputs[i]);
        if (graph.kind(n).isIgnored(i) || options.schedule.stepOf(inputs[i].node) >= options.backwardBegin) continue;
        pending[e] += !isCounted[e];
        isCounted[e] = 1;
      }
    }
  }

  /// The last step of the group that this step runs in.
  uint32_t lastStepBeside(uint32_t step) const {
    const NodeGroup *group = options.groups ? options.groups->groupOf(step) : nullptr;
    return group ? group->last : step;
  }

  bool isPlanned(NodeId n) const { return options.steps.contains(options.schedule.stepOf(n)); }

  bool isKnown(EntryId e) const { return inference.isKnownShape(e) && inference.dtype[e] != DType::Unknown; }
  int64_t bytesOf(EntryId e) const { return isKnown(e) ? inference.elements(e) * dtypeBytes(inference.dtype[e]) : 0; }

  bool isInArena(int64_t begin, int64_t bytes) const {
    return begin >= 0 && begin % kPlanAlignment == 0 && bytes <= plan.plannedBytes &&
           begin <= plan.plannedBytes - bytes;
  }

  std::string nameOf(NodeId n, uint32_t output) const {
    return "'" + graph.listedName(Value{n, static_cast<uint16_t>(output)}) + "'";
  }

  Error bad(NodeId n, const Twine &message) const {
    return Failure(ErrorKind::BadPlan, "at " + graph.describe(n) + ": " + message).at(n);
  }

  Error write(NodeId n, uint32_t output) {
    EntryId e(graph.firstEntry(n).value + output);
    int64_t begin = plan.offset[e], bytes = bytesOf(e);
    if (begin < 0) return checkAbsence(n, output, e);
    if (!isInArena(begin, bytes))
      return bad(n,
                 "output " + nameOf(n, output) + " at offset " + Twine(begin) + " is misaligned or outside the arena");
    if (bytes == 0) return Error::success();
    EntryId source = plan.inplaceOf[e];
    if (source.isValid()) return share(n, output, e, source);
    if (Error error = checkFree(n, begin, begin + bytes, "output " + nameOf(n, output))) return error;
    live[begin] = Range{begin + bytes, {e}, {}};
    return Error::success();
  }

  // The reason for which an entry has no place must apply, or the executor would have no memory to compute it in.
  Error checkAbsence(NodeId n, uint32_t output, EntryId e) const {
    switch (plan.offset[e]) {
      case kUnused:
        if (requests.request[e] == Request::Null) return Error::success();
        return bad(n, "output " + nameOf(n, output) + " is read, but has no place");
      case kExternal:
        if (isCallers[e] || !isPlanned(n)) return Error::success();
        return bad(n, "output " + nameOf(n, output) + " is marked external, but is not a head");
      case kUnplanned:
        if (!isKnown(e)) return Error::success();
        return bad(n, "output " + nameOf(n, output) + " is marked unplanned, but its size is known");
      case kInside:
        if (options.groups && options.groups->isInside(e) && options.groups->groupOf(options.schedule.stepOf(n)))
          return Error::success();
        return bad(n, "output " + nameOf(n, output) + " is marked inside a group, but is in none");
      default: return bad(n, "output " + nameOf(n, output) + " has the invalid offset " + Twine(plan.offset[e]));
    }
  }

  Error checkFree(NodeId n, int64_t begin, int64_t end, const Twine &what) const {
    auto next = live.lower_bound(begin);
    if (next != live.begin() && std::prev(next)->second.end > begin) --next;
    if (next == live.end() || next->first >= end) return Error::success();
    const Range &range = next->second;
    const std::string owner = range.owners.empty() ? "the workspace of " + graph.describe(range.workspaceOf)
                                                   : "entry " + std::to_string(range.owners[0].value);
    return bad(n, what + " takes bytes [" + Twine(begin) + ", " + Twine(end) + "), where " + owner + " is still live");
  }

  Error share(NodeId n, uint32_t output, EntryId e, EntryId source) {
    auto range = live.find(plan.offset[source]);
    if (range == live.end() || range->second.owners.empty() || plan.offset[e] != plan.offset[source] ||
        bytesOf(e) != bytesOf(source))
      return bad(n,
                 "output " + nameOf(n, output) + " takes over entry " + Twine(source.value) + ", which is not there");
    const InplacePair *pair = declaredPair(n, output, source);
    if (!pair && isGroupPair(e, source)) return shareInGroup(n, output, e, range->second);
    if (!pair) return bad(n, "output " + nameOf(n, output) + " takes over an input the operator does not let it take");
    if (!pair->isIdentity)
      for (EntryId owner : range->second.owners) {
        const uint32_t here = owner == source ? 1 : 0;
        if (pending[owner] != here || (here && readsAt(n, owner) != 1))
          return bad(n, "output " + nameOf(n, output) + " overwrites entry " + Twine(owner.value) +
                            ", which is read again");
      }
    addOwner(range->second, e);
    return Error::success();
  }

  bool isGroupPair(EntryId e, EntryId source) const {
    if (!options.groups) return false;
    const ArrayRef<GroupPair> pairs = options.groups->pairsOf(e);
    return any_of(pairs, [&](const GroupPair &pair) { return pair.input == source; });
  }

  Error shareInGroup(NodeId n, uint32_t output, EntryId e, Range &range) {
    for (EntryId owner : range.owners)
      if (pending[owner] != 0)
        return bad(n, "output " + nameOf(n, output) + " overwrites entry " + Twine(owner.value) +
                          ", which its group or a later node still reads");
    addOwner(range, e);
    return Error::success();
  }

  const InplacePair *declaredPair(NodeId n, uint32_t output, EntryId source) const {
    ArrayRef<Value> inputs = graph.inputs(n);
    for (const InplacePair &pair : graph.op(n)->inplace)
      if (pair.output == output && pair.input < inputs.size() && graph.entry(inputs[pair.input]) == source)
        return &pair;
    return nullptr;
  }

  uint32_t readsAt(NodeId n, EntryId e) const {
    uint32_t count = 0;
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) count += graph.entry(inputs[i]) == e && !graph.kind(n).isIgnored(i);
    return count;
  }

  Error takeWorkspace(NodeId n) {
    if (!isPlanned(n)) return Error::success();
    Expected<int64_t> bytes = workspaceBytes(graph, inference, requests, options, n);
    if (!bytes) return bytes.takeError();
    if (*bytes == 0) return Error::success();
    const int64_t begin = plan.workspace[n];
    if (!isInArena(begin, *bytes))
      return bad(n, "the workspace of " + Twine(*bytes) + " bytes at offset " + Twine(begin) +
                        " is misaligned or outside the arena");
    if (Error error = checkFree(n, begin, begin + *bytes, "the workspace")) return error;
    if (lastWorkspaceStep(options, n, graph.numNodes()) < options.schedule.stepOf(n))
      return bad(n, "the workspace is read before its node runs");
    const uint32_t last = lastStepBeside(lastWorkspaceStep(options, n, graph.numNodes()));
    if (last == options.schedule.stepOf(n)) return Error::success();
    live[begin] = Range{begin + *bytes, {}, n};
    keptWorkspaces.insert({last, begin});
    return Error::success();
  }

  void releaseWorkspaces(uint32_t step) {
    const auto [first, last] = keptWorkspaces.equal_range(step);
    for (auto at = first; at != last; ++at) live.erase(at->second);
    keptWorkspaces.erase(first, last);
  }

  // RC-02: one read per position; entries without reads left, and outputs that nothing reads, free their bytes when the
  // node, or the group it runs in, is done.
  void release(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      EntryId e = graph.entry(inputs[i]);
      if (!kind.isIgnored(i) && --pending[e] == 0) done.push_back(e);
    }
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      EntryId e(graph.firstEntry(n).value + o);
      if (pending[e] == 0) done.push_back(e);
      else if (plan.offset[e] == kInside) inside.push_back(e);
    }
  }

  /// Called after the last node of a group, or a node that runs alone.
  Error endGroup(NodeId n) {
    for (EntryId e : inside)
      if (pending[e] != 0) return bad(n, "entry " + Twine(e.value) + " has no place, but is read after its group");
    for (EntryId e : done) drop(e);
    inside.clear();
    done.clear();
    return Error::success();
  }

  void drop(EntryId e) {
    if (plan.offset[e] < 0) return;
    auto range = live.find(plan.offset[e]);
    if (range == live.end()) return;
    SmallVectorImpl<EntryId> &owners = range->second.owners;
    const uint32_t place = placeOf[e];
    if (place >= owners.size() || owners[place] != e) return;
    owners[place] = owners.back();
    placeOf[owners[place]] = place;
    owners.pop_back();
    if (owners.empty()) live.erase(range);
  }

  // Any number of entries may share bytes, such as copies of one value, so none is looked for among the others.
  void addOwner(Range &range, EntryId e) {
    placeOf[e] = static_cast<uint32_t>(range.owners.size());
    range.owners.push_back(e);
  }

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const MemoryPlan &plan;
  const PlanOptions &options;
  EntryMap<uint32_t> pending;                       // reads still to come
  EntryMap<uint32_t> placeOf;                       // among the owners of its range
  EntryMap<uint8_t> isCallers;                      // may be in the caller's memory
  SmallVector<EntryId, 8> done, inside;             // since the last call of endGroup
  std::map<int64_t, Range> live;                    // by offset
  std::multimap<uint32_t, int64_t> keptWorkspaces;  // offsets by the last step
};

}  // namespace

Error replayPlan(const Graph &graph, const Inference &inference, const RequestTable &requests, const MemoryPlan &plan,
                 const PlanOptions &options) {
  return catchingBadAlloc("to check the memory plan",
                          [&]() -> Error { return PlanReplay(graph, inference, requests, plan, options).run(); });
}

}  // namespace gradc
