// Tested by tests/ops/network_ops_test.cc
#pragma once

#include "ops/shape/strided_view.h"

namespace gradc {

/// Of depth_to_space and space_to_depth.
StridedView depthView(const NodeKind &kind, Dims whole, Dims part);
StridedView spaceView(const NodeKind &kind, Dims whole, Dims part);

}  // namespace gradc
