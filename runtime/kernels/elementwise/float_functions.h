// Functions for loops that the compiler vectorises. For float32 they are within 4 units in the last place of the true
// value for every float (tests/runtime/kernels/float_functions_test.cc); for float64 they are the library's.
//
// They use no calls and no contraction, and put no comparison or arithmetic into an arm of a conditional expression:
// the compiler does not move operations that may raise a floating-point exception. Polynomials interpolate at Chebyshev
// nodes. Results for NaN, infinities, zeros of either sign and subnormal numbers are those of IEEE 754 and C's
// functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace gradc::fast::math {

namespace detail {

inline constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to a whole number
inline constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // ln 2; k · kLn2High is exact

/// A NaN stays.
inline float within(float x, float low, float high) {
  const float atLeast = x < low ? low : x;
  return atLeast > high ? high : atLeast;
}

/// A NaN, with the sign that the machine and C's functions give it; x itself if that is a NaN.
inline float invalid(float x) { return (x - x) / 0.0f; }

inline float powerOfTwo(uint32_t exponent) { return std::bit_cast<float>((exponent + 127) << 23); }

/// x + low = k · ln 2 + r with |r| ≤ ln 2 / 2 and a whole k, for |x| < 200. `exponent` is k modulo 2^32.
struct ReducedExponent {
  float r;
  uint32_t exponent;

  explicit ReducedExponent(float x, float low = 0.0f) {
    const float shifted = (x + low) * 1.44269504f + kRound, k = shifted - kRound;
    r = ((x - k * kLn2High) - k * kLn2Low) + low;
    exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  }
  /// exp(r) - 1
  float grown() const {
    float sum = 0.001392692661f;
    sum = sum * r + 0.008363773874f;
    sum = sum * r + 0.04166655011f;
    sum = sum * r + 0.1666657338f;
    sum = sum * r + 0.5f;
    return sum * (r * r) + r;
  }
  /// exp(x) · factor. Two powers of two: a single one may be out of range where the product is not.
  float exponential(float factor) const {
    const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(exponent) >> 1);
    return (grown() + 1.0f) * factor * powerOfTwo(half) * powerOfTwo(exponent - half);
  }
};

/// ln(2^exponent · (1 + f)) + c for 1 + f from 1/√2 to √2 and a small c.
inline float logOfParts(float exponent, float f, float c) {
  const float square = f * f;
  float sum = 0.06971611471f;
  sum = sum * f - 0.1147973385f;
  sum = sum * f + 0.1168541992f;
  sum = sum * f - 0.1242568733f;
  sum = sum * f + 0.1424905765f;
  sum = sum * f - 0.1666780232f;
  sum = sum * f + 0.2000071575f;
  sum = sum * f - 0.2499999696f;
  sum = sum * f + 0.3333333118f;
  const float small = (sum * f * square + (exponent * kLn2Low + c)) - 0.5f * square;
  return exponent * kLn2High + (f + small);
}

/// x = 2^exponent · (1 + f), 1 + f from 1/√2 to √2, for a positive normal x.
struct LogParts {
  float exponent, f;

  explicit LogParts(float x) {
    constexpr uint32_t kLowest = 0x3f3504f3;  // 1/√2
    const uint32_t bits = std::bit_cast<uint32_t>(x) - kLowest;
    exponent = static_cast<float>(static_cast<int32_t>(bits) >> 23);
    f = std::bit_cast<float>((bits & 0x007fffff) + kLowest) - 1.0f;
  }
};

}  // namespace detail

/// exp(x) for x ≤ 0, but 0 below −87, where results become subnormal: they do not matter in sums of exponentials, and
/// processors are slow on them.
inline float expOfNonPositive(float value) {
  const detail::ReducedExponent reduced(value < -87.0f ? -87.0f : value);
  const float result = (reduced.grown() + 1.0f) * detail::powerOfTwo(reduced.exponent);
  return value < -87.0f ? 0.0f : result;
}
inline double expOfNonPositive(double x) { return std::exp(x); }

inline float exp(float value) {
  return detail::ReducedExponent(detail::within(value, -104.0f, 89.0f)).exponential(1.0f);
}
inline double exp(double x) { return std::exp(x); }

/// exp(x) − 1
inline float expm1(float value) {
  const float x = detail::within(value, -20.0f, 89.0f);
  const detail::ReducedExponent reduced(x);
  const float half = detail::powerOfTwo(reduced.exponent - 1);  // 2^128 would be infinite
  const float result = (half * reduced.grown() + (half - 0.5f)) * 2.0f;
  return value == 0.0f ? value : result;
}
inline double expm1(double x) { return std::expm1(x); }

inline float log(float x) {
  const bool isTiny = x < 1.17549435e-38f;
  const float scaled = x * 8388608.0f;  // 2^23
  const detail::LogParts parts(isTiny ? scaled : x);
  const float result = detail::logOfParts(parts.exponent - (isTiny ? 23.0f : 0.0f), parts.f, 0.0f);
  const bool isPositive = x > 0.0f, isZero = x == 0.0f, isInfinite = x == INFINITY;
  const float outside = isZero ? -INFINITY : detail::invalid(x), inside = isInfinite ? x : result;
  return isPositive ? inside : outside;
}
inline double log(double x) { return std::log(x); }

