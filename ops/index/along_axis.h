// Positions along an axis, in a tensor of any type. Tested by tests/ops/ordering_ops_test.cc
#pragma once

#include "ir/base/number.h"
#include "ir/op/op.h"
#include "ir/tensor/tensor.h"
#include "ops/index/sort_rows.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/kernel_dispatch.h"

#include <algorithm>

namespace gradc {

/// The position on an axis of `length` elements that a number means: truncated, and clamped to the axis.
template <class N> int64_t positionOf(N number, int64_t length) {
  // Unsigned numbers above the largest int64_t become negative ones.
  const int64_t position = convertNumber<int64_t>(number);
  const bool isAbove = number > N{0} && position < 0;
  return isAbove ? length - 1 : std::clamp<int64_t>(position, 0, length - 1);
}

/// Calls visit(i, at) for every element i of `positions`, in order: `at` is the element of a tensor of shape `whole`
/// that has this position on the axis, in the same row. Fractions are dropped; a position beyond an end means the
/// element at that end.
template <class F> void forEachPosition(const TensorRef &positions, Dims whole, size_t axis, F visit) {
  const AxisRows from(positions.shape, axis), to(whole, axis);
  if (to.length == 0) return;
  dispatchNumeric(positions.dtype, [&](auto zero) {
    const auto *numbers = positions.as<const decltype(zero)>();
    auto targetOf = [&](int64_t i) { return positionOf(numbers[i], to.length) * to.inner; };
    int64_t i = 0;
    for (int64_t first = 0; first < to.outer * to.length * to.inner; first += to.length * to.inner) {
      if (to.inner == 1)
        for (const int64_t end = i + from.length; i < end; ++i) visit(i, first + targetOf(i));
      else
        for (int64_t k = 0; k < from.length; ++k)
          for (int64_t r = 0; r < to.inner; ++r, ++i) visit(i, first + r + targetOf(i));
    }
  });
}

/// out = zeros, plus each element of `values` at the position that `positions` gives. `scratch` has scatterBytes(out).
template <class T>
void scatterAlong(const TensorRef &values, const TensorRef &positions, T *out, Dims whole, size_t axis, void *scratch) {
  const int64_t size = TensorRef(nullptr, DType::Unknown, whole).size();
  const T *from = values.as<const T>();
  auto *sums = static_cast<Accumulator<T> *>(scratch);
  std::fill_n(sums, size, Accumulator<T>{0});
  forEachPosition(positions, whole, axis, [&](int64_t i, int64_t at) {
    sums[at] = wrappingAdd(sums[at], static_cast<Accumulator<T>>(from[i]));
  });
  std::transform(sums, sums + size, out, [](Accumulator<T> sum) { return static_cast<T>(sum); });
}
inline size_t scatterBytes(const TensorRef &out) { return static_cast<size_t>(out.size()) * sizeof(double); }

/// Of _sort_order.
OrderAttrs sortOrderAttrs(const NodeKind &kind, Dims shape);

}  // namespace gradc
