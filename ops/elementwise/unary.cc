// Functions of one variable, element by element, and their gradients: powers, logarithms, and the common activations.
//
// Others are in trigonometric.cc, rounding.cc, special_functions.cc and gamma_functions.cc. Smooth functions are
// written as formulas (functions.h); those with pieces, integers or special gradients are written out at the end.
// Tested by tests/ops/elementwise_ops_test.cc
#include "ops/elementwise/functions.h"
#include "ops/elementwise/scalar_params.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using std::abs, std::cbrt, std::exp, std::log, std::sqrt, std::tanh;

constexpr double kLn2 = 0.69314718055994530942, kLn10 = 2.3025850929940456840;
constexpr double kLog2OfE = 1.4426950408889634074, kLog10OfE = 0.43429448190325182765;
constexpr Domain kPositive[] = {Domain::Positive}, kPositiveSecond[] = {Domain::Any, Domain::Positive};

constinit const OpDef kBackwardLog = slope<[](auto dy, auto x) { return dy / x; }>(
    "_backward_log", "x", "gradient of log: dx = dy / x", kPositiveSecond);
constinit const OpDef kBackwardLog2 = slope<[](auto dy, auto x) { return dy * constant(x, kLog2OfE) / x; }>(
    "_backward_log2", "x", "gradient of log2: dx = dy / (x * ln(2))", kPositiveSecond);
constinit const OpDef kBackwardLog10 = slope<[](auto dy, auto x) { return dy * constant(x, kLog10OfE) / x; }>(
    "_backward_log10", "x", "gradient of log10: dx = dy / (x * ln(10))", kPositiveSecond);
constinit const OpDef kBackwardLog1p = slope<[](auto dy, auto x) { return dy / (x + 1); }>(
    "_backward_log1p", "x", "gradient of log1p: dx = dy / (1 + x)", kPositiveSecond);
constinit const OpDef kBackwardExpm1 =
    slope<[](auto dy, auto x) { return dy * exp(x); }>("_backward_expm1", "x", "gradient of expm1: dx = dy * exp(x)");
constinit const OpDef kBackwardSqrt = slope<[](auto dy, auto y) { return dy * constant(y, 0.5) / y; }>(
    "_backward_sqrt", "y", "gradient of sqrt: dx = dy / (2 * y)", kPositiveSecond);
// Negative powers are written as powers of a reciprocal. The next derivative of 1 / x^2 multiplies an infinity by a 0
// where x is 0 or infinite, that of (1 / x)^2 does not.
constinit const OpDef kBackwardRsqrt = slope<[](auto dy, auto x) {
  const auto y = 1 / sqrt(x);
  return dy * (constant(x, -0.5) * y * y * y);
}>("_backward_rsqrt", "x", "gradient of rsqrt: dx = -dy / (2 * x * sqrt(x))", kPositiveSecond);
constinit const OpDef kBackwardCbrt = slope<[](auto dy, auto y) { return dy * square(1 / y) / 3; }>(
    "_backward_cbrt", "y", "gradient of cbrt: dx = dy / (3 * y^2)", kPositiveSecond);
constinit const OpDef kBackwardRcbrt =
    slope<[](auto dy, auto x) { return -(dy * (square(1 / cbrt(x)) / 3 * square(1 / cbrt(x)))); }>(
        "_backward_rcbrt", "x", "gradient of rcbrt: dx = -dy / (3 * x * cbrt(x))", kPositiveSecond);
constinit const OpDef kBackwardSquare =
    slope<[](auto dy, auto x) { return dy * x * 2; }>("_backward_square", "x", "gradient of square: dx = 2 * x * dy");
constinit const OpDef kBackwardReciprocal = slope<[](auto dy, auto x) { return -(dy * square(1 / x)); }>(
    "_backward_reciprocal", "x", "gradient of reciprocal: dx = -dy / x^2");
