// hypot, mod, arctan2 and ldexp in all their forms. Powers are in power.cc and scalar.cc, extrema in extrema.cc.
// Tested by tests/ops/elementwise_ops_test.cc
#include "ops/binary/binary_functions.h"

#include "ir/op/hidden_keys.h"
#include "ops/elementwise/integer_functions.h"
#include "ops/kit/families.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace gradc {
namespace {

using std::abs, std::hypot, std::round;

// x / hypot(x, other). An infinity is not divided by another, 0 is not divided by 0, and no digit is lost: the sine of
// an angle near 0 is exact to the last one, the cosine of one near π/2 is not.
Term sineOf(const Term &x, const Term &other) { return sin(atan2(x, abs(other))); }

// hypot(a, b), but 1 where that is 0, and a and b divided by it.
struct Directions {
  Term size, a, b;

  Directions(const Term &a, const Term &b) : size(nonZero(hypot(a, b))), a(sineOf(a, b)), b(sineOf(b, a)) {}

 private:
  static Term nonZero(const Term &y) { return y + kIsZero(y); }
};

constexpr auto kIsOrigin = [](auto a, auto b) { return a == 0 && b == 0; };

// At (0, 0), the tip of a cone, all derivatives are 0, as those of abs are.
struct Hypot {
  static constexpr auto value = [](auto a, auto b) { return hypot(a, b); };
  static constexpr auto part = [](auto x, auto other) {
    const auto y = hypot(x, other), isNonZero = abs(sign(y));
    return x * isNonZero / (y + (1 - isNonZero));
  };
  static constexpr auto left = [](auto dy, auto a, auto b) { return dy * part(a, b); };
  static constexpr auto right = [](auto dy, auto a, auto b) { return dy * part(b, a); };
  static constexpr auto isTip = kIsOrigin;
  static constexpr auto valuePiece = [](auto a, auto b, auto a0, auto b0) {
    return isTip(a0, b0) ? decltype(a)(0) : hypot(a, b);
  };
  static Term leftLeft(const Term &a, const Term &b) {
    const Directions to(a, b);
    return to.b / to.size * to.b;
  }
  static Term leftRight(const Term &a, const Term &b) {
    const Directions to(a, b);
    return -(to.a * to.b / to.size);
  }
  static Term rightRight(const Term &a, const Term &b) { return leftLeft(b, a); }
};

Term restOf(const Term &a, const Term &b);  // Mod

// The remainder has the sign of the divisor, and is 0 where the divisor is 0.
struct Mod {
  static constexpr bool kHasIntegers = true;
  static constexpr auto value = [](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>) {
      return flooredRest(a, b);
    } else if constexpr (std::is_same_v<decltype(a), Term>) {
      return restOf(a, b);
    } else {
      const auto rest = std::fmod(a, b);
      if (b == 0) return decltype(rest)(0);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  };
  static constexpr auto left = [](auto dy, auto, auto) { return dy; };
  // Where a / b rounds up to a whole number, its floor is one too many: 1 / 0.1 is 10, but 0.1 fits into 1 nine times.
  static constexpr auto quotient = [](auto a, auto b) { return round((a - value(a, b)) / b); };
  static constexpr auto right = [](auto dy, auto a, auto b) { return -(dy * quotient(a, b)); };
  static constexpr auto valuePiece = [](auto a, auto b, auto a0, auto b0) {
    const auto rest = value(a0, b0);
    return b0 == 0 ? rest : rest + (a - a0) - (b - b0) * quotient(a0, b0);
  };
};

// a / (a² + b²), where the squares may overflow or vanish: 0 at (0, 0), as in PyTorch, and where a or b is infinite.
template <class T> T overSquares(T a, T b) {
  const T sum = a * a + b * b;
  if (sum > std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() &&
      sum < std::numeric_limits<T>::infinity())
    return a / sum;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (std::isinf(a) || std::isinf(b)) return T(0);
  const T part = sum > 1 ? T(0.25) : T(1), size = hypot(a * part, b * part);  // neither overflows nor loses digits
  return size == 0 ? T(0) : a * part / size / size * part;
}
Term overSquares(const Term &a, const Term &b) {
  const Directions to(a, b);
  return to.a / to.size;
}

// The angle jumps at the half axis b < 0; its slopes do not. At (0, 0) all derivatives are 0.
struct Arctan2 {
  static constexpr auto value = [](auto a, auto b) { return std::atan2(a, b); };
  static constexpr auto left = [](auto dy, auto a, auto b) { return dy * overSquares(b, a); };
  static constexpr auto right = [](auto dy, auto a, auto b) { return -(dy * overSquares(a, b)); };
  static constexpr auto isTip = kIsOrigin;
  // Whole turns away from the angle at the base point are left out.
  static constexpr auto valuePiece = [](auto a, auto b, auto a0, auto b0) {
    constexpr auto kTurn = static_cast<decltype(a)>(2 * 3.14159265358979323846);
    const auto angle = std::atan2(a, b), base = std::atan2(a0, b0);
    return isTip(a0, b0) ? base : angle - kTurn * round((angle - base) / kTurn);
  };
  static Term leftLeft(const Term &a, const Term &b) {
    const Directions to(a, b);
    return to.a * to.b / to.size / to.size * -2;
  }
  static Term leftRight(const Term &a, const Term &b) {
    const Directions to(a, b);
    return (to.a - to.b) * (to.a + to.b) / to.size / to.size;
  }
  static Term rightRight(const Term &a, const Term &b) { return -leftLeft(a, b); }
};

constexpr double kLn2 = 0.69314718055994530942;

// a · factor · 2^b. The power may overflow or vanish where the product does not.
template <class T> T scaled(T a, T b, T factor = 1) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0) return a * (std::isfinite(b) ? T(1) : std::exp2(b));
  int exponent = 0;
  const T part = std::frexp(a, &exponent), whole = std::floor(b);
  constexpr T kFar = 5000;  // more than all exponents
  return std::ldexp(part * factor * std::exp2(b - whole), exponent + static_cast<int>(std::clamp(whole, -kFar, kFar)));
}
Term scaled(const Term &a, const Term &b);  // by the operators of Ldexp

