// How the gradients of a tape are built, and what their cache counts.
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// How gradients are built (spec §0). P-09, integers, is a policy of the Imperative.
struct TapePolicies {
  ControlOnlyPolicy controlOnly = ControlOnlyPolicy::Unused;  // P-05
  ReachPolicy reach = ReachPolicy::Ignore;                    // P-06
  uint32_t sumCap = 8;                                        // P-08
  ChainPolicy chain = ChainPolicy::FromCap;
};

/// Statistics of compiled backwards.
struct CacheStats {
  uint64_t hits = 0, misses = 0;
  size_t entries = 0, bytes = 0;
};

}  // namespace gradc
