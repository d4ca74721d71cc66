// Circular and hyperbolic functions, their inverses, and angles in degrees and radians.
//
// tanh is in ops/elementwise/unary.cc. Tested by tests/ops/elementwise_ops_test.cc
#include "ops/elementwise/functions.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using std::abs, std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atanh, std::cos, std::cosh, std::sin,
    std::sinh, std::sqrt, std::tan;

constexpr double kDegree = 0.017453292519943295769;  // π/180
constexpr Domain kWithinOne[] = {Domain::WithinOne}, kWithinOneSecond[] = {Domain::Any, Domain::WithinOne};
constexpr Domain kAboveOne[] = {Domain::AboveOne}, kAboveOneSecond[] = {Domain::Any, Domain::AboveOne};

// By exp(x / 2), because exp(x) overflows where cosh(x) does not. Each half is a function of x or of -x alone: then an
// infinite slope is not multiplied by one that is 0.
constexpr auto kCoshByExp = [](auto x) {
  const auto half = constant(x, 0.5) * x, up = exp(half), down = exp(-half);
  return constant(x, 0.5) * up * up + constant(x, 0.5) * down * down;
};
// exp(x) - 1 = p · (p + 2), p = exp(x / 2) - 1; the difference of exp(x) and exp(-x) would cancel near 0.
constexpr auto kSinhByExpm1 = [](auto x) {
  const auto half = constant(x, 0.5) * x, up = expm1(half), down = expm1(-half);
  return constant(x, 0.5) * up * (up + 2) - constant(x, 0.5) * down * (down + 2);
};
// 1 - x is exact near 1, where 1 - x^2 would cancel. By the angle of a point, whose slopes are finite where x is 1 or
// -1.
constexpr auto kArcsinByAngle = [](auto x) { return atan2(x, sqrt(1 - x) * sqrt(1 + x)); };
constexpr auto kArccosByAngle = [](auto x) { return 2 * atan2(sqrt(1 - x), sqrt(1 + x)); };
constexpr auto kArctanhByLogs = [](auto x) { return constant(x, 0.5) * (log1p(x) - log1p(-x)); };

// With u = 1 / (1 + |x|), 1 + x^2 is q / u^2, and q is from 1/2 to 1: no square overflows, and nothing is infinite at
// an infinite x.
constexpr auto kShare = [](auto x) { return 1 / (abs(x) + 1); };
constexpr auto kRest = [](auto x) {
  const auto u = kShare(x);
  return 1 - (1 - u) * u * 2;
};
// 1 - x^2; 1 - x is exact near 1.
constexpr auto kWithin = [](auto x) { return (1 - x) * (1 + x); };
template <class T> bool isFar(T x) { return std::abs(x) > T(0x1p60); }  // 1 + x^2 is x^2, which may overflow

constinit const OpDef kBackwardSin =
    slope<[](auto dy, auto x) { return dy * cos(x); }>("_backward_sin", "x", "gradient of sin: dx = dy * cos(x)");
constinit const OpDef kBackwardCos =
    slope<[](auto dy, auto x) { return dy * -sin(x); }>("_backward_cos", "x", "gradient of cos: dx = -dy * sin(x)");
constinit const OpDef kBackwardTan = slope<[](auto dy, auto y) { return dy * (square(y) + 1); }>(
    "_backward_tan", "y", "gradient of tan: dx = dy * (1 + y^2)");
// The formulas keep 1 - x^2: where x is 1, differentiating the product again would multiply an infinity by 0.
constinit const OpDef kBackwardArcsin = slope<[](auto dy, auto x) { return dy / sqrt(kWithin(x)); },
                                              [](auto dy, auto x) { return dy / sqrt(1 - square(x)); }>(
    "_backward_arcsin", "x", "gradient of arcsin: dx = dy / sqrt(1 - x^2)", kWithinOneSecond);
constinit const OpDef kBackwardArccos = slope<[](auto dy, auto x) { return -dy / sqrt(kWithin(x)); },
                                              [](auto dy, auto x) { return -dy / sqrt(1 - square(x)); }>(
    "_backward_arccos", "x", "gradient of arccos: dx = -dy / sqrt(1 - x^2)", kWithinOneSecond);
constinit const OpDef kBackwardArctan =
    curvedSlope<[](auto dy, auto x) { return isFar(x) ? dy / x / x : dy / (square(x) + 1); },
                [](auto dy, auto x) { return dy * (kShare(x) * kShare(x) / kRest(x)); },
                [](auto x) {
                  const auto part = kShare(x) / kRest(x);
                  return softsign(x) * part * part * kShare(x) * -2;
                }>("_backward_arctan", "gradient of arctan: dx = dy / (1 + x^2)");
constinit const OpDef kBackwardSinh =
    slope<[](auto dy, auto x) { return dy * cosh(x); }>("_backward_sinh", "x", "gradient of sinh: dx = dy * cosh(x)");
constinit const OpDef kBackwardCosh =
    slope<[](auto dy, auto x) { return dy * sinh(x); }>("_backward_cosh", "x", "gradient of cosh: dx = dy * sinh(x)");
constinit const OpDef kBackwardArcsinh =
    curvedSlope<[](auto dy, auto x) { return isFar(x) ? dy / std::abs(x) : dy / sqrt(square(x) + 1); },
                [](auto dy, auto x) { return dy * (kShare(x) / sqrt(kRest(x))); },
                [](auto x) { return -(softsign(x) * (kShare(x) / kRest(x)) * (kShare(x) / sqrt(kRest(x)))); }>(
        "_backward_arcsinh", "gradient of arcsinh: dx = dy / sqrt(x^2 + 1)");
