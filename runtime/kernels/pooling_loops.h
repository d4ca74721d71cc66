// Maximum and mean pooling over two spatial axes of plain images, row by row, in either precision: what oneDNN does not do
// in float64. Tested by tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/prepared_kernel.h"

namespace gradc {

/// Windows of pooling over (h, w).
struct PoolingPlan {
  bool isMax = false, countsPadding = false;
  int64_t kernel[2], stride[2], padLow[2], padHigh[2];
};

namespace fast {

/// x (n, c, h, w) to y, operands plain. Nothing of y's windows is in the padding alone.
std::unique_ptr<PreparedKernel> poolingLoops(const KernelSite &site, const PoolingPlan &plan);
/// Inputs dy, …, x at position `data`; output dx.
std::unique_ptr<PreparedKernel> poolingLoopsBackward(const KernelSite &site, const PoolingPlan &plan, size_t data);

}  // namespace fast
}  // namespace gradc
