// Conversion of a tensor's elements. Tested by tests/movement_ops_test.cc
#pragma once

#include "ir/tensor.h"

namespace gradc {

/// `to` = `from` in its own element type: floating numbers cut toward 0 and to the nearest number the type holds, NaN
/// to 0; bool is whether it is not 0. float16 and bfloat16 are rounded from float32, to nearest. The tensors have as many
/// elements.
void castTensor(const TensorRef &from, const TensorRef &to);

}  // namespace gradc
