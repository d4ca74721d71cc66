// What the kernels of the runtime and other operators read of ops/shape/concat.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of Concat and its gradient: the axis, counted from the end when negative.
int64_t concatAxis(const NodeKind &kind);

}  // namespace gradc
