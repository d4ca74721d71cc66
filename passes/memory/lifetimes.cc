// Lifetimes and in-place sharing. Tested by tests/passes/plan_memory_test.cc
#include "passes/memory/lifetimes.h"

#include "passes/memory/workspace.h"
#include "passes/order/requests.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

int64_t rounded(int64_t bytes) { return static_cast<int64_t>(alignTo(static_cast<uint64_t>(bytes), kPlanAlignment)); }

class LifetimeBuilder {
 public:
  LifetimeBuilder(const Graph &graph, const Inference &inference, const RequestTable &requests,
                  const PlanOptions &options)
      : graph(graph), inference(inference), requests(requests), options(options), schedule(options.schedule),
        lastRead(graph, 0) {
    result.intervalOf = EntryMap<uint32_t>(graph, Lifetimes::kNoInterval);
    result.inplaceOf = EntryMap<EntryId>(graph, EntryId());
    result.isExternal = EntryMap<uint8_t>(graph, 0);
    result.intervals.reserve(graph.numNodes());
  }

  Expected<Lifetimes> run() {
    if (Error error = verifySchedule(graph, schedule)) return error;
    findLastReads();
    for (now = 0; now < graph.numNodes(); ++now) {
      const NodeId n = schedule.nodeAt(now);
      if (Error error = graph.isVariable(n) ? addVariable(n) : visit(n)) return error;
    }
    if (options.groups) widenToGroups();
    return std::move(result);
  }

 private:
  /// All that a group reads or writes is in use while any of its nodes runs.
  void widenToGroups() {
    for (Interval &interval : result.intervals) {
      if (const NodeGroup *group = options.groups->groupOf(interval.begin)) interval.begin = group->first;
      if (const NodeGroup *group = options.groups->groupOf(interval.end)) interval.end = group->last;
    }
  }

