// Arithmetic of a tensor with the number in attribute `scalar`. Comparisons with it are in ops/binary/comparison.cc.
// Tested by tests/ops/elementwise_ops_test.cc
#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/integer_functions.h"
#include "ops/elementwise/scalar_params.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using Rule = void (*)(GradRule &);
using Decomposition = void (*)(DecomposeRule &);

StringRef negatedText(RuleContext &r) { return r.number(-r.params<ScalarParams>().scalar); }

/// Pieces compare the base of the last input with the scalar. If it is equal or above (PassesBelow: below), they pass
/// the value on.
template <bool PassesBelow, bool IsBackward> void boundPiece(const PieceCall &call) {
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T scalar = convertNumber<T>(call.params<ScalarParams>().scalar);
    const T *base = call.base.back().as<const T>(), *value = call.in[0].as<const T>();
    for (int64_t i = 0; i < call.out[0].size(); ++i) {
      const bool passes = PassesBelow ? base[i] <= scalar : base[i] >= scalar;
      call.out[0].as<T>()[i] = passes ? value[i] : (IsBackward ? T(0) : scalar);
    }
  });
}

/// y = F(x, scalar) for every type.
template <auto F> constexpr OpDef numeric(NameList names, StringRef summary, Rule gradient) {
  OpDef op = scalarOp(names, summary, {"data"});
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = gradient;
  op.kernel = scalarNumeric<F>;
  return op;
}

/// The same for floating types.
template <auto F> constexpr OpDef floating(NameList names, StringRef summary, Rule gradient) {
  OpDef op = numeric<F>(names, summary, gradient);
  op.kernelTypes = OpDef().kernelTypes;
  op.kernel = scalarFloating<F>;
  return op;
}

/// dx = F(dy[, v], scalar).
template <auto F> constexpr OpDef gradientOf(NameList inputs, StringRef name, StringRef summary, Decomposition rule) {
  OpDef op = scalarOp({name}, summary, inputs);
  op.flags.isBackward = true;
  op.decompose = rule;
  op.kernel = scalarFloating<F>;
  return op;
}

constexpr OpDef withPiece(OpDef op, void (*piece)(const PieceCall &)) {
  op.piece = piece;
  return op;
}

extern const OpDef kBackwardMulScalar, kBackwardDivScalar, kBackwardRdivScalar, kBackwardPowerScalar,
    kBackwardRpowerScalar, kBackwardMaximumScalar, kBackwardMinimumScalar;

template <const OpDef &Backward> void fromHead(GradRule &g) { g.fused(Backward, {g.dy(0)}); }
template <const OpDef &Backward> void fromInput(GradRule &g) { g.fused(Backward, {g.dy(0), g.x(0)}); }
template <const OpDef &Backward> void fromOutput(GradRule &g) { g.fused(Backward, {g.dy(0), g.y(0)}); }
void passOn(GradRule &g) { g.dx(0, g.emit(kCopy, {g.dy(0)})); }

}  // namespace

constinit const OpDef kPlusScalar =
    withDecomposition(numeric<[](auto x, auto s) { return wrappingAdd(x, s); }>(
                          {"_plus_scalar", "_PlusScalar", "_npi_add_scalar"}, "y = x + scalar", passOn),
                      broadcastNumber<kBroadcastAdd>);

constinit const OpDef kMinusScalar =
    withDecomposition(numeric<[](auto x, auto s) { return wrappingSub(x, s); }>(
                          {"_minus_scalar", "_MinusScalar", "_npi_subtract_scalar"}, "y = x - scalar", passOn),
                      [](DecomposeRule &d) { d.y(0, d.emit(kPlusScalar, {d.x(0)}, {{"scalar", negatedText(d)}})); });

constinit const OpDef kRminusScalar = withDecomposition(
    numeric<[](auto x, auto s) { return wrappingSub(s, x); }>(
        {"_rminus_scalar", "_RMinusScalar", "_npi_rsubtract_scalar"}, "y = scalar - x",
        [](GradRule &g) { g.dx(0, g.emit(kNegative, {g.dy(0)})); }),
    [](DecomposeRule &d) { d.y(0, d.emit(kPlusScalar, {d.emit(kNegative, {d.x(0)})}, {{"scalar", scalarText(d)}})); });

