// What the kernels of the runtime and other operators read of ops/shape/split_stack.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of SliceChannel, stack and their gradients: the axis of the whole that is cut.
int64_t splitAxis(const NodeKind &kind);

}  // namespace gradc
