// What UpSampling takes over. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// UpSampling with learned filters is a deconvolution, one group per channel.
std::unique_ptr<PreparedKernel> bilinearUpSampling(const KernelSite &site);
std::unique_ptr<PreparedKernel> bilinearUpSamplingBackward(const KernelSite &site);

}  // namespace gradc::fast