constinit const OpDef kMulScalar = withDecomposition(
    numeric<[](auto x, auto s) { return wrappingMul(x, s); }>({"_mul_scalar", "_MulScalar", "_npi_multiply_scalar"},
                                                              "y = x * scalar", fromHead<kBackwardMulScalar>),
    broadcastNumber<kBroadcastMul>);

constinit const OpDef kDivScalar = withDecomposition(
    floating<[](auto x, auto s) { return x / s; }>({"_div_scalar", "_DivScalar", "_npi_true_divide_scalar"},
                                                   "y = x / scalar", fromHead<kBackwardDivScalar>),
    broadcastNumber<kBroadcastDiv>);

constinit const OpDef kRdivScalar = withDecomposition(
    floating<[](auto x, auto s) { return s / x; }>({"_rdiv_scalar", "_RDivScalar", "_npi_rtrue_divide_scalar"},
                                                   "y = scalar / x", fromInput<kBackwardRdivScalar>),
    broadcastNumberFirst<kBroadcastDiv>);

namespace {

constexpr auto kPowerOf = [](auto x, auto s) {
  if constexpr (std::is_integral_v<decltype(x)>) return integerPower(x, s);
  else return std::pow(x, s);
};

bool isWhole(double number) { return number == std::trunc(number); }

// Roots of numbers below 0 are not real. In the gradient the base is the second input.
template <size_t Base> Domain domainOfBase(const NodeKind &kind, size_t input) {
  return input == Base && !isWhole(kind.params<ScalarParams>().scalar) ? Domain::Positive : Domain::Any;
}
constexpr OpDef withDomains(OpDef op, InputDomains domains) {
  op.domains = domains;
  return op;
}

template <class T> bool isNan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  else return false;
}

}  // namespace

constinit const OpDef kPowerScalar =
    withDomains(withDecomposition(numeric<kPowerOf>({"_power_scalar", "_PowerScalar", "_npi_power_scalar"},
                                                    "y = x ^ scalar", fromInput<kBackwardPowerScalar>),
                                  broadcastNumber<kBroadcastPower>),
                domainOfBase<0>);

constinit const OpDef kRpowerScalar = withDecomposition(
    numeric<[](auto x, auto s) { return kPowerOf(s, x); }>({"_rpower_scalar", "_RPowerScalar", "_npi_rpower_scalar"},
                                                           "y = scalar ^ x", fromOutput<kBackwardRpowerScalar>),
    [](DecomposeRule &d) {
      if (d.params<ScalarParams>().scalar != 0) return broadcastNumberFirst<kBroadcastPower>(d);
      // Its gradient is 0 everywhere, that of powers of 0 is not.
      d.y(0, d.emit(kBroadcastPower, {numberOf(d, d.x(0)), d.x(0)}, {{kStopMark, "True"}}));
    });

// A NaN on either side is the result.
constinit const OpDef kMaximumScalar =
    withPiece(withDecomposition(numeric<[](auto x, auto s) { return x < s || isNan(s) ? s : x; }>(
                                    {"_maximum_scalar", "_MaximumScalar", "_npi_maximum_scalar"}, "y = max(x, scalar)",
                                    fromInput<kBackwardMaximumScalar>),
                                broadcastNumber<kBroadcastMaximum>),
              boundPiece<false, false>);

constinit const OpDef kMinimumScalar =
    withPiece(withDecomposition(numeric<[](auto x, auto s) { return s < x || isNan(s) ? s : x; }>(
                                    {"_minimum_scalar", "_MinimumScalar", "_npi_minimum_scalar"}, "y = min(x, scalar)",
                                    fromInput<kBackwardMinimumScalar>),
                                broadcastNumber<kBroadcastMinimum>),
              boundPiece<true, false>);

