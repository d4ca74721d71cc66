// What the kernels of the runtime and other operators read of ops/normalization/l2_normalization.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/kit/axis_rows.h"

namespace gradc {

/// Of L2Normalization and its gradient: groups as rows, numbered like the elements of the norm.
AxisRows l2Rows(const NodeKind &kind, Dims shape);
double l2Eps(const NodeKind &kind);

}  // namespace gradc
