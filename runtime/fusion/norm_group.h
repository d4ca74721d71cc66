// Batch normalisation and the element-wise nodes around it, in the same passes over memory.
// Tested by tests/runtime/fusion_test.cc
#pragma once

#include "runtime/kernels/core/fused_group.h"
#include "runtime/kernels/normalization/batch_norm.h"

namespace gradc {

/// BatchNorm, then a sum with another operand, a relu, or both. `addend` is the position of the other operand in the
/// sum. Null: no kernel takes the site.
std::unique_ptr<GroupKernel> normGroupKernel(const KernelSite &site, fast::NormTail tail, size_t addend);

/// The gradient of a relu, then that of the BatchNorm before it; `site` is that of the latter. Null: no kernel takes
/// it.
std::unique_ptr<GroupKernel> normGradientGroupKernel(const KernelSite &site);

}  // namespace gradc
