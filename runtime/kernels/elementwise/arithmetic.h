// What Activation takes over. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// Inputs dy, y.
std::unique_ptr<PreparedKernel> sigmoidBackward(const KernelSite &site);
std::unique_ptr<PreparedKernel> tangentBackward(const KernelSite &site);

}  // namespace gradc::fast
