// What other kernels take over. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// y = max(x, 0), and the gradient of it: inputs dy, y.
std::unique_ptr<PreparedKernel> relu(const KernelSite &site);
std::unique_ptr<PreparedKernel> reluBackward(const KernelSite &site);
/// y = a · b, of one shape.
std::unique_ptr<PreparedKernel> multiply(const KernelSite &site);

}  // namespace gradc::fast