/// ln(1 + x)
inline float log1p(float x) {
  const float sum = 1.0f + x;
  const bool isNear = (x > -0.29f) & (x < 0.41f);
  const detail::LogParts parts(sum);
  // What rounding lost from the sum.
  const float ofLarge = 1.0f - (sum - x), ofSmall = x - (sum - 1.0f);
  const float lost = (x >= 1.0f ? ofLarge : ofSmall) / sum;
  const float result = detail::logOfParts(isNear ? 0.0f : parts.exponent, isNear ? x : parts.f, isNear ? 0.0f : lost);
  const bool isInside = x > -1.0f, isEdge = x == -1.0f, isKept = (x == 0.0f) | (x == INFINITY);
  const float outside = isEdge ? -INFINITY : detail::invalid(x), inside = isKept ? x : result;
  return isInside ? inside : outside;
}
inline double log1p(double x) { return std::log1p(x); }

/// 1 / (1 + exp(−x)). Below −87, 0.
inline float sigmoid(float x) {
  const float e = expOfNonPositive(x < 0 ? x : -x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
inline double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x < 0 ? e : 1.0) / (1 + e);
}

/// -t / (t + 2) with t = exp(-2|x|) - 1, which loses nothing near 0.
inline float tanh(float x) {
  const float t = expm1(-2.0f * std::abs(x));
  return std::copysign(t / (t + 2.0f), x);
}
inline double tanh(double x) { return std::tanh(x); }

/// Near 0 an odd polynomial; elsewhere 1 − exp(p(|x|)), p a polynomial that is close to ln erfc.
inline float erf(float x) {
  const float square = x * x, size = std::abs(x);
  float series = 8.379755582e-5f;
  series = series * square - 0.000816198654f;
  series = series * square + 0.005204578779f;
  series = series * square - 0.02686169995f;
  series = series * square + 0.1128375366f;
  series = series * square - 0.3761263838f;
  const float small = (series * square + 0.1283791671f) * x + x;
  const float at = size > 4.0f ? 4.0f : size;
  float tail = 1.639938016e-6f;
  tail = tail * at - 4.611291391e-5f;
  tail = tail * at + 0.0005972644331f;
  tail = tail * at - 0.004761717236f;
  tail = tail * at + 0.02642704377f;
  tail = tail * at - 0.1100901975f;
  tail = tail * at - 0.6318156996f;
  tail = tail * at - 1.130239201f;
  tail = tail * at + 0.0003214710264f;
  const float large = 1.0f - expOfNonPositive(tail);
  return size < 1.0f ? small : std::copysign(large, x);
}
inline double erf(double x) { return std::erf(x); }

/// The largest |x| for which the sine and cosine below are accurate.
inline constexpr float kReducible = 1048576.0f;

namespace detail {

/// sin(x + quarters · π/2)
inline float sineFrom(float x, uint64_t quarters) {
  constexpr double kWhole = 6755399441055744.0;                            // 1.5 · 2^52
  constexpr double kHigh = 0x1.921fb544p+0, kLow = 0x1.0b4611a626331p-34;  // π/2; k · kHigh is exact
  const double wide = static_cast<double>(x), shifted = wide * 0.63661977236758134308 + kWhole, k = shifted - kWhole;
  const float r = static_cast<float>((wide - k * kHigh) - k * kLow), square = r * r;
  const uint32_t quadrant = static_cast<uint32_t>(std::bit_cast<uint64_t>(shifted) + quarters);
  float odd = 2.724931405e-6f;
  odd = odd * square - 0.0001984008201f;
  odd = odd * square + 0.008333331866f;
  odd = odd * square - 0.1666666666f;
  const float sine = odd * square * r + r;
  float even = -2.730044862e-7f;
  even = even * square + 2.480059644e-5f;
  even = even * square - 0.001388888766f;
  even = even * square + 0.04166666666f;
  const float cosine = even * (square * square) + (1.0f - 0.5f * square);
  const float size = quadrant & 1 ? cosine : sine;
  return quadrant & 2 ? -size : size;
}

}  // namespace detail

inline float sin(float x) { return x == 0.0f ? x : detail::sineFrom(x, 0); }
inline double sin(double x) { return std::sin(x); }
inline float cos(float x) { return detail::sineFrom(x, 1); }
inline double cos(double x) { return std::cos(x); }

/// The same for every number, for loops that are not vectorised.
inline float sinOfAny(float x) { return std::abs(x) <= kReducible ? sin(x) : std::sin(x); }
inline double sinOfAny(double x) { return std::sin(x); }
inline float cosOfAny(float x) { return std::abs(x) <= kReducible ? cos(x) : std::cos(x); }
inline double cosOfAny(double x) { return std::cos(x); }

}  // namespace gradc::fast::math
