// Batch normalisation together with the nodes that follow it, and their gradients, in the same passes over memory.
// Tested by tests/runtime/fusion_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// z = relu(y + addend); either the relu or the addend may be missing.
struct NormTail {
  bool hasAddend = false, hasRelu = false;
};

/// The site is that of the batch norm. The kernel receives the addend after its inputs, and z in place of y.
std::unique_ptr<PreparedKernel> batchNormThen(const KernelSite &site, NormTail tail);

/// The gradient of relu(BatchNorm(x)). The site is that of the batch norm's gradient; the kernel receives the head
/// gradient of the relu in place of dy, and reads beta.
std::unique_ptr<PreparedKernel> batchNormBackwardBehindRelu(const KernelSite &site);

}  // namespace gradc::fast