struct Ldexp {
  static constexpr auto value = [](auto a, auto b) { return scaled(a, b); };
  static constexpr auto left = [](auto dy, auto, auto b) { return scaled(dy, b); };
  static constexpr auto right = [](auto dy, auto a, auto b) {
    if constexpr (std::is_same_v<decltype(a), Term>) return dy * (scaled(a, b) * kLn2);
    else return dy * scaled(a, b, decltype(a)(kLn2));
  };
};

// ---- hypot

// In units of the larger operand, so that no square overflows or vanishes. The unit is a constant: y does not depend on
// it, nor does any derivative. It is 1 where the larger operand is 0, where no operand is passed on, or infinite.
void decomposeHypot(DecomposeRule &d) {
  Formula formula(d, Formula::Shapes::Broadcast);
  const Term a(formula, d.x(0)), b(formula, d.x(1)), larger = maximum(abs(a), abs(b)), isZero = kIsZero(larger);
  const Value size = (larger + isZero).value(), isInfinite = kIsZero(1 / Term(formula, size)).value();
  const Term unit(formula, d.emit(kWhere, {isInfinite, d.emit(kOnesLike, {size}), size}, {{kStopMark, "True"}}));
  const Term isPassed = 1 - isZero;
  const Term sum = square(a * isPassed / unit) + square(b * isPassed / unit);
  d.y(0, (unit * (sqrt(sum + isZero) - isZero)).value());
}

constinit const OpDef kBackwardBroadcastHypot = broadcastGradient<Hypot>(
    {{"_backward_broadcast_hypot"},
     "gradient of broadcast_hypot: dlhs = sum dy * lhs / y, drhs = sum dy * rhs / y; 0 where y = 0"});
constinit const OpDef kBackwardHypot = equalGradient<Hypot>(
    {{"_backward_hypot"}, "gradient of _hypot: dlhs = dy * lhs / y, drhs = dy * rhs / y; 0 where y = 0"});