constinit const OpDef kBackwardSigmoid = slope<[](auto dy, auto y) { return dy * (y * (1 - y)); }>(
    "_backward_sigmoid", "y", "gradient of sigmoid: dx = dy * y * (1 - y)");
// On numbers 1 - y is exact where y is near 1. The formula stays 1 - y^2: differentiated, the product would cancel near
// 0.
constinit const OpDef kBackwardTanh = slope<[](auto dy, auto y) { return dy * ((1 - y) * (1 + y)); },
                                            [](auto dy, auto y) { return dy * (1 - square(y)); }>(
    "_backward_tanh", "y", "gradient of tanh: dx = dy * (1 - y^2)");
// |x| on the piece of the base point: 0 at 0, where the pieces meet.
template <class T> T magnitude(T x, T base) { return static_cast<T>(base < T(0) ? -x : base == T(0) ? T(0) : x); }

constinit const OpDef kBackwardSoftsign = [] {
  OpDef op = slope<[](auto dy, auto x) { return dy * square(1 / (abs(x) + 1)); }>(
      "_backward_softsign", "x", "gradient of softsign: dx = dy / (1 + |x|)^2");
  op.piece = mapBackwardPiece<[](auto dy, auto x, auto base) {
    const auto part = 1 / (magnitude(x, base) + 1);
    return static_cast<decltype(dy)>(dy * (part * part));
  }>;
  return op;
}();

}  // namespace

constinit const OpDef kLog = function<[](auto x) { return log(x); }, kBackwardLog>(
    {"log", "_sparse_log", "_npi_log"}, "natural logarithm: y = ln(x)", {.onnx = "Log", .c = "y[i] = log(x[i])"},
    kPositive);
constinit const OpDef kLog1p = function<[](auto x) { return std::log1p(x); }, kBackwardLog1p>(
    {"log1p", "_sparse_log1p", "_npi_log1p"}, "y = ln(1 + x)",
    {.onnx = "Add, Log, Sub, Div, Mul, Where: u = 1 + x; x where u = 1, else ln(u) * x / (u - 1)",
     .c = "y[i] = log1p(x[i])"},
    kPositive);
constinit const OpDef kExpm1 = function<[](auto x) { return std::expm1(x); }, kBackwardExpm1>(
    {"expm1", "_sparse_expm1", "_npi_expm1"}, "y = exp(x) - 1",
    {.onnx = "Exp, Sub, Log, Div, Mul, Where: u = exp(x); x where u = 1, else (u - 1) * x / ln(u)",
     .c = "y[i] = expm1(x[i])"});
constinit const OpDef kSqrt = function<[](auto x) { return sqrt(x); }, kBackwardSqrt>(
    {"sqrt", "_sparse_sqrt", "_npi_sqrt"}, "y = sqrt(x)", {.onnx = "Sqrt", .c = "y[i] = sqrt(x[i])"}, kPositive);
// The sign is 1 at 0, where the slope is infinite and not 0 · ∞.
constexpr auto kCbrtByPower = [](auto x) {
  const auto sign = 1 - 2 * greater(0, x);
  return sign * pow(sign * x, constant(x, 1.0 / 3));
};
constinit const OpDef kCbrt = composed<[](auto x) { return cbrt(x); }, kBackwardCbrt, kCbrtByPower>(
    {"cbrt", "_sparse_cbrt", "_npi_cbrt"}, "cubic root: y^3 = x");
constinit const OpDef kReciprocal =
    composed<[](auto x) { return 1 / x; }, kBackwardReciprocal>({"reciprocal", "_npi_reciprocal"}, "y = 1 / x");
constinit const OpDef kSigmoid = function<[](auto x) { return sigmoid(x); }, kBackwardSigmoid>(
    {"sigmoid", "_sparse_sigmoid", "_npx_sigmoid"}, "y = 1 / (1 + exp(-x))",
    {.onnx = "Sigmoid", .c = "y[i] = 1 / (1 + exp(-x[i]))"});
