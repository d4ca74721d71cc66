// Maximum and mean pooling over two spatial axes of plain images, row by row, in either precision; oneDNN has no
// float64. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

#include <algorithm>

namespace gradc {

/// Pooling windows and image shapes: over (h, w) of (n, c, h, w), or over (d, h, w) of (n, c, d, h, w).
struct PoolingPlan {
  DimsBuffer x, y;
  bool isMax = false, countsPadding = false;
  bool isClipped = false;  // means count padding, but not elements beyond the operator's padding
  int64_t kernel[3], stride[3], padLow[3], padHigh[3];
  int64_t taps = 1;  // elements of a window

  size_t numAxes() const { return x.size() - 2; }
  bool isOnePixel() const {
    return std::all_of(y.begin() + 2, y.end(), [](int64_t extent) { return extent == 1; });
  }
  /// Whether windows are larger than sums in the type of the data may be.
  bool isWide() const { return taps > 4096; }
};

namespace fast {

/// x to y, over (h, w) of plain operands. No window may be entirely padding.
std::unique_ptr<PreparedKernel> poolingLoops(const KernelSite &site, const PoolingPlan &plan);
/// Inputs dy, …, x at position `data`; output dx.
std::unique_ptr<PreparedKernel> poolingLoopsBackward(const KernelSite &site, const PoolingPlan &plan, size_t data);

}  // namespace fast
}  // namespace gradc
