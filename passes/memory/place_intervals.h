// Stage three of memory planning: offsets. Tested by tests/passes/plan_memory_test.cc
#pragma once

#include "passes/memory/lifetimes.h"

namespace gradc {

/// Stage three: an offset for each interval, and the size of the arena. Never below the bound, often equal to it.
struct Placement {
  std::vector<int64_t> offsets;  // parallel to the intervals
  int64_t bytes = 0;
};
Placement placeIntervals(llvm::ArrayRef<Interval> intervals, uint32_t numSteps);

/// Workspaces used in a single step go into the space that placed values leave at that step, or past the values if
/// there is none, so the values' offsets do not depend on which kernels run. Workspaces that a later step reads as well
/// come after all values. `bytes` is the size of the arena with both.
Placement placeScratch(llvm::ArrayRef<Interval> scratch, llvm::ArrayRef<Interval> values, const Placement &placed,
                       uint32_t numSteps);

}  // namespace gradc
