// Elementwise functions with fused gradients that few networks use: erf, its inverse, smooth_l1, hard_sigmoid,
// a parabola.
//
// The common ones are in ops/elementwise/unary.cc. MXNet's gradient of erf has 2/√π in single precision, which is
// 3·10⁻⁸ less. Tested by tests/ops/layer_ops_test.cc
#include "ops/elementwise/special_functions.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/functions.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

using std::exp;

constexpr double kErfSlope = 1.1283791670955125739;  // 2/√π
constexpr Domain kWithinOne[] = {Domain::WithinOne};

// The y with erf(y) = x: an approximation by Winitzki (2008), good to 2·10⁻³, then steps of Halley's method, each of
// which triples the number of digits. Near ±1 the error is computed by erfc.
double inverseErf(double x) {
  if (!(std::abs(x) < 1)) return std::abs(x) == 1 ? std::copysign(INFINITY, x) : NAN;
  const double rest = 1 - std::abs(x), a = 0.147, log = std::log1p(-x * x),
               half = 2 / (a * 3.14159265358979323846) + log / 2;
  double y = std::sqrt(std::sqrt(half * half - log / a) - half);
  for (int step = 0; step < 3; ++step) {
    const double error = rest < 0.5 ? rest - std::erfc(y) : std::erf(y) - std::abs(x);
    const double newton = error / (kErfSlope * std::exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

struct SmoothParams {
  double scalar = 1;
  double knee() const { return 1 / (scalar * scalar); }  // the function is linear beyond this |x|
};
constexpr AttrSpec kSmoothAttrs[] = {
    attr<&SmoothParams::scalar>("scalar", "1", "σ; the function is a parabola for |x| ≤ 1/σ²"),
};

struct HardParams {
  double alpha = 0.2, beta = 0.5;
};
constexpr AttrSpec kHardAttrs[] = {
    attr<&HardParams::alpha>("alpha", "0.200000003", "slope"),
    attr<&HardParams::beta>("beta", "0.5", "value at 0"),
};

struct QuadraticParams {
  double a = 0, b = 0, c = 0;
};
constexpr AttrSpec kQuadraticAttrs[] = {
    attr<&QuadraticParams::a>("a", "0", "factor of x²"),
    attr<&QuadraticParams::b>("b", "0", "factor of x"),
    attr<&QuadraticParams::c>("c", "0", "value at 0"),
};

// MXNet holds these in single precision.
Error checkQuadratic(const OpDef &, void *params) {
  QuadraticParams &p = *static_cast<QuadraticParams *>(params);
  for (double *factor : {&p.a, &p.b, &p.c}) *factor = roundToSingle(*factor);
  return Error::success();
}

// MXNet holds both in single precision.
Error checkHard(const OpDef &, void *params) {
  HardParams &p = *static_cast<HardParams *>(params);
  p.alpha = roundToSingle(p.alpha);
  p.beta = roundToSingle(p.beta);
  return Error::success();
}

// out = F(params, x, x at the base point), or F(params, dy, x, x at the base point) for gradients.
template <class P, auto F> void mapWith(const KernelCall &call, ArrayRef<TensorRef> base) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const P p = call.params<P>();
    const size_t last = call.in.size() - 1;
    const T *first = call.in[0].as<const T>(), *x = call.in[last].as<const T>(), *at = base[last].as<const T>();
    T *to = call.out[0].as<T>();
    forElements<T>(call.out[0].size(), [=](int64_t i) {
      if constexpr (std::is_invocable_v<decltype(F), const P &, T, T>) to[i] = F(p, x[i], at[i]);
      else to[i] = F(p, first[i], x[i], at[i]);
    });
  });
}
template <class P, auto F> void mapKernel(const KernelCall &call) { mapWith<P, F>(call, call.in); }
template <class P, auto F> void mapAtBase(const PieceCall &call) { mapWith<P, F>(call, call.base); }

constexpr auto kSmooth = [](const SmoothParams &p, auto x, auto at) {
  using T = decltype(x);
  const T knee = static_cast<T>(p.knee()), square = static_cast<T>(p.scalar * p.scalar);
  if (at > knee) return x - T(0.5) * knee;
  if (at < -knee) return -x - T(0.5) * knee;
  return T(0.5) * square * x * x;
};

constexpr auto kSmoothSlope = [](const SmoothParams &p, auto dy, auto x, auto at) {
  using T = decltype(x);
  const T knee = static_cast<T>(p.knee()), square = static_cast<T>(p.scalar * p.scalar);
  if (at > knee) return dy;
  if (at < -knee) return -dy;
  return dy * square * x;
};

// Whether x is on the linear part. Its bounds are not: their slope is 0.
template <class T> bool isBetween(const HardParams &p, T x) {
  const T line = static_cast<T>(p.alpha) * x + static_cast<T>(p.beta);
  return line > T{0} && line < T{1};
}