// x - 1 is exact near 1, and neither root is infinite where its derivative is not 0.
constexpr auto kArccoshSlope = [](auto dy, auto x) { return dy / sqrt(x - 1) / sqrt(x + 1); };
constinit const OpDef kBackwardArccosh = curvedSlope<kArccoshSlope, kArccoshSlope, [](auto x) {
  const auto low = 1 / sqrt(x - 1), high = 1 / sqrt(x + 1);
  return (low * low + high * high) * (low * high) * -0.5;
}>("_backward_arccosh", "gradient of arccosh: dx = dy / sqrt(x^2 - 1)", kAboveOneSecond);
constinit const OpDef kBackwardArctanh =
    slope<[](auto dy, auto x) { return dy / kWithin(x); }, [](auto dy, auto x) { return dy / (1 - square(x)); }>(
        "_backward_arctanh", "x", "gradient of arctanh: dx = dy / (1 - x^2)", kWithinOneSecond);
// MXNet's operand x is not read.
template <auto F> constexpr OpDef constantSlope(StringRef name, StringRef summary) {
  OpDef op = slope<[](auto dy, auto) { return F(dy); }>(name, "x", summary);
  op.ignored = {1};
  op.kernel = mapFloating<F>;
  return op;
}
constinit const OpDef kBackwardDegrees = constantSlope<[](auto dy) { return dy / constant(dy, kDegree); }>(
    "_backward_degrees", "gradient of degrees: dx = dy * 180 / π");
constinit const OpDef kBackwardRadians = constantSlope<[](auto dy) { return dy * constant(dy, kDegree); }>(
    "_backward_radians", "gradient of radians: dx = dy * π / 180");

}  // namespace

constinit const OpDef kSin = function<[](auto x) { return sin(x); }, kBackwardSin>(
    {"sin", "_npi_sin", "_sparse_sin"}, "y = sin(x)", {.onnx = "Sin", .c = "y[i] = sin(x[i])"});
constinit const OpDef kCos = function<[](auto x) { return cos(x); }, kBackwardCos>(
    {"cos", "_npi_cos", "_sparse_cos"}, "y = cos(x)", {.onnx = "Cos", .c = "y[i] = cos(x[i])"});
constinit const OpDef kSinh = composed<[](auto x) { return sinh(x); }, kBackwardSinh, kSinhByExpm1>(
    {"sinh", "_npi_sinh", "_sparse_sinh"}, "y = sinh(x)");
constinit const OpDef kCosh = composed<[](auto x) { return cosh(x); }, kBackwardCosh, kCoshByExp>(
    {"cosh", "_npi_cosh", "_sparse_cosh"}, "y = cosh(x)");
constinit const OpDef kArctan = function<[](auto x) { return atan(x); }, kBackwardArctan>(
    {"arctan", "_npi_arctan", "_sparse_arctan"}, "y = arctan(x)", {.onnx = "Atan", .c = "y[i] = atan(x[i])"});

namespace {

constinit const OpDef kTan =
    composed<[](auto x) { return tan(x); }, kBackwardTan, [](auto x) { return sin(x) / cos(x); }>(
        {"tan", "_npi_tan", "_sparse_tan"}, "y = tan(x)");
constinit const OpDef kArcsin = composed<[](auto x) { return asin(x); }, kBackwardArcsin, kArcsinByAngle>(
    {"arcsin", "_npi_arcsin", "_sparse_arcsin"}, "y = arcsin(x)", kWithinOne);
constinit const OpDef kArccos = composed<[](auto x) { return acos(x); }, kBackwardArccos, kArccosByAngle>(
    {"arccos", "_npi_arccos", "_sparse_arccos"}, "y = arccos(x)", kWithinOne);
constinit const OpDef kArcsinh = function<[](auto x) { return asinh(x); }, kBackwardArcsinh>(
    {"arcsinh", "_npi_arcsinh", "_sparse_arcsinh"}, "y = arsinh(x)", {.onnx = "Asinh", .c = "y[i] = asinh(x[i])"});
constinit const OpDef kArccosh = function<[](auto x) { return acosh(x); }, kBackwardArccosh>(
    {"arccosh", "_npi_arccosh", "_sparse_arccosh"}, "y = arcosh(x)", {.onnx = "Acosh", .c = "y[i] = acosh(x[i])"},
    kAboveOne);
constinit const OpDef kArctanh = composed<[](auto x) { return atanh(x); }, kBackwardArctanh, kArctanhByLogs>(
    {"arctanh", "_npi_arctanh", "_sparse_arctanh"}, "y = artanh(x)", kWithinOne);
constinit const OpDef kDegrees = composed<[](auto x) { return x / constant(x, kDegree); }, kBackwardDegrees>(
    {"degrees", "_npi_degrees", "_sparse_degrees"}, "y = x * 180 / π");
constinit const OpDef kRadians = composed<[](auto x) { return x * constant(x, kDegree); }, kBackwardRadians>(
    {"radians", "_npi_radians", "_sparse_radians"}, "y = x * π / 180");

}  // namespace

constinit const OpFamily kTrigonometricFamily =
    kOps<kSin, kCos, kTan, kArcsin, kArccos, kArctan, kSinh, kCosh, kArcsinh, kArccosh, kArctanh, kDegrees, kRadians,
         kBackwardSin, kBackwardCos, kBackwardTan, kBackwardArcsin, kBackwardArccos, kBackwardArctan, kBackwardSinh,
         kBackwardCosh, kBackwardArcsinh, kBackwardArccosh, kBackwardArctanh, kBackwardDegrees, kBackwardRadians>;

}  // namespace gradc
