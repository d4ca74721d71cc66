// What the kernels of the runtime and other operators read of ops/normalization/group_norm.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Of GroupNorm and its gradient.
double groupNormEps(const NodeKind &kind);

}  // namespace gradc
