// Maximum and mean pooling over two spatial axes of plain images, row by row, in either precision: what oneDNN does not do
// in float64. Tested by tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/prepared_kernel.h"

namespace gradc {

/// Windows of pooling over (h, w), and the images, (n, c, h, w); or over (d, h, w), (n, c, d, h, w).
struct PoolingPlan {
  DimsBuffer x, y;
  bool isMax = false, countsPadding = false;
  bool isClipped = false;  // means count padding, but not what windows have beyond the operator's own
  int64_t kernel[3], stride[3], padLow[3], padHigh[3];

  size_t numAxes() const { return x.size() - 2; }
};

namespace fast {

/// x to y, operands plain, over (h, w). Nothing of y's windows is in the padding alone.
std::unique_ptr<PreparedKernel> poolingLoops(const KernelSite &site, const PoolingPlan &plan);
/// Inputs dy, …, x at position `data`; output dx.
std::unique_ptr<PreparedKernel> poolingLoopsBackward(const KernelSite &site, const PoolingPlan &plan, size_t data);

}  // namespace fast
}  // namespace gradc