constinit const OpDef kTanh = function<[](auto x) { return tanh(x); }, kBackwardTanh>(
    {"tanh", "_sparse_tanh", "_npi_tanh"}, "y = tanh(x)", {.onnx = "Tanh", .c = "y[i] = tanh(x[i])"});
constinit const OpDef kSoftsign = [] {
  OpDef op = composed<[](auto x) { return softsign(x); }, kBackwardSoftsign, [](auto x) { return x / (abs(x) + 1); }>(
      {"softsign"}, "y = x / (1 + |x|)");
  op.piece = mapPiece<[](auto x, auto base) { return static_cast<decltype(x)>(x / (magnitude(x, base) + 1)); }>;
  return op;
}();

namespace {

constinit const OpDef kLog2 =
    composed<[](auto x) { return std::log2(x); }, kBackwardLog2, [](auto x) { return log(x) / constant(x, kLn2); }>(
        {"log2", "_sparse_log2", "_npi_log2"}, "y = ln(x) / ln(2)", kPositive);
constinit const OpDef kLog10 =
    composed<[](auto x) { return std::log10(x); }, kBackwardLog10, [](auto x) { return log(x) / constant(x, kLn10); }>(
        {"log10", "_sparse_log10", "_npi_log10"}, "y = ln(x) / ln(10)", kPositive);
constinit const OpDef kRsqrt = composed<[](auto x) { return 1 / sqrt(x); }, kBackwardRsqrt>(
    {"rsqrt", "_sparse_rsqrt"}, "y = 1 / sqrt(x)", kPositive);
constinit const OpDef kRcbrt =
    composed<[](auto x) { return 1 / cbrt(x); }, kBackwardRcbrt>({"rcbrt"}, "y = 1 / cbrt(x)", kPositive);

// (x > 0) - (x < 0); 0 for 0 and for NaN.
struct SignOf {
  template <class T> constexpr T operator()(T x) const { return static_cast<T>((x > T(0)) - (x < T(0))); }
};

extern const OpDef kBackwardAbs, kBackwardSign, kBackwardRelu;

}  // namespace

// dx = -dy
constinit const OpDef kNegative = asFunction({
    .name = "negative",
    .aliases = {"_sparse_negative", "_npi_negative"},
    .summary = "y = -x",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kNegative, {g.dy(0)})); },
    .primitive = {.onnx = "Neg", .c = "y[i] = -x[i]"},
    .kernel = mapNumeric<[](auto x) { return wrappingNegate(x); }>,
});

// dx = dy · y
constinit const OpDef kExp = asFunction({
    .name = "exp",
    .aliases = {"_sparse_exp", "_npi_exp"},
    .summary = "y = exp(x)",
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.y(0)})); },
    .primitive = {.onnx = "Exp", .c = "y[i] = exp(x[i])"},
    .kernel = mapFloating<[](auto x) { return exp(x); }>,
});

// dx = 2x · dy
constinit const OpDef kSquare = asFunction({
    .name = "square",
    .aliases = {"_sparse_square", "_npi_square"},
    .summary = "y = x * x",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = gradientBy<kBackwardSquare>,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMul, {d.x(0), d.x(0)})); },
    .kernel = mapNumeric<[](auto x) { return wrappingMul(x, x); }>,
});

// dx = dy · sign x; 0 at 0
constinit const OpDef kAbs = asFunction({
    .name = "abs",
    .aliases = {"_sparse_abs", "_npi_absolute", "_npi_abs"},
    .summary = "y = |x|",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = gradientBy<kBackwardAbs>,
    .primitive = {.onnx = "Abs", .c = "y[i] = fabs(x[i])"},
    .kernel = mapNumeric<[](auto x) {
      if constexpr (std::is_floating_point_v<decltype(x)>) return std::abs(x);  // of -0 as well
      else return x < decltype(x)(0) ? wrappingNegate(x) : x;
    }>,
    .piece = mapPiece<[](auto x, auto base) { return wrappingMul(x, SignOf()(base)); }>,
});

