// float16 (IEEE 754 binary16) and bfloat16 as they are stored, and their conversions from and to float32.
//
// Narrowing rounds to nearest, ties to even; overflow gives infinity. NaN becomes a quiet NaN with the same sign and as
// many leading payload bits as fit. Results are the same bits on every processor.
// Tested by tests/ir/half_test.cc
#pragma once

#include "ir/tensor/types.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gradc {

inline float bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t floatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t isNaN = (bits & 0x7fffffff) > 0x7f800000;
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((isNaN ? bits | 0x400000 : rounded) >> 16);
}

/// Multiplies by 2^112, which is exact and normalizes subnormal numbers.
inline float float16ToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu) << 13;
  const uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000 | (magnitude > 0x0f800000 ? 0x400000u : 0u);
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000 ? special : scaled));
}

inline uint16_t floatToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  // Below 2^-14, the sum with 1/2 is rounded to a multiple of 2^-24, which is the unit of subnormal halves.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  // Otherwise 13 bits of the significand are rounded off, and the exponent's bias changes from 127 to 15.
  const uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const uint32_t special = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : 0x7c00;
  const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  return static_cast<uint16_t>(bits >> 16 & 0x8000) | static_cast<uint16_t>(magnitude >= 0x477ff000 ? special : finite);
}

/// Rounds once; going through float32 would round twice.
uint16_t doubleToHalf(DType half, double value);

/// Converts `size` elements from float16 or bfloat16 to float32.
void widenElements(DType half, const uint16_t *from, float *to, size_t size);
/// Converts `size` elements from float32 to float16 or bfloat16.
void narrowElements(DType half, const float *from, uint16_t *to, size_t size);

}  // namespace gradc
