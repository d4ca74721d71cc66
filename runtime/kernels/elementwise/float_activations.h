// Activations and their derivatives for loops that the compiler vectorises, under the rules of
// runtime/kernels/elementwise/float_functions.h. For float32 they are within 4 units in the last place of the true
// value, and derivatives that pass through 0 within 4 of their larger term, for every float; for float64 they are the
// formulas.
//
// Below 0 an activation is a product with an exponential that may be subnormal or 0 where the product is not. Its
// factors are therefore multiplied one after the other (detail::Decay), and what is close to 0 is never computed as 1
// minus something. Tested by tests/runtime/kernels/float_functions_test.cc
#pragma once

#include "ops/elementwise/special_functions.h"
#include "runtime/kernels/elementwise/float_functions.h"

namespace gradc::fast::math {

namespace detail {

/// exp(high + low) for a sum from −200 to 0, alone and as a factor.
class Decay {
 public:
  explicit Decay(float high, float low = 0.0f) : reduced(high, low) {}

  float value() const { return times(1.0f); }
  float times(float factor) const { return reduced.exponential(factor); }

 private:
  ReducedExponent reduced;
};

/// x, but −`size` below that, where an exponential times −`size` is 0 already: it is 0 times a number, not times
/// infinity.
inline float notBelow(float x, float size) { return x < -size ? -size : x; }
inline constexpr float kSilent = 120.0f;  // exp(−120) · 120 is 0

/// For infinities that the formula multiplies by 0.
inline float validFrom(float x, float value) { return x == -INFINITY ? invalid(x) : value; }

/// Φ(−z) and φ(z) of the standard normal distribution divided by exp(−z²/2). Beyond kEnd both are 0.
struct NormalTail {
  static constexpr float kEnd = 15.0f, kDensity = static_cast<float>(kNormalPeak);
  float z;
  Decay decay;
  float distribution;

  // z² = high² + (z − high)(z + high) with a high of 12 bits, whose square is exact.
  explicit NormalTail(float size)
      : z(size > kEnd ? kEnd : size),
        decay(-0.5f * highPart(z) * highPart(z), -0.5f * (z - highPart(z)) * (z + highPart(z))) {
    const float t = (z - 4.0f) / (z + 4.0f);
    float sum = -7.437454417e-5f;
    sum = sum * t - 6.673718492e-5f;
    sum = sum * t + 0.0006908448556f;
    sum = sum * t - 0.0002999187613f;
    sum = sum * t - 0.005002140853f;
    sum = sum * t + 0.01793944948f;
    sum = sum * t - 0.03219781535f;
    sum = sum * t + 0.0286000328f;
    sum = sum * t + 0.01399963659f;
    sum = sum * t - 0.09670346798f;
    sum = sum * t + 0.4720532064f;
    distribution = sum / (1.0f + z);
  }

 private:
  static float highPart(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xfffff000u); }
};

}  // namespace detail

/// ln(1 + exp(−|x|)). log1p for a number from 0 to 1; with the rest of it GCC gives up vectorising.
inline float softTail(float x) {
  const float e = exp(-std::abs(x)), sum = 1.0f + e, lost = (e - (sum - 1.0f)) / sum;
  const bool isNear = e < 0.41f;
  const detail::LogParts parts(sum);
  return detail::logOfParts(isNear ? 0.0f : parts.exponent, isNear ? e : parts.f, isNear ? 0.0f : lost);
}
inline double softTail(double x) { return log1p(exp(-std::abs(x))); }

/// ln(1 + exp(x))
template <class T> T softplus(T x) { return (x > 0 ? x : T{0}) + softTail(x); }

/// −ln(1 + exp(−x)), and 1 / (1 + exp(x)).
template <class T> T logSigmoid(T x) { return (x < 0 ? x : T{0}) - softTail(x); }
inline float logSigmoidSlope(float x) {
  const float e = exp(-std::abs(x));
  return (x > 0 ? e : 1.0f) / (1.0f + e);
}
inline double logSigmoidSlope(double x) { return sigmoid(-x); }

/// x / (1 + exp(−x))
inline float silu(float x) {
  const float near = detail::notBelow(x, detail::kSilent);
  const detail::Decay decay(detail::notBelow(-std::abs(x), detail::kSilent));
  const float sum = 1.0f + decay.value(), above = x / sum, below = decay.times(near / sum);
  return detail::validFrom(x, x < 0 ? below : above);
}
inline double silu(double x) {
  const double e = std::exp(-0.5 * std::abs(x)), size = x / (1 + e * e), below = size * e * e;
  return x < 0 ? below : size;
}

inline float siluSlope(float x) {
  const float near = detail::notBelow(x, detail::kSilent);
  const detail::Decay decay(detail::notBelow(-std::abs(x), detail::kSilent));
  const float sum = 1.0f + decay.value();
  const float above = (sum + x * decay.value()) / (sum * sum), below = decay.times((sum + near) / (sum * sum));
  return detail::validFrom(x, x < 0 ? below : above);
}
inline double siluSlope(double x) {
  const double e = std::exp(-std::abs(x)), near = 1 / (1 + e), far = e / (1 + e);
  const double above = x < 0 ? far : near, below = x < 0 ? near : far;  // sigmoid(x), sigmoid(-x)
  return above * (x * below + 1);
}

/// x · tanh(ln(1 + exp(x))). With e = exp(x) below 0 and exp(−x) above, the hyperbolic tangent is (e² + 2e) / (e² + 2e
/// + 2) and (1 + 2e) / (1 + 2e + 2e²).
inline float mish(float x) {
  const float near = detail::notBelow(x, detail::kSilent);
  const detail::Decay decay(detail::notBelow(-std::abs(x), detail::kSilent));
  const float e = decay.value();
  const float above = x * ((1.0f + 2.0f * e) / (1.0f + 2.0f * e * (1.0f + e)));
  const float below = decay.times(near * ((e + 2.0f) / (e * (e + 2.0f) + 2.0f)));
  return detail::validFrom(x, x < 0 ? below : above);
}
inline double mish(double x) { return x * tanh(softplus(x)); }

inline float mishSlope(float x) {
  const float near = detail::notBelow(x, detail::kSilent);
  const detail::Decay decay(detail::notBelow(-std::abs(x), detail::kSilent));
  const float e = decay.value(), sum = 1.0f + e;
  const float wide = 1.0f + 2.0f * e * sum, narrow = e * (e + 2.0f) + 2.0f;
  const float above = ((1.0f + 2.0f * e) * wide + x * (4.0f * e * e) * sum) / (wide * wide);
  const float below = decay.times(((e + 2.0f) * narrow + 4.0f * near * sum) / (narrow * narrow));
  return detail::validFrom(x, x < 0 ? below : above);
}
inline double mishSlope(double x) {
  const double gate = tanh(softplus(x));
  return gate + x * sigmoid(x) * (1 - gate * gate);
}

/// x · Φ(x) of the standard normal distribution.
inline float gelu(float x) {
  const detail::NormalTail tail(std::abs(x));
  const float lost = tail.decay.times(tail.z * tail.distribution);
  return detail::validFrom(x, x < 0 ? -lost : x - lost);
}
inline double gelu(double x) { return x * normalCdf(x); }

inline float geluSlope(float x) {
  const detail::NormalTail tail(std::abs(x));
  const float beyond = tail.distribution - tail.z * tail.kDensity, lost = tail.decay.times(beyond);
  return detail::validFrom(-std::abs(x), x < 0 ? lost : 1.0f - lost);
}
inline double geluSlope(double x) { return normalCdf(x) + x * normalDensity(x); }

}  // namespace gradc::fast::math
