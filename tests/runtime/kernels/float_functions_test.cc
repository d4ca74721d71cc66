// The functions of float32 that loops use, and the two that oneDNN computes, against those of float64: over a million
// floats of all exponents and signs, or, with GRADC_EVERY_FLOAT in the environment (//tests:every_float_test), over all
// 2^32.
#include "runtime/kernels/elementwise/float_activations.h"

#include "runtime/kernels/table.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

namespace gradc {
namespace {

using namespace fast;
using namespace gradc::testing;

using Float = float (*)(float);
using Double = double (*)(double);
/// Computes `count` results.
using Floats = llvm::function_ref<void(const float *x, float *y, size_t count)>;

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

  /// `size`: the number whose unit counts.
  void look(float x, float found, double wanted, double size) {
    ++count;
    if (isSame(found, wanted)) return;
    // A NaN is infinitely far from a number, and so is infinity, but for what only just overflows.
    const bool isFar = std::isnan(found) || std::isnan(wanted) || std::isinf(wanted) || size == 0;
    const double largest = std::numeric_limits<float>::max();
    const double from =
        std::isinf(found) ? std::copysign(largest, static_cast<double>(found)) : static_cast<double>(found);
    const double distance = isFar ? INFINITY : std::abs(from - wanted) / unitAt(size);
    if (distance > units) units = distance, at = x;
  }
};

/// `sizeOf`, unless null, is the number whose unit counts, and zeros may then have either sign.
template <class In> Worst worstOf(Floats found, Double expected, In isInside, Double sizeOf = nullptr) {
  const uint64_t step = std::getenv("GRADC_EVERY_FLOAT") ? 1 : 4201;
  constexpr size_t kBlock = 8192;
  Worst worst;
  std::vector<float> x, y(kBlock);
  auto lookAtAll = [&] {
    found(x.data(), y.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double at = static_cast<double>(x[i]), wanted = expected(at);
      const bool isEitherZero = sizeOf && y[i] == 0 && static_cast<float>(wanted) == 0;
      worst.look(x[i], isEitherZero ? static_cast<float>(wanted) : y[i], wanted, sizeOf ? sizeOf(at) : wanted);
    }
    x.clear();
  };
  auto add = [&](float number) {
    if (isInside(number)) x.push_back(number);
    if (x.size() == kBlock) lookAtAll();
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step)
    add(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float number :
       {0.0f, 1.0f, 1e-45f, 1.17549421e-38f, 1.17549435e-38f, 3.40282347e38f, 88.72283f, 88.72284f, 103.97f, 104.0f,
        150.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    add(number);
    add(-number);
  }
  lookAtAll();
  return worst;
}
template <class In> Worst worstOf(Float found, Double expected, In isInside, Double sizeOf = nullptr) {
  return worstOf([=](const float *x, float *y, size_t count) { std::transform(x, x + count, y, found); }, expected,
                 isInside, sizeOf);
}

constexpr auto kEvery = [](float) { return true; };

void expectClose(Float found, Double expected, double units = 4, Double sizeOf = nullptr) {
  const Worst worst = worstOf(found, expected, kEvery, sizeOf);
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

// In float64, without losses below 0: exp(−|x|), 1 / (1 + exp(−x)) and tanh(ln(1 + exp(x))).
double decay(double x) { return std::exp(-std::abs(x)); }
double logistic(double x) { return (x < 0 ? decay(x) : 1) / (1 + decay(x)); }
double gate(double x) { return std::tanh(std::max(x, 0.0) + std::log1p(decay(x))); }
double gateSlope(double x) {
  const double e = decay(x),
               cosh = x < 0 ? (e * (e + 2) + 2) / (2 * (1 + e)) : (1 + 2 * e * (1 + e)) / (2 * e * (1 + e));
  return x * logistic(x) / (cosh * cosh);
}

TEST(FloatFunctions, RUN_02_Activations) {
  expectClose([](float x) { return math::softplus(x); },
              [](double x) { return std::max(x, 0.0) + std::log1p(decay(x)); });
  expectClose([](float x) { return math::logSigmoid(x); },
              [](double x) { return std::min(x, 0.0) - std::log1p(decay(x)); });
  expectClose([](float x) { return math::logSigmoidSlope(x); }, [](double x) { return logistic(-x); });
  expectClose([](float x) { return math::silu(x); }, [](double x) { return x * logistic(x); });
  expectClose([](float x) { return math::mish(x); }, [](double x) { return x * gate(x); });
  expectClose([](float x) { return math::gelu(x); }, [](double x) { return x * normalCdf(x); });
}

// These pass through 0, where no rounded sum of two terms has a bound relative to itself: units are those of the larger
// term. mish's has a rounding more in each.
TEST(FloatFunctions, RUN_02_DerivativesOfActivations) {
  expectClose([](float x) { return math::siluSlope(x); },
              [](double x) { return logistic(x) + x * logistic(x) * logistic(-x); }, 4,
              [](double x) { return std::max(logistic(x), std::abs(x * logistic(x) * logistic(-x))); });
  expectClose([](float x) { return math::mishSlope(x); }, [](double x) { return gate(x) + gateSlope(x); }, 5,
              [](double x) { return std::max(gate(x), std::abs(gateSlope(x))); });
  expectClose([](float x) { return math::geluSlope(x); }, [](double x) { return normalCdf(x) + x * normalDensity(x); },
              4, [](double x) { return std::max(normalCdf(x), std::abs(x * normalDensity(x))); });
}

/// The worst result of the fast kernel that runs for "y = op(x)" in float32.
template <class In> Worst worstOfKernel(const char *text, Double expected, In isInside) {
  TestGraph g(text);
  const NodeId node = nodeNamed(g, "y");
  const Request request = Request::Write;
  auto compute = [&](const float *x, float *y, size_t count) {
    const DimsBuffer dims{static_cast<int64_t>(count)};
    const TensorRef in{const_cast<float *>(x), DType::Float32, dims}, out{y, DType::Float32, dims};
    KernelSite site;
    site.kind = &g.graph.kind(node);
    site.in = in, site.out = out, site.requests = request;
    const std::unique_ptr<PreparedKernel> kernel = findFastKernel(*site.kind->op)->make(site);
    std::vector<char> workspace(kernel->workspaceBytes() + 64);
    KernelCall call;
    call.kind = site.kind;
    call.in = in, call.out = out, call.requests = request;
    call.workspace = reinterpret_cast<void *>(llvm::alignTo(reinterpret_cast<uintptr_t>(workspace.data()), 64));
    kernel->run(call);
  };
  return worstOf(compute, expected, isInside);
}

// The error of oneDNN's logistic function grows with the exponent below 0: 4 units end at −84, 5.5 are the most, at
// −86.6. It is 0 where results become subnormal, as ours is.
TEST(FloatFunctions, RUN_02_SigmoidAndTangentAsTheyRun) {
  const Worst sigmoid = worstOfKernel("y = sigmoid(x); heads y", logistic, [](float x) { return !(x < -86.9f); });
  EXPECT_LE(sigmoid.units, 6) << "at " << sigmoid.at;
  EXPECT_GT(sigmoid.count, 750000u);
  const Worst tangent = worstOfKernel("y = tanh(x); heads y", [](double x) { return std::tanh(x); }, kEvery);
  EXPECT_LE(tangent.units, 4) << "at " << tangent.at;
}

}  // namespace
}  // namespace gradc
