// The gamma function, its logarithm, and the derivatives of the latter.
//
// ψ⁽ⁿ⁾ is the n-th derivative of ln Γ's derivative ψ, and the derivative of ψ⁽ⁿ⁾ is ψ⁽ⁿ⁺¹⁾: one operator with the order
// as an attribute closes gamma and gammaln under differentiation. MXNet 1.9.1 has ψ inside its two gradient operators
// only. Tested by tests/ops/sequence_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/SmallVector.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kHighestOrder = 20;
constexpr double kPi = 3.14159265358979323846;

struct PolygammaParams {
  int64_t order = 0;
};
constexpr AttrSpec kAttrs[] = {
    attr<&PolygammaParams::order>("order", "0", "how often ψ is differentiated").atLeast(0).atMost(kHighestOrder),
};

// Series and recurrences such as those below converge only on part of the axis, and the number of steps depends on x.
constexpr StringLiteral kNoFormula =
    "is not in ONNX opset 18, and no finite formula of its operators is right for all x";

// Even Bernoulli numbers B2, B4, …, B16.
constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                 5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};

// The asymptotic series, Abramowitz and Stegun 6.3.18 and 6.4.11, for large x:
// ψ(x) ~ ln x − 1/(2x) − Σ B2k/(2k·x^2k),
// ψ⁽ⁿ⁾(x) ~ (−1)^(n−1)·[(n−1)!/xⁿ + n!/(2·xⁿ⁺¹) + Σ B2k·(2k+n−1)!/((2k)!·x^(2k+n))].
double polygammaSeries(int64_t order, double x) {
  const double n = static_cast<double>(order);
  // c = (2k+n−1)!/((2k)!·x^(2k+n)), starting at k = 1; the two terms before the sum are added first.
  double sum = order == 0 ? -std::log(x) : std::tgamma(n) / std::pow(x, n);
  sum += std::tgamma(n + 1) / (2 * std::pow(x, n + 1));
  double c = std::tgamma(n + 2) / (2 * std::pow(x, n + 2));
  for (size_t k = 0; k < std::size(kBernoulli); ++k) {
    sum += kBernoulli[k] * c;
    const double two = 2 * static_cast<double>(k + 1);
    c *= (two + n) * (two + n + 1) / ((two + 1) * (two + 2) * x * x);
  }
  return order % 2 == 0 ? -sum : sum;
}

// For x > 0: ψ⁽ⁿ⁾(x) = ψ⁽ⁿ⁾(x + 1) − (−1)ⁿ·n!/xⁿ⁺¹ until the series holds.
double polygammaPositive(int64_t order, double x) {
  const double n = static_cast<double>(order), large = 15 + n;
  const double factor = (order % 2 == 0 ? 1 : -1) * std::tgamma(n + 1);
  double sum = 0;
  for (; x < large; ++x) sum -= factor / std::pow(x, n + 1);
  return sum + polygammaSeries(order, x);
}

// The n-th derivative of π·cot(πx), a polynomial in c = cot(πx): P₀ = c and, as c' = −π·(1 + c²), Pₙ₊₁ = −(1 + c²)·Pₙ'.
double cotangentDerivative(int64_t order, double x) {
  SmallVector<double, 24> poly = {0, 1};
  for (int64_t n = 0; n < order; ++n) {
    SmallVector<double, 24> next(poly.size() + 1, 0);
    for (size_t k = 1; k < poly.size(); ++k) {
      next[k - 1] -= static_cast<double>(k) * poly[k];
      next[k + 1] -= static_cast<double>(k) * poly[k];
    }
    poly = next;
  }
  const double c = 1 / std::tan(kPi * (x - std::round(x)));  // the difference is exact, however near x is to a pole
  double value = poly.back();                                // never 0, which times an infinite c would be NaN
  for (size_t k = poly.size() - 1; k-- > 0;) value = value * c + poly[k];
  return value * std::pow(kPi, static_cast<double>(order + 1));
}

// The limit at a pole. For even n those from the two sides differ, and only the sign of a zero determines which one is
// meant.
double atPole(int64_t order, double x) {
  if (std::isinf(x)) return NAN;
  if (order % 2 == 1) return INFINITY;
  return x == 0 ? -std::copysign(INFINITY, x) : NAN;
}

