// Lengths of sequences, one per element of the batch and of any type. Tested by tests/ops/sequence_ops_test.cc
#pragma once

#include "ir/base/number.h"
#include "ir/tensor/tensor.h"
#include "ops/kit/kernel_dispatch.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace gradc {

/// The length, truncated to an integer and clamped to [0, most]; NaN is 0.
inline int64_t sequenceLength(const TensorRef &lengths, int64_t sequence, int64_t most) {
  int64_t result = 0;
  dispatchNumeric(lengths.dtype, [&](auto zero) {
    const auto length = lengths.as<const decltype(zero)>()[sequence];
    if constexpr (std::is_integral_v<decltype(zero)>) {
      result = std::cmp_less(length, 0) ? 0 : std::cmp_greater(length, most) ? most : static_cast<int64_t>(length);
    } else {
      result = std::clamp(convertNumber<int64_t>(length), int64_t{0}, most);
    }
  });
  return result;
}

}  // namespace gradc
