// Reading, writing and converting single elements of any dtype. For what runs once per tensor, not for kernels.
#pragma once

#include "ir/tensor.h"

namespace gradc {

/// Element `index` in row-major order. 64-bit integers beyond 2^53 are rounded.
double readElement(const TensorRef &tensor, int64_t index);
/// Rounds to the dtype; integers are truncated toward zero, the nearest one in range is taken and 0 for NaN.
void writeElement(const TensorRef &tensor, int64_t index, double value);
/// Copies `from` into `to`, of as many elements, as NumPy's `astype` does for targets of floating type. Equal dtypes are
/// copied byte for byte.
void convertElements(const TensorRef &from, const TensorRef &to);
/// to += from, of one shape and type: any that kernels compute in but bool.
void addElements(const TensorRef &from, const TensorRef &to);

}  // namespace gradc
