// What the kernels of the runtime read of ops/index/gather_nd.cc. Tested by tests/ops/indexing_ops_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Whether a node of _scatter_nd adds its updates.
bool addsUpdates(const NodeKind &kind);

}  // namespace gradc
