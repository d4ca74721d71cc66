// Element-wise operators by their reference kernels, on slices. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// Any element-wise operator.
std::unique_ptr<PreparedKernel> sliced(const KernelSite &site);
/// One whose loop the compiler vectorises for every instruction set; it counts as fast.
std::unique_ptr<PreparedKernel> referenceLoop(const KernelSite &site);

}  // namespace gradc::fast
