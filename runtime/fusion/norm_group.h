// Batch normalisation and the nodes around it that work element by element, in the same passes over memory.
// Tested by tests/fusion_test.cc
#pragma once

#include "runtime/fusion/fused_group.h"
#include "runtime/kernels/norm_tail.h"

namespace gradc {

/// BatchNorm, then a sum with another operand, a relu, or both. Null: no kernel takes the site.
/// `addend` is the position of that operand of the sum.
std::unique_ptr<GroupKernel> normGroupKernel(const KernelSite &site, fast::NormTail tail, size_t addend);

/// The gradient of a relu, then that of the BatchNorm before it, whose site it is. Null: no kernel takes the site.
std::unique_ptr<GroupKernel> normGradientGroupKernel(const KernelSite &site);

}  // namespace gradc
