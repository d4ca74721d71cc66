// Positions along an axis, held by a tensor of any type. Tested by tests/ordering_ops_test.cc
#pragma once

#include "ir/number.h"
#include "ir/tensor.h"
#include "ops/axis_rows.h"
#include "ops/kernel_dispatch.h"

#include <algorithm>

namespace gradc {

/// Calls visit(i, at) for every element i of `positions`: `at` is the element of a tensor of shape `whole` that has
/// this position on the axis, in the same row. Fractions are dropped; a position beyond an end means the element at
/// that end.
template <class F> void forEachPosition(const TensorRef &positions, Dims whole, size_t axis, F visit) {
  const AxisRows from(positions.shape, axis), to(whole, axis);
  if (to.length == 0) return;
  dispatchNumeric(positions.dtype, [&](auto zero) {
    const auto *numbers = positions.as<const decltype(zero)>();
    for (int64_t row = 0; row < from.count(); ++row)
      for (int64_t k = 0; k < from.length; ++k) {
        const int64_t i = from.begin(row) + k * from.inner;
        // Unsigned numbers above the largest int64_t become negative ones.
        const int64_t number = convertNumber<int64_t>(numbers[i]);
        const bool isAbove = numbers[i] > zero && number < 0;
        const int64_t position = isAbove ? to.length - 1 : std::clamp<int64_t>(number, 0, to.length - 1);
        visit(i, to.begin(row) + position * to.inner);
      }
  });
}

/// out = zeros, plus each element of `values` at the position that `positions` gives.
template <class T>
void scatterAlong(const TensorRef &values, const TensorRef &positions, T *out, Dims whole, size_t axis) {
  std::fill_n(out, TensorRef(nullptr, DType::Unknown, whole).size(), T{0});
  const T *from = values.as<const T>();
  forEachPosition(positions, whole, axis, [&](int64_t i, int64_t at) { out[at] = wrappingAdd(out[at], from[i]); });
}

}  // namespace gradc
