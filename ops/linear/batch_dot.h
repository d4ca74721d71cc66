// What the kernels of the runtime and other operators read of ops/linear/batch_dot.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/linear/dot.h"

namespace gradc {

/// Of batch_dot and its gradient.
DotTransposes batchDotTransposes(const NodeKind &kind);

}  // namespace gradc