constinit const OpDef kBackwardHypotScalar =
    scalarGradient<Hypot>({{"_backward_hypot_scalar"}, "gradient of _hypot_scalar: dx = dy * x / y; 0 where y = 0"});
}  // namespace

constinit const OpDef kBroadcastHypot =
    withDecomposition(broadcastForm<Hypot, kBackwardBroadcastHypot>(
                          {{"broadcast_hypot", "_npi_hypot"}, "y = sqrt(lhs^2 + rhs^2) with broadcasting"}),
                      decomposeHypot);
constinit const OpDef kHypot = equalForm<Hypot, kBackwardHypot, kBroadcastHypot>(
    {{"_hypot", "_Hypot"}, "y = sqrt(lhs^2 + rhs^2), operands of equal shape"});
constinit const OpDef kHypotScalar = scalarForm<Hypot, kBackwardHypotScalar, kHypot>(
    {{"_hypot_scalar", "_HypotScalar", "_npi_hypot_scalar"}, "y = sqrt(x^2 + scalar^2)"});

namespace {

// ---- mod

constinit const OpDef kBackwardBroadcastMod = broadcastGradient<Mod>(
    {{"_backward_broadcast_mod"}, "gradient of broadcast_mod: dlhs = sum dy, drhs = -sum dy * floor(lhs / rhs)"});
constinit const OpDef kBackwardMod =
    equalGradient<Mod>({{"_backward_mod"}, "gradient of _mod: dlhs = dy, drhs = -dy * floor(lhs / rhs)"});
constinit const OpDef kBackwardModScalar =
    scalarGradient<Mod>({{"_backward_mod_scalar"}, "gradient of _mod_scalar: dx = dy"});
constinit const OpDef kBackwardRmodScalar =
    reversedGradient<Mod>({{"_backward_rmod_scalar"}, "gradient of _rmod_scalar: dx = -dy * floor(scalar / x)"});
constinit const OpDef kBroadcastMod = asPrimitive(
    broadcastForm<Mod, kBackwardBroadcastMod>(
        {{"broadcast_mod", "_npi_mod"},
         "y = the rest of lhs / rhs, with the sign of rhs, with broadcasting; 0 for rhs 0"}),
    {.onnx =
         "Mod, Sign, Equal, Neg, Where, Add: r = Mod(a, b, fmod=1); r + b where r and b have opposite signs, else r",
     .c = "r = fmod(a[j], b[k]); y[i] = b[k] == 0 ? 0 : r != 0 && (r < 0) != (b[k] < 0) ? r + b[k] : r"});
constinit const OpDef kMod = equalForm<Mod, kBackwardMod, kBroadcastMod>(
    {{"_mod", "_Mod"}, "y = the rest of lhs / rhs, with the sign of rhs, operands of equal shape; 0 for rhs 0"});
constinit const OpDef kModScalar =
    scalarForm<Mod, kBackwardModScalar, kMod>({{"_mod_scalar", "_ModScalar", "_npi_mod_scalar"},
                                               "y = the rest of x / scalar, with the sign of scalar; 0 for scalar 0"});
constinit const OpDef kRmodScalar = reversedForm<Mod, kBackwardRmodScalar, kMod>(
    {{"_rmod_scalar", "_RModScalar", "_npi_rmod_scalar"}, "y = the rest of scalar / x, with the sign of x; 0 for x 0"});

Term restOf(const Term &a, const Term &b) {
  static constexpr Term::Operators kRest = {&kMod, &kBroadcastMod, &kModScalar, &kRmodScalar,
                                            [](double x, double y) { return Mod::value(x, y); }};
  return Term::combine(kRest, a, b);
}

// ---- arctan2, which MXNet has only with broadcasting

constinit const OpDef kBackwardArctan2 = broadcastGradient<Arctan2>(
    {{"_backward_npi_arctan2"},
     "gradient of arctan2: dlhs = sum dy * rhs / (lhs^2 + rhs^2), drhs = -sum dy * lhs / (lhs^2 + rhs^2)"});
constinit const OpDef kBackwardArctan2Scalar = scalarGradient<Arctan2>(
    {{"_backward_npi_arctan2_scalar"}, "gradient of _npi_arctan2_scalar: dx = dy * scalar / (x^2 + scalar^2)"});
constinit const OpDef kBackwardRarctan2Scalar = reversedGradient<Arctan2>(
    {{"_backward_npi_rarctan2_scalar"}, "gradient of _npi_rarctan2_scalar: dx = -dy * scalar / (x^2 + scalar^2)"});

}  // namespace

