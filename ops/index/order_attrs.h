// What the operators that order elements are asked for, without their parameter structs. Tested by
// tests/ops/ordering_ops_test.cc
#pragma once

#include "ir/op/op.h"
#include "ops/kit/axis_rows.h"

namespace gradc {

struct OrderAttrs {
  AxisRows rows;  // without an axis, all elements as one
  int64_t taken;  // of each row
  bool isAscending;
  bool isMask = false;                                // output 0 is 1 where elements are taken, and 0 elsewhere
  std::optional<size_t> values = {}, positions = {};  // outputs
};

/// Of topk, sort and argsort.
OrderAttrs orderAttrs(const NodeKind &kind, Dims shape);
/// Of _sort_order.
OrderAttrs sortOrderAttrs(const NodeKind &kind, Dims shape);

}  // namespace gradc
