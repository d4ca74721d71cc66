// Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ops/shape/strided_view.h"

namespace gradc {

/// Of repeat and tile.
StridedView repeatView(const NodeKind &kind, Dims whole, Dims part);
StridedView tileView(const NodeKind &kind, Dims whole, Dims part);

}  // namespace gradc
