// Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ops/shape/strided_view.h"

namespace gradc {

/// Of transpose, SwapAxis and reverse.
StridedView transposeView(const NodeKind &kind, Dims whole, Dims part);
StridedView swapAxisView(const NodeKind &kind, Dims whole, Dims part);
StridedView reverseView(const NodeKind &kind, Dims whole, Dims part);

}  // namespace gradc
