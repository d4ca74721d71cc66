// Lifetimes and in-place sharing. Tested by tests/plan_memory_test.cc
#include "passes/lifetimes.h"

#include "passes/workspace.h"

#include "ir/error.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

int64_t rounded(int64_t bytes) { return static_cast<int64_t>(alignTo(static_cast<uint64_t>(bytes), kPlanAlignment)); }

/// The most bytes that all tensors and workspaces of a plan may have together: every sum of some of them fits then.
constexpr int64_t kMaxTotalBytes = int64_t{1} << 62;

class LifetimeBuilder {
 public:
  LifetimeBuilder(const Graph &graph, const Inference &inference, const RequestTable &requests,
                  const PlanOptions &options)
      : graph(graph), inference(inference), requests(requests), options(options), ctx(graph.context()),
        lastRead(graph, 0), isHead(graph, 0) {
    result.intervalOf = EntryMap<uint32_t>(graph, Lifetimes::kNoInterval);
    result.inplaceOf = EntryMap<EntryId>(graph, EntryId());
    result.intervals.reserve(graph.numNodes());
  }

  Expected<Lifetimes> run() {
    findLastReads();
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (graph.isVariable(NodeId(n))) {
        const int64_t bytes = std::max<int64_t>(bytesOf(graph.firstEntry(NodeId(n))), 0);
        if (Error error = addToTotal(NodeId(n), bytes)) return error;
        result.externalBytes += bytes;
        continue;
      }
      if (Error error = visit(NodeId(n))) return error;
    }
    return std::move(result);
  }

 private:
  void findLastReads() {
    for (Value head : graph.heads()) isHead[graph.entry(head)] = 1;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      const NodeKind &kind = graph.kind(NodeId(n));
      if (kind.isVariable()) continue;
      ArrayRef<Value> inputs = graph.inputs(NodeId(n));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!kind.isIgnored(i)) lastRead[graph.entry(inputs[i])] = n;
    }
  }

  // -1 where shape or dtype is unknown. Inference bounds the size of one tensor.
  int64_t bytesOf(EntryId e) const {
    const int64_t elements = ctx.elements(inference.shape[e]), width = dtypeBytes(inference.dtype[e]);
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

  Error visit(NodeId n) {
    step.clear();
    taken.clear();
    const uint32_t first = graph.firstEntry(n).value, count = graph.numOutputs(n);
    for (uint32_t o = 0; o < count; ++o) {
      EntryId e(first + o);
      if (requests.request[e] == Request::Null) continue;
      int64_t bytes = bytesOf(e);
      if (Error error = addToTotal(n, rounded(std::max<int64_t>(bytes, 0)))) return error;
      if (n.value < options.firstNode) {
        result.externalBytes += rounded(std::max<int64_t>(bytes, 0));
        continue;
      }
      if (bytes < 0) {
        ++result.numUnplanned;
        continue;
      }
      if (isHead[e]) {
        result.externalBytes += rounded(bytes);
        continue;
      }
      if (options.allowInplace && takeOver(n, o, e)) continue;
      step.push_back({n.value, std::max(n.value, lastRead[e]), rounded(bytes), e});
    }
    if (n.value >= options.firstNode)
      if (Error error = addWorkspace(n)) return error;
    if (step.size() > 1)
      llvm::stable_sort(step, [](const Interval &a, const Interval &b) { return a.bytes > b.bytes; });
    for (const Interval &interval : step) {
      result.intervalOf[interval.root] = static_cast<uint32_t>(result.intervals.size());
      result.intervals.push_back(interval);
    }
    return Error::success();
  }

  // MEM-04, MEM-05: an input nobody reads afterwards, or an identity, whose block other readers may go on reading.
  bool takeOver(NodeId n, uint32_t output, EntryId e) {
    ArrayRef<Value> inputs = graph.inputs(n);
    for (InplacePair pair : graph.op(n)->inplace) {
      if (pair.output != output || pair.input >= inputs.size()) continue;
      EntryId source = graph.entry(inputs[pair.input]);
      uint32_t block = result.intervalOf[source];
      if (block == Lifetimes::kNoInterval || llvm::is_contained(taken, block)) continue;
      if (graph.kind(n).isIgnored(pair.input)) continue;
      if (inference.dtype[source] != inference.dtype[e] || bytesOf(source) != bytesOf(e)) continue;
      Interval &interval = result.intervals[block];
      if (!pair.isIdentity && (interval.end > n.value || readsOf(n, block) != 1)) continue;
      taken.push_back(block);
      result.inplaceOf[e] = source;
      result.intervalOf[e] = block;
      interval.end = std::max(interval.end, lastRead[e]);
      return true;
    }
    return false;
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
    Expected<int64_t> bytes = workspaceBytes(graph, inference, options, n);
    if (!bytes) return bytes.takeError();
    if (*bytes == 0) return Error::success();
    result.scratch.push_back({n.value, n.value, rounded(*bytes), EntryId()});
    return addToTotal(n, rounded(*bytes));
  }

  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const PlanOptions &options;
  Context &ctx;
  EntryMap<uint32_t> lastRead;
  EntryMap<uint8_t> isHead;
  SmallVector<Interval, 8> step;      // of the node at hand
  SmallVector<uint32_t, 4> taken;     // blocks its outputs took over
  int64_t total = 0;                  // bytes of everything seen so far
  Lifetimes result;
};

}  // namespace

Expected<Lifetimes> computeLifetimes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                     const PlanOptions &options) {
  return LifetimeBuilder(graph, inference, requests, options).run();
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
