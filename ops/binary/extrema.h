// What the kernels of the runtime and other operators read of ops/binary/extrema.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Of clip and its gradient.
struct ClipAttrs {
  double low, high;
};
ClipAttrs clipAttrs(const NodeKind &kind);

}  // namespace gradc
