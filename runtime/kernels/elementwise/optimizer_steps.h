// Steps of optimizers. Tested by tests/ops/optimizer_ops_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// By the reference kernel of the step, on slices.
std::unique_ptr<PreparedKernel> optimizerStep(const KernelSite &site);

}  // namespace gradc::fast
