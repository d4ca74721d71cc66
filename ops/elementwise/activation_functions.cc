// Activation functions of gradc's own, which MXNet 1.9.1 lacks: log_sigmoid, silu, mish, gelu, hard_swish.
//
// Those that MXNet has are in ops/elementwise/activation.cc, leaky_relu.cc and unary.cc. Tested by
// tests/ops/elementwise_ops_test.cc
#include "ops/elementwise/functions.h"
#include "ops/elementwise/special_functions.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {

extern const OpDef kLogSigmoid;

namespace {

using std::abs, std::exp, std::log1p, std::tanh;

constexpr double kInverseRoot2 = 0.70710678118654752440;

// ln(1 / (1 + exp(-x))), without overflow for any x.
Term logSigmoid(const Term &x) { return Term::apply(kLogSigmoid, x); }
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T logSigmoid(T x) {
  return (x < 0 ? x : T(0)) - log1p(exp(-abs(x)));
}
Term gaussianCdf(const Term &x) { return (Term::apply(kErf, x * kInverseRoot2) + 1) * 0.5; }
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T gaussianCdf(T x) { return normalCdf(x); }

// tanh(ln(1 + exp(x)))
constexpr auto kMishGate = [](auto x) { return tanh(-logSigmoid(-x)); };

// 1 - sigmoid(x) cancels where sigmoid(-x), the same number, does not.
constexpr auto kLogSigmoidSlope = [](auto dy, auto x) { return dy * sigmoid(-x); };
constinit const OpDef kBackwardLogSigmoid =
    curvedSlope<kLogSigmoidSlope, kLogSigmoidSlope, [](auto x) { return -(sigmoid(x) * sigmoid(-x)); }>(
        "_backward_log_sigmoid", "gradient of log_sigmoid: dx = dy / (1 + exp(x))");
constexpr auto kSiluSlope = [](auto dy, auto x) { return dy * (sigmoid(x) * (x * sigmoid(-x) + 1)); };
constinit const OpDef kBackwardSilu = curvedSlope<kSiluSlope, kSiluSlope, [](auto x) {
  return sigmoid(x) * sigmoid(-x) * (x * (sigmoid(-x) - sigmoid(x)) + 2);
}>("_backward_silu", "gradient of silu: dx = dy * s * (1 + x * (1 - s)), s = sigmoid(x)");
// The gate's square is 1 less h = (2w / (1 + w^2))^2, w = sigmoid(-x).
constexpr auto kMishRest = [](auto x) { return square(sigmoid(-x) * 2 / (square(sigmoid(-x)) + 1)); };
constexpr auto kMishSlope = [](auto dy, auto x) { return dy * (kMishGate(x) + x * sigmoid(x) * kMishRest(x)); };
constinit const OpDef kBackwardMish = curvedSlope<kMishSlope, kMishSlope, [](auto x) {
  const auto rest = sigmoid(x) * kMishRest(x);  // 0 before x * 2 overflows
  return rest * 2 + rest * x * (sigmoid(-x) - kMishGate(x) * sigmoid(x) * 2);
}>("_backward_mish", "gradient of mish: dx = dy * (t + x * sigmoid(x) * (1 - t^2)), t = tanh(ln(1 + exp(x)))");
constinit const OpDef kBackwardGelu = slope<[](auto dy, auto x) {
  return dy * (gaussianCdf(x) + x * (exp(square(x) * constant(x, -0.5)) * constant(x, kNormalPeak)));
}>("_backward_gelu", "x",
   "gradient of gelu: dx = dy·(Φ(x) + x·φ(x)), Φ the standard normal distribution and φ its density");

// `at` selects the piece. The gate is linear between -3 and 3.
struct HardSwish {
  template <class T> constexpr T operator()(T x, T at) const {
    if (at <= T(-3)) return T(0) * x;
    return at >= T(3) ? x : x * (x + T(3)) / T(6);
  }
};
struct HardSwishSlope {
  template <class T> constexpr T operator()(T dy, T x, T at) const {
    if (at <= T(-3)) return T(0);
    return at >= T(3) ? dy : dy * (T(2) * x + T(3)) / T(6);
  }
};

// Flat at both ends of the gate, as the slope above.
constexpr auto kHardSwishFormula = [](auto x) { return x * (minimum(6, Term::apply(kRelu, x + 3)) / 6); };
constexpr auto kHardSwishSlopeFormula = [](auto dy, auto x) {
  const auto below = greater(-x, -3);
  return dy * (greater(x, -3) * below * (x * 2 + 3) / 6 + (1 - below));
};

constinit const OpDef kBackwardHardSwish = [] {
  OpDef op = slope<[](auto dy, auto x) { return HardSwishSlope()(dy, x, x); }, kHardSwishSlopeFormula>(
      "_backward_hard_swish", "x",
      "gradient of hard_swish: dx = dy * (2 * x + 3) / 6 where |x| < 3, 0 below, dy above");
  op.piece = mapBackwardPiece<HardSwishSlope{}>;
  return op;
}();

// Below 0 the exponential is divided between two factors: alone it would be below the normal numbers before the product
// is.
template <class T> T silu(T x) {
  const T e = std::exp(std::abs(x) * T(-0.5)), size = x / (1 + e * e), below = size * e * e;
  return x < 0 ? below : size;
}
constinit const OpDef kSilu =
    composed<[](auto x) { return silu(x); }, kBackwardSilu, [](auto x) { return x * sigmoid(x); }>(
        {"silu"}, "y = x / (1 + exp(-x))");
constinit const OpDef kMish =
    composed<[](auto x) { return x * kMishGate(x); }, kBackwardMish>({"mish"}, "y = x * tanh(ln(1 + exp(x)))");
constinit const OpDef kGelu = composed<[](auto x) { return x * gaussianCdf(x); }, kBackwardGelu>(
    {"gelu"}, "y = x·Φ(x), Φ the standard normal distribution");
constinit const OpDef kHardSwish = [] {
  OpDef op = composed<[](auto x) { return HardSwish()(x, x); }, kBackwardHardSwish, kHardSwishFormula>(
      {"hard_swish"}, "y = x * min(max(x + 3, 0), 6) / 6");
  op.piece = mapPiece<HardSwish{}>;
  return op;
}();

}  // namespace

// Smooth, though written with pieces, which meet at 0: there the gradient is that of x < 0, because ties go to the
// first operand.
constinit const OpDef kLogSigmoid = composed<[](auto x) { return logSigmoid(x); }, kBackwardLogSigmoid,
                                             [](auto x) { return minimum(x, 0) - log1p(exp(minimum(x, -x))); }>(
    {"log_sigmoid"}, "y = -ln(1 + exp(-x))");

namespace {}  // namespace

constinit const OpFamily kActivationFunctionsFamily =
    kOps<kLogSigmoid, kSilu, kMish, kGelu, kHardSwish, kBackwardLogSigmoid, kBackwardSilu, kBackwardMish, kBackwardGelu,
         kBackwardHardSwish>;

}  // namespace gradc