constexpr auto kHard = [](const HardParams &p, auto x, auto at) {
  using T = decltype(x);
  const T slope = static_cast<T>(p.alpha), shift = static_cast<T>(p.beta), line = slope * x + shift;
  if (std::isnan(line) || isBetween(p, at)) return line;
  return slope * at + shift > T{0} ? T{1} : T{0};
};

constexpr auto kHardSlope = [](const HardParams &p, auto dy, auto x, auto at) {
  using T = decltype(x);
  return isBetween(p, at) ? dy * static_cast<T>(p.alpha) : T{0};
};

constexpr auto kParabola = [](const QuadraticParams &p, auto x, auto) {
  using T = decltype(x);
  return static_cast<T>(p.a) * x * x + static_cast<T>(p.b) * x + static_cast<T>(p.c);
};

constexpr auto kParabolaSlope = [](const QuadraticParams &p, auto dy, auto x, auto) {
  using T = decltype(x);
  return dy * (T(2) * static_cast<T>(p.a) * x + static_cast<T>(p.b));
};

void smoothByChoosing(DecomposeRule &d) {
  const SmoothParams &p = d.params<SmoothParams>();
  const Value size = d.emit(kAbs, {d.x(0)});
  const Value isStraight = d.emit(kGreaterScalar, {size}, {{"scalar", d.number(p.knee())}});
  const Value straight = d.emit(kMinusScalar, {size}, {{"scalar", d.number(p.knee() / 2)}});
  const StringRef halfSquare = d.number(p.scalar * p.scalar / 2);
  // The square of x may overflow where the product with σ² does not.
  const Value parabola = d.emit(kElemwiseMul, {d.emit(kMulScalar, {d.x(0)}, {{"scalar", halfSquare}}), d.x(0)});
  d.y(0, d.emit(kWhere, {isStraight, straight, parabola}));
}

void cutLine(DecomposeRule &d) {
  const HardParams &p = d.params<HardParams>();
  const Value sloped = d.emit(kMulScalar, {d.x(0)}, {{"scalar", d.number(p.alpha)}});
  const Value line = d.emit(kPlusScalar, {sloped}, {{"scalar", d.number(p.beta)}});
  const Value above = d.emit(kMaximumScalar, {line}, {{"scalar", "0"}});
  d.y(0, d.emit(kMinimumScalar, {above}, {{"scalar", "1"}}));
}

constinit const OpDef kBackwardErf = asSlope({
    .name = "_backward_erf",
    .summary = "gradient of erf: dx = dy·2/√π·exp(−x²)",
    .inputs = {"dy", "x"},
    .decompose =
        [](DecomposeRule &d) {
          const Value bell = d.emit(kExp, {d.emit(kNegative, {d.emit(kSquare, {d.x(1)})})});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), d.emit(kMulScalar, {bell}, {{"scalar", d.number(kErfSlope)}})}));
        },
    .kernel =
        mapFloating<[](auto dy, auto x) { return dy * (static_cast<decltype(x)>(kErfSlope) * std::exp(-x * x)); }>,
});

constinit const OpDef kBackwardErfinv =
    slope<[](auto dy, auto y) { return dy * (exp(square(y)) / constant(y, kErfSlope)); }>(
        "_backward_erfinv", "y", "gradient of erfinv: dx = dy·√π/2·exp(y²)");

constinit const OpDef kErfinv = [] {
  OpDef op = unary<[](auto x) { return inverseErf(static_cast<double>(x)); }>(
      {"erfinv", "_npx_erfinv"}, "the inverse of erf: erf(y) = x; ±∞ at ±1, NaN beyond", kWithinOne);
  op.gradient = gradientBy<kBackwardErfinv>;
  op.irreducible = "is not in ONNX opset 18, and no finite formula of its operators is right for all x";
  return op;
}();

constinit const OpDef kBackwardSmoothL1 = asSlope({
    .name = "_backward_smooth_l1",
    .summary = "gradient of smooth_l1: dx = dy·σ²·x where |x| ≤ 1/σ², else dy·sign(x)",
    .inputs = {"dy", "x"},
    .attrs = kSmoothAttrs,
    .params = paramsOf<SmoothParams>(),
    .decompose =
        [](DecomposeRule &d) {
          const SmoothParams &p = d.params<SmoothParams>();
          const Value x = d.x(1);
          const Value outside = d.emit(kGreaterScalar, {d.emit(kAbs, {x})}, {{"scalar", d.number(p.knee())}});
          const Value curved = d.emit(kMulScalar, {x}, {{"scalar", d.number(p.scalar * p.scalar)}});
          const Value slope = d.emit(kWhere, {outside, d.emit(kSign, {x}), curved});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
        },
    .kernel = mapKernel<SmoothParams, kSmoothSlope>,
    .piece = mapAtBase<SmoothParams, kSmoothSlope>,
});