  void findLastReads() {
    for (Value head : graph.heads()) result.isExternal[graph.entry(head)] = 1;
    for (uint32_t step = 0; step < graph.numNodes(); ++step) {
      const NodeId n = schedule.nodeAt(step);
      const NodeKind &kind = graph.kind(n);
      if (kind.isVariable() || isDead(graph, requests, n)) continue;
      ArrayRef<Value> inputs = graph.inputs(n);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (kind.isIgnored(i)) continue;
        const bool isKept = isRetained(options, schedule.stepOf(inputs[i].node), step);
        lastRead[graph.entry(inputs[i])] = isKept ? graph.numNodes() - 1 : step;
        if (step >= options.steps.end) result.isExternal[graph.entry(inputs[i])] = 1;
      }
    }
  }

  // -1 where shape or dtype is unknown. Inference bounds the size of one tensor.
  int64_t bytesOf(EntryId e) const {
    const int64_t elements = inference.elements(e), width = dtypeBytes(inference.dtype[e]);
    return elements < 0 || !width ? -1 : elements * width;
  }

  Error addToTotal(NodeId n, int64_t bytes) {
    if (bytes <= kMaxTotalBytes - total) {
      total += bytes;
      return Error::success();
    }
    return Failure(ErrorKind::TooLarge, "the tensors of the graph up to " + graph.describe(n) +
                                            " have more than 2^62 bytes together, which no memory plan can hold")
        .at(n);
  }

  Error addVariable(NodeId n) {
    const EntryId e = graph.firstEntry(n);
    const int64_t bytes = std::max<int64_t>(bytesOf(e), 0);
    if (Error error = addToTotal(n, bytes)) return error;
    result.isExternal[e] = 1;
    result.externalBytes += bytes;
    return Error::success();
  }

  Error visit(NodeId n) {
    begun.clear();
    taken.clear();
    const bool isPlanned = options.steps.contains(now);
    const uint32_t first = graph.firstEntry(n).value, count = graph.numOutputs(n);
    for (uint32_t o = 0; o < count; ++o) {
      EntryId e(first + o);
      if (!isPlanned) result.isExternal[e] = 1;
      if (requests.request[e] == Request::Null) continue;
      if (options.groups && options.groups->isInside(e)) continue;
      int64_t bytes = bytesOf(e);
      if (Error error = addToTotal(n, rounded(std::max<int64_t>(bytes, 0)))) return error;
      if (isPlanned && bytes < 0) {
        ++result.numUnplanned;
        continue;
      }
      if (result.isExternal[e]) {
        result.externalBytes += rounded(std::max<int64_t>(bytes, 0));
        continue;
      }
      if (options.allowInplace && takeOver(n, o, e)) continue;
      begun.push_back({now, std::max(now, lastRead[e]), rounded(bytes), e});
    }
    if (isPlanned)
      if (Error error = addWorkspace(n)) return error;
    if (begun.size() > 1)
      llvm::stable_sort(begun, [](const Interval &a, const Interval &b) { return a.bytes > b.bytes; });
    for (const Interval &interval : begun) {
      result.intervalOf[interval.root] = static_cast<uint32_t>(result.intervals.size());
      result.intervals.push_back(interval);
    }
    return Error::success();
  }

  // MEM-04, MEM-05: takes over an input that nothing reads afterwards, or that of an identity, whose block may still be
  // read.
  bool takeOver(NodeId n, uint32_t output, EntryId e) {
    ArrayRef<Value> inputs = graph.inputs(n);
    for (InplacePair pair : graph.op(n)->inplace) {
      if (pair.output != output || pair.input >= inputs.size()) continue;
      EntryId source = graph.entry(inputs[pair.input]);
      if (graph.kind(n).isIgnored(pair.input) || !canHold(source, e)) continue;
      const uint32_t block = result.intervalOf[source];
      if (!pair.isIdentity && (result.intervals[block].end > now || isKept(block) || readsOf(n, block) != 1)) continue;
      share(source, e);
      return true;
    }
    return options.groups && takeOverInGroup(e);
  }

  // Takes over an entry that earlier nodes of the group read, and that nothing reads from this node on.
  bool takeOverInGroup(EntryId e) {
    for (const GroupPair &pair : options.groups->pairsOf(e)) {
      const uint32_t block = result.intervalOf[pair.input];
      if (!canHold(pair.input, e) || result.intervals[block].end >= now || isKept(block)) continue;
      share(pair.input, e);
      return true;
    }
    return false;
  }

  // The last step may not overwrite it either.
  bool isKept(uint32_t block) const { return isRetained(options, result.intervals[block].begin, now); }

  bool canHold(EntryId source, EntryId e) const {
    const uint32_t block = result.intervalOf[source];
    return block != Lifetimes::kNoInterval && !llvm::is_contained(taken, block) &&
           inference.dtype[source] == inference.dtype[e] && bytesOf(source) == bytesOf(e);
  }

  void share(EntryId source, EntryId e) {
    const uint32_t block = result.intervalOf[source];
    taken.push_back(block);
    result.inplaceOf[e] = source;
    result.intervalOf[e] = block;
    uint32_t &end = result.intervals[block].end;
    end = std::max(end, lastRead[e]);
  }

  size_t readsOf(NodeId n, uint32_t block) const {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    size_t count = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      count += !kind.isIgnored(i) && result.intervalOf[graph.entry(inputs[i])] == block;
    return count;
  }

  Error addWorkspace(NodeId n) {
    Expected<int64_t> bytes = workspaceBytes(graph, inference, requests, options, n);
    if (!bytes) return bytes.takeError();
    if (*bytes == 0) return Error::success();
    result.scratch.push_back({now, lastWorkspaceStep(options, n, graph.numNodes()), rounded(*bytes), EntryId()});
    return addToTotal(n, rounded(*bytes));
  }

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const PlanOptions &options;
  const Schedule &schedule;
  EntryMap<uint32_t> lastRead;     // step of the last read
  uint32_t now = 0;                // the current step
  SmallVector<Interval, 8> begun;  // at this step
  SmallVector<uint32_t, 4> taken;  // blocks that outputs took over at this step
  int64_t total = 0;               // bytes of everything seen so far
  Lifetimes result;
};

}  // namespace

Expected<Lifetimes> computeLifetimes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                     const PlanOptions &options) {
  return catchingBadAlloc("to find lifetimes",
                          [&] { return LifetimeBuilder(graph, inference, requests, options).run(); });
}

LiveBound liveBound(ArrayRef<Interval> intervals, uint32_t numSteps) {
  std::vector<int64_t> change(size_t{numSteps} + 1, 0);
  for (const Interval &interval : intervals) {
    change[interval.begin] += interval.bytes;
    change[interval.end + 1] -= interval.bytes;
  }
  LiveBound bound;
  int64_t live = 0;
  for (uint32_t step = 0; step < numSteps; ++step) {
    live += change[step];
    change[step] = live;
    if (live > bound.bytes) {
      bound.bytes = live;
      bound.step = step;
    }
  }
  change.resize(numSteps);
  bound.live = std::move(change);
  return bound;
}

}  // namespace gradc
