// Conversion of a tensor's elements. Tested by tests/ops/movement_ops_test.cc
#pragma once

#include "ir/tensor/tensor.h"

namespace gradc {

/// Converts the elements of `from` to the type of `to`, which has as many. To integers, floating-point numbers are
/// truncated and saturated, and NaN becomes 0; to bool, every number other than 0 is true. float16 and bfloat16 are
/// rounded to nearest, from float32.
void castTensor(const TensorRef &from, const TensorRef &to);

}  // namespace gradc
