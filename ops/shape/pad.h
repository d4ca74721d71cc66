// What the kernels of the runtime and other operators read of ops/shape/pad.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>
#include <vector>

namespace gradc {

/// Of Pad and its gradient.
struct PadAttrs {
  Dims widths;  // before and after, axis by axis
  double constant;
};
PadAttrs padAttrs(const NodeKind &kind);
/// For each position of the padded axis, the index that it shows of the unpadded axis of `size` elements; -1: the
/// constant.
std::vector<int64_t> padShown(const NodeKind &kind, size_t axis, int64_t size);

}  // namespace gradc
