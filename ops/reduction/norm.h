// What the kernels of the runtime and other operators read of ops/reduction/norm.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of norm and its gradient: 1, the sum of absolute values, or 2, Euclidean. The axes are ReduceParams.
int64_t normOrder(const NodeKind &kind);

}  // namespace gradc
