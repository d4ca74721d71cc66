// Batch normalisation together with what follows it, and their gradients, in the same passes over memory. Tested by
// tests/fusion_test.cc
#pragma once

#include "runtime/kernels/prepared_kernel.h"

namespace gradc::fast {

/// z = relu(y + addend), either part of which may be missing.
struct NormTail {
  bool hasAddend = false, hasRelu = false;
};

/// The site is that of the batch norm. The kernel is given the addend behind its inputs, and z in place of y.
std::unique_ptr<PreparedKernel> batchNormThen(const KernelSite &site, NormTail tail);

/// The gradient of relu(BatchNorm(x)). The site is that of the gradient of the batch norm; the kernel is given the head of the
/// relu's gradient in place of dy, and reads beta.
std::unique_ptr<PreparedKernel> batchNormBackwardBehindRelu(const KernelSite &site);

}  // namespace gradc::fast