namespace {

constinit const OpDef kBackwardMulScalar = gradientOf<[](auto dy, auto s) { return dy * s; }>(
    {"dy"}, "_backward_mul_scalar", "gradient of _mul_scalar: dx = dy * scalar",
    [](DecomposeRule &d) { d.y(0, d.emit(kMulScalar, {d.x(0)}, {{"scalar", scalarText(d)}})); });

constinit const OpDef kBackwardDivScalar = gradientOf<[](auto dy, auto s) { return dy / s; }>(
    {"dy"}, "_backward_div_scalar", "gradient of _div_scalar: dx = dy / scalar",
    [](DecomposeRule &d) { d.y(0, d.emit(kDivScalar, {d.x(0)}, {{"scalar", scalarText(d)}})); });

// Divided twice: x^2 may be 0 or infinite where x is not, and the derivative of dy / x^2 would multiply infinity by 0.
constinit const OpDef kBackwardRdivScalar = gradientOf<[](auto dy, auto x, auto s) {
  const auto inverse = 1 / x;
  return dy * (-s * inverse * inverse);
}>({"dy", "x"}, "_backward_rdiv_scalar", "gradient of _rdiv_scalar: dx = -dy * scalar / x^2", [](DecomposeRule &d) {
  const Value quotient = d.emit(kRdivScalar, {d.x(1)}, {{"scalar", negatedText(d)}});
  d.y(0, d.emit(kElemwiseMul, {d.x(0), d.emit(kElemwiseDiv, {quotient, d.x(1)})}));
});

constinit const OpDef kBackwardPowerScalar = withDomains(
    gradientOf<[](auto dy, auto x, auto s) {
      return s == 0 ? decltype(dy)(0) : dy * (std::pow(x, s - decltype(s)(1)) * s);
    }>({"dy", "x"}, "_backward_power_scalar", "gradient of _power_scalar: dx = dy * scalar * x^(scalar - 1)",
       [](DecomposeRule &d) {
         const double scalar = d.params<ScalarParams>().scalar;
         // Repeated derivatives of a polynomial end in 0, even at x = 0, where 0 · x^-1 is not 0 (nor is it in MXNet).
         if (scalar == 0) return d.y(0, d.emit(kZerosLike, {d.x(1)}));
         if (scalar == 1) return d.y(0, d.x(0));
         const Value power = d.emit(kPowerScalar, {d.x(1)}, {{"scalar", d.number(scalar - 1)}});
         const Value slope = d.emit(kMulScalar, {power}, {{"scalar", d.number(scalar)}});
         d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
       }),
    domainOfBase<1>);

constinit const OpDef kBackwardRpowerScalar =
    gradientOf<[](auto dy, auto y, auto s) { return s == 0 ? decltype(dy)(0) : dy * (y * std::log(s)); }>(
        {"dy", "y"}, "_backward_rpower_scalar",
        "gradient of _rpower_scalar: dx = dy * y * ln(scalar); 0 for scalar 0, where y is 0 for every positive x",
        [](DecomposeRule &d) {
          const double scalar = d.params<ScalarParams>().scalar;
          if (scalar == 0) return d.y(0, d.emit(kZerosLike, {d.x(1)}));
          const Value slope = d.emit(kMulScalar, {d.x(1)}, {{"scalar", d.number(std::log(scalar))}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
        });

// dy where the comparison of x with the number holds.
template <const OpDef &Comparison> void masked(DecomposeRule &d) {
  const Value mask = d.emit(Comparison, {d.x(1)}, {{"scalar", scalarText(d)}});
  d.y(0, d.emit(kElemwiseMul, {d.x(0), mask}));
}

constinit const OpDef kBackwardMaximumScalar =
    withPiece(gradientOf<[](auto dy, auto x, auto s) { return s <= x ? dy : decltype(dy)(0); }>(
                  {"dy", "x"}, "_backward_maximum_scalar",
                  "gradient of _maximum_scalar: dx = dy where x >= scalar, else 0", masked<kGreaterEqualScalar>),
              boundPiece<false, true>);

constinit const OpDef kBackwardMinimumScalar =
    withPiece(gradientOf<[](auto dy, auto x, auto s) { return x <= s ? dy : decltype(dy)(0); }>(
                  {"dy", "x"}, "_backward_minimum_scalar",
                  "gradient of _minimum_scalar: dx = dy where x <= scalar, else 0", masked<kLesserEqualScalar>),
              boundPiece<true, true>);

}  // namespace

constinit const OpFamily kElementwiseScalarFamily =
    kOps<kPlusScalar, kMinusScalar, kRminusScalar, kMulScalar, kDivScalar, kRdivScalar, kPowerScalar, kRpowerScalar,
         kMaximumScalar, kMinimumScalar, kBackwardMulScalar, kBackwardDivScalar, kBackwardRdivScalar,
         kBackwardPowerScalar, kBackwardRpowerScalar, kBackwardMaximumScalar, kBackwardMinimumScalar>;

}  // namespace gradc
