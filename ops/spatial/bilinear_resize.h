// What the kernels of the runtime and other operators read of ops/spatial/bilinear_resize.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// How one row or column of a resized image is blended: `weight` of row or column `first` and the rest of `second`.
struct Blend {
  int64_t first, second;
  double weight;
};
/// Of _contrib_BilinearResize2D and its gradient: the blend of row or column i of `out`, from `in` rows or columns.
Blend resizeBlend(const NodeKind &kind, int64_t i, int64_t in, int64_t out);

}  // namespace gradc
