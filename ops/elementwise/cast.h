// Conversion of a tensor's elements. Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ir/tensor/tensor.h"

namespace gradc {

/// Converts `from` to the element type of `to`. To integers, floating-point numbers are truncated and saturated, and
/// NaN becomes 0; to bool, every number other than 0 is true. float16 and bfloat16 are rounded to nearest, from
/// float32. Both tensors have the same number of elements.
void castTensor(const TensorRef &from, const TensorRef &to);

}  // namespace gradc
