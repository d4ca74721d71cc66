// Loops over the conversions: with F16C where the processor has it, which gives the same bits. Tested by
// tests/ir/half_test.cc
#include "ir/tensor/half.h"

#include "ir/base/instruction_sets.h"

#include <cassert>
#include <immintrin.h>

namespace gradc {
namespace {

// The compiler vectorizes a loop of fixed length.
constexpr size_t kChunk = 16;

template <class From, class To, class F> void convertAll(const From *from, To *to, size_t size, F convert) {
  size_t i = 0;
  for (; i + kChunk <= size; i += kChunk)
    for (size_t k = 0; k < kChunk; ++k) to[i + k] = convert(from[i + k]);
  for (; i < size; ++i) to[i] = convert(from[i]);
}

__attribute__((target("avx,f16c"))) void widenWithF16c(const uint16_t *from, float *to, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
  for (; i < size; ++i) to[i] = float16ToFloat(from[i]);
}

__attribute__((target("avx,f16c"))) void narrowWithF16c(const float *from, uint16_t *to, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < size; ++i) to[i] = floatToFloat16(from[i]);
}

bool hasF16c() { return instructionSet() >= InstructionSet::Avx2; }

/// Truncates to float and sets the last bit if that was inexact. Rounding the result to a format with at least two bits
/// less then gives the same as rounding the value itself.
float roundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool isAway = value < 0 ? nearest < value : nearest > value;
  return std::bit_cast<float>((bits - isAway) | 1);
}

}  // namespace

uint16_t doubleToHalf(DType half, double value) {
  assert(isHalf(half));
  return half == DType::Float16 ? floatToFloat16(roundToOdd(value)) : floatToBFloat16(roundToOdd(value));
}

void widenElements(DType half, const uint16_t *from, float *to, size_t size) {
  assert(isHalf(half));
  if (half == DType::BFloat16) return convertAll(from, to, size, bfloat16ToFloat);
  if (hasF16c()) return widenWithF16c(from, to, size);
  convertAll(from, to, size, float16ToFloat);
}

void narrowElements(DType half, const float *from, uint16_t *to, size_t size) {
  assert(isHalf(half));
  if (half == DType::BFloat16) return convertAll(from, to, size, floatToBFloat16);
  if (hasF16c()) return narrowWithF16c(from, to, size);
  convertAll(from, to, size, floatToFloat16);
}

}  // namespace gradc
