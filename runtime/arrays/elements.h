// Reading, writing and converting single elements of any dtype. For what runs once per tensor, not for kernels.
#pragma once

#include "ir/tensor/tensor.h"

namespace gradc {

/// Element `index` in row-major order. 64-bit integers beyond 2^53 are rounded.
double readElement(const TensorRef &tensor, int64_t index);
/// Rounds to the dtype. Integers truncate toward zero and saturate; NaN becomes 0.
void writeElement(const TensorRef &tensor, int64_t index, double value);
/// Copies `from` into `to`, which has the same number of elements. For floating targets this is NumPy's `astype`; equal
/// dtypes are copied byte for byte.
void convertElements(const TensorRef &from, const TensorRef &to);
/// to += from, for tensors of the same shape and type; any type except bool.
void addElements(const TensorRef &from, const TensorRef &to);

}  // namespace gradc
