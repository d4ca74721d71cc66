// What the kernels of the runtime and other operators read of ops/normalization/lrn.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of LRN, its gradient and _channel_window_sum.
struct LrnAttrs {
  double scale, beta, knorm;  // n = knorm + scale · Σ x²
  int64_t nsize;
};
LrnAttrs lrnAttrs(const NodeKind &kind);
/// The widest window for which adding up the channels one by one pays.
inline constexpr int64_t kWidestLrnWindow = 63;

}  // namespace gradc
