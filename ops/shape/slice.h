// Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ops/shape/strided_view.h"

namespace gradc {

/// Of slice_axis and slice_like; that of slice is in ops/shape/slice_range.h.
StridedView sliceAxisView(const NodeKind &kind, Dims whole, Dims part);
StridedView sliceLikeView(const NodeKind &kind, Dims whole, Dims part);

}  // namespace gradc