// dx = 0 · dy, as a separate node because MXNet has one
constinit const OpDef kSign = asFunction({
    .name = "sign",
    .aliases = {"_sparse_sign", "_npi_sign"},
    .summary = "y = 1, 0 or -1 as x is above, at or below 0",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = gradientBy<kBackwardSign>,
    .decompose =
        [](DecomposeRule &d) {
          const Value isAbove = d.emit(kGreaterScalar, {d.x(0)}, {{"scalar", "0"}});
          d.y(0, d.emit(kElemwiseSub, {isAbove, d.emit(kLesserScalar, {d.x(0)}, {{"scalar", "0"}})}));
        },
    .kernel = mapNumeric<SignOf{}>,
    .piece = mapPiece<[](auto, auto base) { return SignOf()(base); }>,
});

// dx = dy where y > 0, else 0
constinit const OpDef kRelu = asFunction({
    .name = "relu",
    .aliases = {"_sparse_relu", "_npx_relu"},
    .summary = "y = max(x, 0)",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = gradientBy<kBackwardRelu>,
    // At 0 the gradient goes to the 0.
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMaximum, {numberOf(d, d.x(0), "0"), d.x(0)})); },
    .kernel = mapNumeric<[](auto x) { return x <= decltype(x)(0) ? decltype(x)(0) : x; }>,
    .piece = mapPiece<[](auto x, auto base) { return base <= decltype(x)(0) ? decltype(x)(0) : x; }>,
});

namespace {

constinit const OpDef kBackwardAbs = asSlope({
    .name = "_backward_abs",
    .summary = "gradient of abs: dx = dy * sign(x)",
    .inputs = {"dy", "x"},
    .decompose = byFormula<[](auto dy, auto x) { return dy * sign(x); }>,
    .kernel = mapFloating<[](auto dy, auto x) { return dy * SignOf()(x); }>,
    .piece = mapBackwardPiece<[](auto dy, auto, auto base) { return dy * SignOf()(base); }>,
});

constinit const OpDef kBackwardSign = {
    .name = "_backward_sign",
    .summary = "gradient of sign: dx = 0",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .ignored = {0, 1},
    .flags = {.isBackward = true, .isZero = true, .isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kZerosLike, {d.x(1)})); },
    .kernel = writeZeros,
};

constinit const OpDef kBackwardRelu = asSlope({
    .name = "_backward_relu",
    .summary = "gradient of relu: dx = dy where y > 0, else 0",
    .inputs = {"dy", "y"},
    .decompose = byFormula<[](auto dy, auto y) { return dy * greater(y, 0); }>,
    .kernel = mapFloating<[](auto dy, auto y) { return decltype(y)(0) < y ? dy : decltype(y)(0); }>,
    .piece = mapBackwardPiece<[](auto dy, auto, auto base) { return decltype(dy)(0) < base ? dy : decltype(dy)(0); }>,
});

}  // namespace

constinit const OpFamily kElementwiseUnaryFamily =
    kOps<kNegative, kExp, kLog, kSqrt, kSquare, kReciprocal, kAbs, kSign, kRelu, kSigmoid, kTanh, kSoftsign, kLog1p,
         kExpm1, kLog2, kLog10, kRsqrt, kCbrt, kRcbrt, kBackwardLog, kBackwardSqrt, kBackwardSquare,
         kBackwardReciprocal, kBackwardAbs, kBackwardSign, kBackwardRelu, kBackwardSigmoid, kBackwardTanh,
         kBackwardSoftsign, kBackwardLog1p, kBackwardExpm1, kBackwardLog2, kBackwardLog10, kBackwardRsqrt,
         kBackwardCbrt, kBackwardRcbrt>;

}  // namespace gradc