constinit const OpDef kSmoothL1 = asFunction({
    .name = "smooth_l1",
    .aliases = {"_npx_smooth_l1"},
    .summary = "y = σ²·x²/2 where |x| ≤ 1/σ², else |x| − 1/(2σ²)",
    .attrs = kSmoothAttrs,
    .params = paramsOf<SmoothParams>(),
    .gradient = [](GradRule &g) { g.fused(kBackwardSmoothL1, {g.dy(0), g.x(0)}); },
    .decompose = smoothByChoosing,
    .kernel = mapKernel<SmoothParams, kSmooth>,
    .piece = mapAtBase<SmoothParams, kSmooth>,
});

constinit const OpDef kBackwardHardSigmoid = asSlope({
    .name = "_backward_hard_sigmoid",
    .summary = "gradient of hard_sigmoid: dx = dy·alpha where 0 < alpha·x + beta < 1, else 0",
    .inputs = {"dy", "x"},
    .attrs = kHardAttrs,
    .params = paramsOf<HardParams>(),
    .check = checkHard,
    .decompose =
        [](DecomposeRule &d) {
          const HardParams &p = d.params<HardParams>();
          const Value line = d.emit(kPlusScalar, {d.emit(kMulScalar, {d.x(1)}, {{"scalar", d.number(p.alpha)}})},
                                    {{"scalar", d.number(p.beta)}});
          const Value between = d.emit(kElemwiseMul, {d.emit(kGreaterScalar, {line}, {{"scalar", "0"}}),
                                                      d.emit(kLesserScalar, {line}, {{"scalar", "1"}})});
          const Value slope = d.emit(kMulScalar, {between}, {{"scalar", d.number(p.alpha)}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
        },
    .kernel = mapKernel<HardParams, kHardSlope>,
    .piece = mapAtBase<HardParams, kHardSlope>,
});

constinit const OpDef kHardSigmoid = asFunction({
    .name = "hard_sigmoid",
    .summary = "y = min(max(alpha·x + beta, 0), 1)",
    .attrs = kHardAttrs,
    .params = paramsOf<HardParams>(),
    .check = checkHard,
    .gradient = [](GradRule &g) { g.fused(kBackwardHardSigmoid, {g.dy(0), g.x(0)}); },
    .decompose = cutLine,
    .kernel = mapKernel<HardParams, kHard>,
    .piece = mapAtBase<HardParams, kHard>,
});

}  // namespace

constinit const OpDef kErf = asFunction({
    .name = "erf",
    .aliases = {"_npx_erf"},
    .summary = "y = 2/√π · ∫ exp(−t²) dt from 0 to x",
    .gradient = [](GradRule &g) { g.fused(kBackwardErf, {g.dy(0), g.x(0)}); },
    .primitive = {.onnx = "Erf", .c = "y[i] = erf(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::erf(x); }>,
});

namespace {
constinit const OpDef kBackwardQuadratic = asSlope({
    .name = "_contrib_backward_quadratic",
    .summary = "gradient of _contrib_quadratic: dx = dy·(2·a·x + b)",
    .inputs = {"dy", "x"},
    .attrs = kQuadraticAttrs,
    .params = paramsOf<QuadraticParams>(),
    .check = checkQuadratic,
    .decompose =
        [](DecomposeRule &d) {
          const QuadraticParams &p = d.params<QuadraticParams>();
          const Value line = d.emit(kMulScalar, {d.x(1)}, {{"scalar", d.number(2 * p.a)}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), d.emit(kPlusScalar, {line}, {{"scalar", d.number(p.b)}})}));
        },
    .kernel = mapKernel<QuadraticParams, kParabolaSlope>,
});

constinit const OpDef kQuadratic = asFunction({
    .name = "_contrib_quadratic",
    .summary = "y = a·x² + b·x + c",
    .attrs = kQuadraticAttrs,
    .params = paramsOf<QuadraticParams>(),
    .check = checkQuadratic,
    .gradient = [](GradRule &g) { g.fused(kBackwardQuadratic, {g.dy(0), g.x(0)}); },
    .decompose =
        [](DecomposeRule &d) {
          const QuadraticParams &p = d.params<QuadraticParams>();
          const Value steep = d.emit(kMulScalar, {d.x(0)}, {{"scalar", d.number(p.a)}});
          const Value line = d.emit(kPlusScalar, {steep}, {{"scalar", d.number(p.b)}});
          d.y(0, d.emit(kPlusScalar, {d.emit(kElemwiseMul, {line, d.x(0)})}, {{"scalar", d.number(p.c)}}));
        },
    .kernel = mapKernel<QuadraticParams, kParabola>,
});

}  // namespace

constinit const OpFamily kSpecialFunctionsFamily =
    kOps<kErf, kBackwardErf, kErfinv, kBackwardErfinv, kSmoothL1, kBackwardSmoothL1, kHardSigmoid, kBackwardHardSigmoid,
         kQuadratic, kBackwardQuadratic>;

}  // namespace gradc
