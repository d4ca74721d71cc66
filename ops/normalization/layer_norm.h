// What the kernels of the runtime and other operators read of ops/normalization/layer_norm.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of LayerNorm and its gradient; the axis counts from the end when negative.
struct LayerNormAttrs {
  int64_t axis;
  double eps;
};
LayerNormAttrs layerNormAttrs(const NodeKind &kind);

}  // namespace gradc
