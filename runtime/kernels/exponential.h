// Exponentials, their sigmoids and the error function in loops: of float32 polynomials that the compiler vectorises, of float64 the
// library's functions. Tested by tests/fast_kernels_test.cc, tests/rnn_kernels_test.cc
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace gradc::fast {

/// exp(x) for x ≤ 0: 2^k · exp(r) with |r| ≤ ln 2 / 2, by the Taylor polynomial of degree 7, whose error is 5·10⁻⁹. Below
/// −87, where numbers end to be normal, 0.
inline float expOfNonPositive(float value) {
  constexpr float kRound = 12582912.0f;                          // 1.5 · 2^23: adding it rounds to a whole number
  constexpr float kHigh = 0.693359375f, kLow = -2.12194440e-4f;  // ln 2 in two parts
  const float x = value < -87.0f ? -87.0f : value;
  const float shifted = x * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = (x - k * kHigh) - k * kLow;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound) + 127;
  const float result = sum * std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23);
  return value < -87.0f ? 0.0f : result;
}
inline double expOfNonPositive(double x) { return std::exp(x); }

/// 1 / (1 + exp(−x)), whose relative error is some 3 units in the last place on both sides of 0. Below −87, 0.
inline float sigmoidFunction(float x) {
  const float e = expOfNonPositive(x < 0 ? x : -x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
inline double sigmoidFunction(double x) { return 1 / (1 + std::exp(-x)); }

/// tanh(x) to some 3 units in the last place: Cephes' polynomial where |x| < 0.625, elsewhere from exp(−2|x|).
inline float tangentFunction(float x) {
  const float square = x * x, size = x < 0 ? -x : x;
  float series = -5.70498872745e-3f;
  series = series * square + 2.06390887954e-2f;
  series = series * square - 5.37397155531e-2f;
  series = series * square + 1.33314422036e-1f;
  series = series * square - 3.33332819422e-1f;
  const float small = (series * square + 1.0f) * x;
  const float e = expOfNonPositive(-2.0f * size), large = (1.0f - e) / (1.0f + e);
  return size < 0.625f ? small : x < 0 ? -large : large;
}
inline double tangentFunction(double x) { return std::tanh(x); }

/// erf(x) to some 3·10⁻⁷: its Taylor polynomial where |x| < 1/2, elsewhere formula 7.1.26 of Abramowitz and Stegun.
inline float errorFunction(float x) {
  const float square = x * x, size = x < 0 ? -x : x;
  float series = -1.0f / 1320;
  series = series * square + 1.0f / 216;
  series = series * square - 1.0f / 42;
  series = series * square + 1.0f / 10;
  series = series * square - 1.0f / 3;
  series = (series * square + 1.0f) * x * 1.12837917f;
  const float t = 1.0f / (1.0f + 0.3275911f * size);
  float tail = 1.061405429f;
  tail = tail * t - 1.453152027f;
  tail = tail * t + 1.421413741f;
  tail = tail * t - 0.284496736f;
  tail = tail * t + 0.254829592f;
  const float large = 1.0f - tail * t * expOfNonPositive(-square);
  return size < 0.5f ? series : x < 0 ? -large : large;
}
inline double errorFunction(double x) { return std::erf(x); }

}  // namespace gradc::fast
