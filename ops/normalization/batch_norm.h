// What the kernels of the runtime and other operators read of ops/normalization/batch_norm.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of BatchNorm and its gradient.
struct BatchNormAttrs {
  double eps, momentum;
  bool fixGamma, useGlobalStats;
  int64_t axis;
};
BatchNormAttrs batchNormAttrs(const NodeKind &kind);

}  // namespace gradc
