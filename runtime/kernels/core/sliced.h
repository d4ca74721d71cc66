// Element-wise operators by their reference kernels, on slices. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// The reference kernel on slices of at least `grain` elements of output 0 and of what has as many elements; other
/// operands are given whole.
std::unique_ptr<PreparedKernel> referenceSlices(const KernelSite &site, int64_t grain);
/// Any element-wise operator.
std::unique_ptr<PreparedKernel> sliced(const KernelSite &site);
/// One whose loop the compiler vectorises for every instruction set; it counts as fast.
std::unique_ptr<PreparedKernel> referenceLoop(const KernelSite &site);
/// A step of an optimizer (ops/optimizer/step.h): learning rates, norms and the like are operands of one element.
std::unique_ptr<PreparedKernel> optimizerStep(const KernelSite &site);

}  // namespace gradc::fast
