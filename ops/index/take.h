// What the kernels of the runtime read of ops/index/take.cc. Tested by tests/ops/indexing_ops_test.cc
#pragma once

#include "ops/index/rows.h"

namespace gradc {

/// The indices that take and _backward_take pick from data of a shape.
AxisIndices takenIndices(const NodeKind &kind, const TensorRef &numbers, Dims data);

}  // namespace gradc
