// The functions of float32 that loops use, against those of float64: over a million floats of all exponents and signs, or,
// with GRADC_EVERY_FLOAT in the environment (//tests:every_float_test), over all 2^32.
#include "runtime/kernels/float_functions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <limits>

namespace gradc {
namespace {

using namespace fast;

using Float = float (*)(float);
using Double = double (*)(double);

/// The distance between the two floats next to `value`; of a number too large for one, that of the largest.
double unitAt(double value) {
  float size = static_cast<float>(std::abs(value));
  if (size == std::numeric_limits<float>::infinity()) size = std::numeric_limits<float>::max();
  return static_cast<double>(size) - static_cast<double>(std::nextafter(size, -1.0f));
}

bool isSame(float found, double expected) {
  const float rounded = static_cast<float>(expected);
  if (std::isnan(expected)) return std::isnan(found);
  return found == rounded && std::signbit(found) == std::signbit(rounded);
}

/// The largest distance in units, and the number it is found at.
struct Worst {
  double units = 0;
  float at = 0;
  uint64_t count = 0;
};

template <class In> Worst worstOf(Float found, Double expected, In isInside) {
  const uint64_t step = std::getenv("GRADC_EVERY_FLOAT") ? 1 : 4201;
  Worst worst;
  auto look = [&](float x) {
    if (!isInside(x)) return;
    ++worst.count;
    const float y = found(x);
    const double wanted = expected(static_cast<double>(x));
    if (isSame(y, wanted)) return;
    // A NaN is infinitely far from a number, and so is infinity, but for what only just overflows.
    const bool isFar = std::isnan(y) || std::isnan(wanted) || std::isinf(wanted) || wanted == 0;
    const double largest = std::numeric_limits<float>::max();
    const double from = std::isinf(y) ? std::copysign(largest, static_cast<double>(y)) : static_cast<double>(y);
    const double units = isFar ? INFINITY : std::abs(from - wanted) / unitAt(wanted);
    if (units > worst.units) worst = {units, x, worst.count};
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step)
    look(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float x : {0.0f, 1.0f, 1e-45f, 1.17549421e-38f, 1.17549435e-38f, 3.40282347e38f, 88.72283f, 88.72284f, 103.97f,
                  104.0f, 150.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    look(x);
    look(-x);
  }
  return worst;
}

constexpr auto kEvery = [](float) { return true; };

void expectClose(Float found, Double expected, double units = 4) {
  const Worst worst = worstOf(found, expected, kEvery);
  EXPECT_LE(worst.units, units) << "at " << worst.at;
  EXPECT_GT(worst.count, 1000000u);
}

TEST(FloatFunctions, RUN_02_Exponential) {
  expectClose([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); });
  expectClose([](float x) { return math::expm1(x); }, [](double x) { return std::expm1(x); });
}
TEST(FloatFunctions, RUN_02_Logarithm) {
  expectClose([](float x) { return math::log(x); }, [](double x) { return std::log(x); });
  expectClose([](float x) { return math::log1p(x); }, [](double x) { return std::log1p(x); }, 2);
}
TEST(FloatFunctions, RUN_02_HyperbolicTangent) {
  expectClose([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); });
}
TEST(FloatFunctions, RUN_02_ErrorFunction) {
  expectClose([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); });
}
TEST(FloatFunctions, RUN_02_CircularFunctions) {
  expectClose([](float x) { return math::sinOfAny(x); }, [](double x) { return std::sin(x); });
  expectClose([](float x) { return math::cosOfAny(x); }, [](double x) { return std::cos(x); });
}

// Where loops use them: below −87 they are 0.
TEST(FloatFunctions, RUN_02_ExponentialOfSumsAndSigmoid) {
  const auto isInside = [](float x) { return x >= -87.0f && x <= 0.0f; };
  const Worst exponential =
      worstOf([](float x) { return math::expOfNonPositive(x); }, [](double x) { return std::exp(x); }, isInside);
  EXPECT_LE(exponential.units, 4) << "at " << exponential.at;
  const Worst sigmoid = worstOf([](float x) { return math::sigmoid(x); },
                                [](double x) { return 1 / (1 + std::exp(-x)); }, [](float x) { return !(x < -86.9f); });
  EXPECT_LE(sigmoid.units, 4) << "at " << sigmoid.at;
  for (float x : {-87.1f, -1e30f, -INFINITY}) {
    EXPECT_EQ(math::expOfNonPositive(x), 0.0f) << x;
    EXPECT_EQ(math::sigmoid(x), 0.0f) << x;
  }
  EXPECT_TRUE(std::isnan(math::expOfNonPositive(NAN)));
}

}  // namespace
}  // namespace gradc