constinit const OpDef kArctan2 = asPrimitive(
    broadcastForm<Arctan2, kBackwardArctan2>(
        {{"_npi_arctan2", "arctan2"}, "y = the angle of the point (rhs, lhs), from -π to π, with broadcasting"}),
    {.onnx = "Mul, Add, Sqrt, Div, Atan, Where: 2 * Atan(a / (sqrt(a^2 + b^2) + b)) where b > 0, else its complement",
     .c = "y[i] = atan2(a[j], b[k]); a repeated axis has step 0"});
constinit const OpDef kArctan2Scalar = scalarForm<Arctan2, kBackwardArctan2Scalar, kArctan2>(
    {{"_npi_arctan2_scalar"}, "y = the angle of the point (scalar, x)"});
constinit const OpDef kRarctan2Scalar = reversedForm<Arctan2, kBackwardRarctan2Scalar, kArctan2>(
    {{"_npi_rarctan2_scalar"}, "y = the angle of the point (x, scalar)"});

namespace {

// ---- ldexp, likewise

constinit const OpDef kBackwardLdexp = broadcastGradient<Ldexp>(
    {{"_backward_npi_ldexp"}, "gradient of ldexp: dlhs = sum dy * 2^rhs, drhs = sum dy * lhs * 2^rhs * ln(2)"});
constinit const OpDef kBackwardLdexpScalar =
    scalarGradient<Ldexp>({{"_backward_npi_ldexp_scalar"}, "gradient of _npi_ldexp_scalar: dx = dy * 2^scalar"});
constinit const OpDef kBackwardRldexpScalar = reversedGradient<Ldexp>(
    {{"_backward_npi_rldexp_scalar"}, "gradient of _npi_rldexp_scalar: dx = dy * scalar * 2^x * ln(2)"});
constinit const OpDef kLdexp = asPrimitive(
    broadcastForm<Ldexp, kBackwardLdexp>({{"_npi_ldexp", "ldexp"}, "y = lhs * 2^rhs with broadcasting"}),
    {.onnx = "Pow, Mul: a * 2^b; in as many factors 2^(b/n) as it takes for none to overflow, and 0 where a = 0",
     .c = "n = floor(b[k]); y[i] = ldexp(a[j] * exp2(b[k] - n), n); a repeated axis has step 0"});
constinit const OpDef kLdexpScalar =
    scalarForm<Ldexp, kBackwardLdexpScalar, kLdexp>({{"_npi_ldexp_scalar"}, "y = x * 2^scalar"});
constinit const OpDef kRldexpScalar =
    reversedForm<Ldexp, kBackwardRldexpScalar, kLdexp>({{"_npi_rldexp_scalar"}, "y = scalar * 2^x"});

Term scaled(const Term &a, const Term &b) {
  static constexpr Term::Operators kScaled = {&kLdexp, &kLdexp, &kLdexpScalar, &kRldexpScalar,
                                              [](double x, double y) { return scaled<double>(x, y); }};
  return Term::combine(kScaled, a, b);
}

}  // namespace

constinit const OpFamily kBinaryFunctionsFamily =
    kOps<kBroadcastHypot, kHypot, kHypotScalar, kBroadcastMod, kMod, kModScalar, kRmodScalar, kArctan2, kArctan2Scalar,
         kRarctan2Scalar, kLdexp, kLdexpScalar, kRldexpScalar, kBackwardBroadcastHypot, kBackwardHypot,
         kBackwardHypotScalar, kBackwardBroadcastMod, kBackwardMod, kBackwardModScalar, kBackwardRmodScalar,
         kBackwardArctan2, kBackwardArctan2Scalar, kBackwardRarctan2Scalar, kBackwardLdexp, kBackwardLdexpScalar,
         kBackwardRldexpScalar>;

}  // namespace gradc
