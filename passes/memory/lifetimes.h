// Stage one of memory planning: which entries need arena bytes, when, and which take over another's (in-place).
//
// Steps count nodes in the order of the schedule: node ids, unless PlanOptions has another one. An *interval* is one
// block of bytes: an entry and all entries that take it over in turn. It is live from the step that first writes it to
// the last read of any of them.
#pragma once

#include "passes/memory/plan_memory.h"

namespace gradc {

/// The most bytes that all tensors and workspaces of a plan may have together, so that no sum of them overflows.
inline constexpr int64_t kMaxTotalBytes = int64_t{1} << 62;

struct Interval {
  uint32_t begin, end;  // first and last step, both inclusive
  int64_t bytes;        // rounded up to kPlanAlignment
  EntryId root;         // first entry of the block; invalid: workspace of the node of step `begin`
};

struct Lifetimes {
  std::vector<Interval> intervals;  // ordered by begin, then by the step of the root, size descending, and root
  std::vector<Interval> scratch;    // the workspaces, ordered by begin
  EntryMap<uint32_t> intervalOf;    // by entry; kNoInterval where it has none
  EntryMap<EntryId> inplaceOf;      // as in MemoryPlan
  EntryMap<uint8_t> isExternal;     // by entry: whether it is in the caller's memory (PlanOptions::steps)
  int64_t externalBytes = 0;
  uint32_t numUnplanned = 0;

  static constexpr uint32_t kNoInterval = 0xffffffff;
};

/// BadPlan for a schedule that does not fit the graph (verifySchedule).
llvm::Expected<Lifetimes> computeLifetimes(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                           const PlanOptions &options);

/// Largest sum of live bytes at any step, which no placement of these intervals can beat; that step; and the sums.
struct LiveBound {
  int64_t bytes = 0;
  uint32_t step = 0;
  std::vector<int64_t> live;  // by step
};
LiveBound liveBound(llvm::ArrayRef<Interval> intervals, uint32_t numSteps);

}  // namespace gradc
