// Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ops/shape/strided_view.h"

namespace gradc {

/// Of Crop.
StridedView cropView(const NodeKind &kind, Dims whole, Dims part);

}  // namespace gradc