// ψ⁽ⁿ⁾(x); left of 0 by reflection, (−1)ⁿ·ψ⁽ⁿ⁾(1 − x) − ψ⁽ⁿ⁾(x) = dⁿ/dxⁿ π·cot(πx).
double polygamma(int64_t order, double x) {
  if (x > 0) return polygammaPositive(order, x);
  if (x == std::floor(x)) return atPole(order, x);
  const double mirrored = polygammaPositive(order, 1 - x);
  return (order % 2 == 0 ? mirrored : -mirrored) - cotangentDerivative(order, x);
}

// std::lgamma leaves a sign in a global variable.
double logGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

void polygammaKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const int64_t order = call.params<PolygammaParams>().order;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i)
      y[i] = static_cast<T>(polygamma(order, static_cast<double>(x[i])));
  });
}

constinit const OpDef kPolygamma = asFunction({
    .name = "_polygamma",
    .summary = "y = ψ⁽ⁿ⁾(x), n the order: the derivative n + 1 times of ln Γ",
    .attrs = kAttrs,
    .params = paramsOf<PolygammaParams>(),
    .gradient =
        [](GradRule &g) {
          const StringRef next = g.number(g.params<PolygammaParams>().order + 1);
          g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.emit(kPolygamma, {g.x(0)}, {{"order", next}})}));
        },
    .irreducible = kNoFormula,
    .kernel = polygammaKernel,
});

constinit const OpDef kDigamma = asFunction({
    .name = "digamma",
    .summary = "y = ψ(x), the derivative of ln Γ",
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kPolygamma, {d.x(0)})); },
    .kernel = mapFloating<[](auto x) { return polygamma(0, static_cast<double>(x)); }>,
});

constinit const OpDef kBackwardGammaln = asSlope({
    .name = "_backward_gammaln",
    .summary = "gradient of gammaln: dx = dy·ψ(x)",
    .inputs = {"dy", "x"},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kElemwiseMul, {d.x(0), d.emit(kPolygamma, {d.x(1)})})); },
    .kernel = mapFloating<[](auto dy, auto x) {
      return dy * static_cast<decltype(x)>(polygamma(0, static_cast<double>(x)));
    }>,
});

constinit const OpDef kGammaln = asFunction({
    .name = "gammaln",
    .aliases = {"_npx_gammaln", "_sparse_gammaln"},
    .summary = "y = ln |Γ(x)|",
    .gradient = [](GradRule &g) { g.fused(kBackwardGammaln, {g.dy(0), g.x(0)}); },
    .irreducible = kNoFormula,
    .kernel = mapFloating<[](auto x) { return logGamma(static_cast<double>(x)); }>,
});

extern const OpDef kGammaFunction;

constinit const OpDef kBackwardGamma = asSlope({
    .name = "_backward_gamma",
    .summary = "gradient of gamma: dx = dy·Γ(x)·ψ(x)",
    .inputs = {"dy", "x"},
    .decompose =
        [](DecomposeRule &d) {
          const Value slope = d.emit(kElemwiseMul, {d.emit(kGammaFunction, {d.x(1)}), d.emit(kPolygamma, {d.x(1)})});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
        },
    .kernel = mapFloating<[](auto dy, auto x) {
      const double at = static_cast<double>(x);
      return dy * static_cast<decltype(x)>(std::tgamma(at) * polygamma(0, at));
    }>,
});

constinit const OpDef kGammaFunction = asFunction({
    .name = "gamma",
    .aliases = {"_npx_gamma", "_sparse_gamma"},
    .summary = "y = Γ(x) = ∫ tˣ⁻¹·exp(−t) dt over t > 0, continued to x < 0",
    .gradient = [](GradRule &g) { g.fused(kBackwardGamma, {g.dy(0), g.x(0)}); },
    .irreducible = kNoFormula,
    .kernel = mapFloating<[](auto x) { return std::tgamma(static_cast<double>(x)); }>,
});

}  // namespace

constinit const OpFamily kGammaFunctionsFamily =
    kOps<kGammaFunction, kBackwardGamma, kGammaln, kBackwardGammaln, kPolygamma, kDigamma>;

}  // namespace gradc
