// How the gradients of a tape are built.
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

}  // namespace gradc
