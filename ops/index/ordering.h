// What the kernels of the runtime read of ops/index/ordering.cc. Tested by tests/ops/ordering_ops_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/index/sort_rows.h"

namespace gradc {

/// Of topk, sort and argsort.
OrderAttrs orderAttrs(const NodeKind &kind, Dims shape);

}  // namespace gradc
