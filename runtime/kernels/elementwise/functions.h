// What LeakyReLU takes over. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// The exact form, with erf, and its gradient: inputs dy, x.
std::unique_ptr<PreparedKernel> gelu(const KernelSite &site);
std::unique_ptr<PreparedKernel> geluBackward(const KernelSite &site);

}  // namespace gradc::fast
