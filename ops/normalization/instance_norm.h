// What the kernels of the runtime and other operators read of ops/normalization/instance_norm.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Of InstanceNorm and its gradient.
double instanceNormEps(const NodeKind &kind);

}  // namespace gradc
