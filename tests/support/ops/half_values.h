// What float16 and bfloat16 are, by the definition of their formats: no code is shared with ir/tensor/half.h.
#pragma once

#include "ir/tensor/types.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gradc::testing {

struct HalfFormat {
  int fractionBits, leastExponent, largestExponent;  // of normal numbers
};
constexpr HalfFormat formatOf(DType half) {
  return half == DType::Float16 ? HalfFormat{10, -14, 15} : HalfFormat{7, -126, 127};
}

/// The number that the bits represent: sign, exponent, fraction from the left.
inline double halfValue(DType half, uint16_t bits) {
  const HalfFormat format = formatOf(half);
  const int exponentBits = 15 - format.fractionBits, exponent = (bits & 0x7fff) >> format.fractionBits;
  const int fraction = bits & ((1 << format.fractionBits) - 1), hidden = 1 << format.fractionBits;
  double magnitude = std::ldexp(hidden + fraction, exponent - 1 + format.leastExponent - format.fractionBits);
  if (exponent == 0) magnitude = std::ldexp(fraction, format.leastExponent - format.fractionBits);
  if (exponent == (1 << exponentBits) - 1) magnitude = fraction ? std::nan("") : HUGE_VAL;
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// The number of the format nearest to the value; ties go to the even one.
inline double nearestHalf(DType half, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const HalfFormat format = formatOf(half);
  const int exponent = std::max(std::ilogb(value), format.leastExponent);
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, format.fractionBits - exponent)), exponent - format.fractionBits);
  const bool isTooLarge = std::abs(rounded) >= std::ldexp(1.0, format.largestExponent + 1);
  return isTooLarge ? std::copysign(HUGE_VAL, value) : rounded;
}

}  // namespace gradc::testing
