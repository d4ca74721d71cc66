// Functions of two integers that the language lacks or leaves undefined. Tested by tests/ops/elementwise_ops_test.cc
#pragma once

#include "ir/base/number.h"

#include <limits>

namespace gradc {

/// The rest of a / b with the sign of b, 0 for b = 0.
template <class T> T flooredRest(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    // The quotient of the least number and -1 is out of range.
    if (b == -1) return 0;
    const T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  } else {
    return static_cast<T>(a % b);
  }
}

/// a to the power of b, modulo the range of T. Negative powers are truncated to integers: 0 unless a is 1 or -1. Those
/// of 0, which are infinite, give the largest number.
template <class T> T integerPower(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b < 0) {
      if (a == 0) return std::numeric_limits<T>::max();
      if (a == -1) return b % 2 == 0 ? T(1) : T(-1);
      return a == 1;
    }
  T power = 1;
  for (; b > 0; b = static_cast<T>(b / 2)) {
    if (b % 2 != 0) power = wrappingMul(power, a);
    a = wrappingMul(a, a);
  }
  return power;
}

}  // namespace gradc
