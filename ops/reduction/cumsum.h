// What the kernels of the runtime and other operators read of ops/reduction/cumsum.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/kit/axis_rows.h"

namespace gradc {

/// Of _np_cumsum and its gradient, whose output has this shape: along what elements are added up.
AxisRows cumsumRows(const NodeKind &kind, Dims shape);

}  // namespace gradc
