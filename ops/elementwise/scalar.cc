// Arithmetic and comparison of a tensor with the number in attribute `scalar`. Tested by tests/elementwise_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ops/amended.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/scalar_params.h"
#include "ops/families.h"
#include "ops/pieces.h"
#include "ops/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// Pieces choose by the base of the last input, and pass the value on (Below: where the base is below the scalar).
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

StringRef scalarText(RuleContext &r) { return r.number(r.params<ScalarParams>().scalar); }
StringRef negatedText(RuleContext &r) { return r.number(-r.params<ScalarParams>().scalar); }

// -x compared with -scalar, the other way round.
void mirror(DecomposeRule &d, const OpDef &comparison) {
  d.y(0, d.emit(comparison, {d.emit(kNegative, {d.x(0)})}, {{"scalar", negatedText(d)}}));
}

// Values of every comparison: 1 where true, else 0, in the input's type (MXNet's choice).
constexpr OpDef comparison(StringRef name, StringRef legacyName, StringRef summary,
                           void (*kernel)(const KernelCall &)) {
  OpDef op;
  op.name = name;
  op.aliases = {legacyName};
  op.summary = summary;
  op.inputs = {"data"};
  op.attrs = kScalarAttrs;
  op.params = paramsOf<ScalarParams>();
  op.shape = shapes::same;
  op.dtype = scalarType;
  op.inplace = kInplaceFirst;
  op.flags.isElementwise = true;
  op.flags.hasNoGradient = true;
  op.gradient = [](GradRule &g) { g.noGrad(0); };
  op.kernel = kernel;
  op.piece = holdAtBase;
  return op;
}

extern const OpDef kBackwardMulScalar, kBackwardDivScalar, kBackwardRdivScalar, kBackwardPowerScalar,
    kBackwardRpowerScalar, kBackwardMaximumScalar, kBackwardMinimumScalar;

}  // namespace

// dx = dy
constinit const OpDef kPlusScalar = {
    .name = "_plus_scalar",
    .aliases = {"_PlusScalar", "_npi_add_scalar"},
    .summary = "y = x + scalar",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kCopy, {g.dy(0)})); },
    .primitive = {.onnx = "CastLike, Add", .c = "y[i] = x[i] + s"},
    .kernel = scalarNumeric<[](auto x, auto s) { return wrappingAdd(x, s); }>,
};

// dx = dy
constinit const OpDef kMinusScalar = {
    .name = "_minus_scalar",
    .aliases = {"_MinusScalar", "_npi_subtract_scalar"},
    .summary = "y = x - scalar",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kCopy, {g.dy(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kPlusScalar, {d.x(0)}, {{"scalar", negatedText(d)}})); },
    .kernel = scalarNumeric<[](auto x, auto s) { return wrappingSub(x, s); }>,
};

// dx = -dy
constinit const OpDef kRminusScalar = {
    .name = "_rminus_scalar",
    .aliases = {"_RMinusScalar", "_npi_rsubtract_scalar"},
    .summary = "y = scalar - x",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kNegative, {g.dy(0)})); },
    .decompose =
        [](DecomposeRule &d) {
          d.y(0, d.emit(kPlusScalar, {d.emit(kNegative, {d.x(0)})}, {{"scalar", scalarText(d)}}));
        },
    .kernel = scalarNumeric<[](auto x, auto s) { return wrappingSub(s, x); }>,
};

// dx = dy · scalar
constinit const OpDef kMulScalar = {
    .name = "_mul_scalar",
    .aliases = {"_MulScalar", "_npi_multiply_scalar"},
    .summary = "y = x * scalar",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardMulScalar, {g.dy(0)}); },
    .primitive = {.onnx = "CastLike, Mul", .c = "y[i] = x[i] * s"},
    .kernel = scalarNumeric<[](auto x, auto s) { return wrappingMul(x, s); }>,
};

// dx = dy / scalar
constinit const OpDef kDivScalar = {
    .name = "_div_scalar",
    .aliases = {"_DivScalar", "_npi_true_divide_scalar"},
    .summary = "y = x / scalar",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .gradient = [](GradRule &g) { g.fused(kBackwardDivScalar, {g.dy(0)}); },
    .primitive = {.onnx = "CastLike, Div", .c = "y[i] = x[i] / s"},
    .kernel = scalarFloating<[](auto x, auto s) { return x / s; }>,
};

// dx = -dy · scalar / x²
constinit const OpDef kRdivScalar = {
    .name = "_rdiv_scalar",
    .aliases = {"_RDivScalar", "_npi_rtrue_divide_scalar"},
    .summary = "y = scalar / x",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .gradient = [](GradRule &g) { g.fused(kBackwardRdivScalar, {g.dy(0), g.x(0)}); },
    .primitive = {.onnx = "CastLike, Div", .c = "y[i] = s / x[i]"},
    .kernel = scalarFloating<[](auto x, auto s) { return s / x; }>,
};

// dx = dy · scalar · x^(scalar - 1)
constinit const OpDef kPowerScalar = {
    .name = "_power_scalar",
    .aliases = {"_PowerScalar", "_npi_power_scalar"},
    .summary = "y = x ^ scalar",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .gradient = [](GradRule &g) { g.fused(kBackwardPowerScalar, {g.dy(0), g.x(0)}); },
    .primitive = {.onnx = "CastLike, Pow", .c = "y[i] = pow(x[i], s)"},
    .kernel = scalarFloating<[](auto x, auto s) { return std::pow(x, s); }>,
};

// dx = dy · y · ln scalar
constinit const OpDef kRpowerScalar = {
    .name = "_rpower_scalar",
    .aliases = {"_RPowerScalar", "_npi_rpower_scalar"},
    .summary = "y = scalar ^ x",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .gradient = [](GradRule &g) { g.fused(kBackwardRpowerScalar, {g.dy(0), g.y(0)}); },
    .primitive = {.onnx = "CastLike, Pow", .c = "y[i] = pow(s, x[i])"},
    .kernel = scalarFloating<[](auto x, auto s) { return std::pow(s, x); }>,
};

// dx = dy where x >= scalar, else 0
constinit const OpDef kMaximumScalar = {
    .name = "_maximum_scalar",
    .aliases = {"_MaximumScalar", "_npi_maximum_scalar"},
    .summary = "y = max(x, scalar)",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardMaximumScalar, {g.dy(0), g.x(0)}); },
    .primitive = {.onnx = "CastLike, Max", .c = "y[i] = x[i] < s ? s : x[i]"},
    .kernel = scalarNumeric<[](auto x, auto s) { return x < s ? s : x; }>,
    .piece = boundPiece<false, false>,
};

// dx = dy where x <= scalar, else 0
constinit const OpDef kMinimumScalar = {
    .name = "_minimum_scalar",
    .aliases = {"_MinimumScalar", "_npi_minimum_scalar"},
    .summary = "y = min(x, scalar)",
    .inputs = {"data"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .dtype = scalarType,
    .inplace = kInplaceFirst,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardMinimumScalar, {g.dy(0), g.x(0)}); },
    .primitive = {.onnx = "CastLike, Min", .c = "y[i] = s < x[i] ? s : x[i]"},
    .kernel = scalarNumeric<[](auto x, auto s) { return s < x ? s : x; }>,
    .piece = boundPiece<true, false>,
};

constinit const OpDef kGreaterScalar =
    asPrimitive(comparison("_greater_scalar", "_GreaterScalar", "y = 1 where x > scalar, else 0",
                           scalarNumeric<[](auto x, auto s) { return s < x; }>),
                {.onnx = "CastLike, Greater, CastLike", .c = "y[i] = x[i] > s"});
constinit const OpDef kLesserScalar =
    withDecomposition(comparison("_lesser_scalar", "_LesserScalar", "y = 1 where x < scalar, else 0",
                                 scalarNumeric<[](auto x, auto s) { return x < s; }>),
                      [](DecomposeRule &d) { mirror(d, kGreaterScalar); });
constinit const OpDef kEqualScalar =
    asPrimitive(comparison("_equal_scalar", "_EqualScalar", "y = 1 where x = scalar, else 0",
                           scalarNumeric<[](auto x, auto s) { return x == s; }>),
                {.onnx = "CastLike, Equal, CastLike", .c = "y[i] = x[i] == s"});
constinit const OpDef kNotEqualScalar =
    withDecomposition(comparison("_not_equal_scalar", "_NotEqualScalar", "y = 1 where x differs from scalar, else 0",
                                 scalarNumeric<[](auto x, auto s) { return x != s; }>),
                      [](DecomposeRule &d) {
                        Value isEqual = d.emit(kEqualScalar, {d.x(0)}, {{"scalar", scalarText(d)}});
                        d.y(0, d.emit(kEqualScalar, {isEqual}, {{"scalar", "0"}}));
                      });

namespace {

constinit const OpDef kGreaterEqualScalar =
    asPrimitive(comparison("_greater_equal_scalar", "_GreaterEqualScalar", "y = 1 where x >= scalar, else 0",
                           scalarNumeric<[](auto x, auto s) { return s <= x; }>),
                {.onnx = "CastLike, GreaterOrEqual, CastLike", .c = "y[i] = x[i] >= s"});
constinit const OpDef kLesserEqualScalar =
    withDecomposition(comparison("_lesser_equal_scalar", "_LesserEqualScalar", "y = 1 where x <= scalar, else 0",
                                 scalarNumeric<[](auto x, auto s) { return x <= s; }>),
                      [](DecomposeRule &d) { mirror(d, kGreaterEqualScalar); });

// The truth of x, its opposite, 0 or 1 everywhere: what a connective with a number comes to. `ifTrue` and `ifFalse` are the
// results for a true and a false x.
void byTruth(DecomposeRule &d, bool ifTrue, bool ifFalse) {
  if (ifTrue == ifFalse) return d.y(0, d.emit(ifTrue ? kOnesLike : kZerosLike, {d.x(0)}));
  d.y(0, d.emit(ifTrue ? kNotEqualScalar : kEqualScalar, {d.x(0)}, {{"scalar", "0"}}));
}
bool isTrue(DecomposeRule &d) { return d.params<ScalarParams>().scalar != 0; }

constinit const OpDef kLogicalAndScalar = withDecomposition(
    comparison("_logical_and_scalar", "_LogicalAndScalar", "y = 1 where x and scalar are true, that is not 0, else 0",
               scalarNumeric<[](auto x, auto s) { return x != 0 && s != 0; }>),
    [](DecomposeRule &d) { byTruth(d, isTrue(d), false); });
constinit const OpDef kLogicalOrScalar = withDecomposition(
    comparison("_logical_or_scalar", "_LogicalOrScalar", "y = 1 where x or scalar is true, that is not 0, else 0",
               scalarNumeric<[](auto x, auto s) { return x != 0 || s != 0; }>),
    [](DecomposeRule &d) { byTruth(d, true, isTrue(d)); });
constinit const OpDef kLogicalXorScalar =
    withDecomposition(comparison("_logical_xor_scalar", "_LogicalXorScalar",
                                 "y = 1 where either x or scalar is true, that is not 0, else 0",
                                 scalarNumeric<[](auto x, auto s) { return (x != 0) != (s != 0); }>),
                      [](DecomposeRule &d) { byTruth(d, !isTrue(d), isTrue(d)); });

constinit const OpDef kBackwardMulScalar = {
    .name = "_backward_mul_scalar",
    .summary = "gradient of _mul_scalar: dx = dy * scalar",
    .inputs = {"dy"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kMulScalar, {d.x(0)}, {{"scalar", scalarText(d)}})); },
    .kernel = scalarFloating<[](auto dy, auto s) { return dy * s; }>,
};

constinit const OpDef kBackwardDivScalar = {
    .name = "_backward_div_scalar",
    .summary = "gradient of _div_scalar: dx = dy / scalar",
    .inputs = {"dy"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kDivScalar, {d.x(0)}, {{"scalar", scalarText(d)}})); },
    .kernel = scalarFloating<[](auto dy, auto s) { return dy / s; }>,
};

constinit const OpDef kBackwardRdivScalar = {
    .name = "_backward_rdiv_scalar",
    .summary = "gradient of _rdiv_scalar: dx = -dy * scalar / x^2",
    .inputs = {"dy", "x"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          Value quotient = d.emit(kElemwiseDiv, {d.x(0), d.emit(kSquare, {d.x(1)})});
          d.y(0, d.emit(kMulScalar, {quotient}, {{"scalar", d.number(-d.params<ScalarParams>().scalar)}}));
        },
    .kernel = scalarFloating<[](auto dy, auto x, auto s) { return dy * (-s / (x * x)); }>,
};

constinit const OpDef kBackwardPowerScalar = {
    .name = "_backward_power_scalar",
    .summary = "gradient of _power_scalar: dx = dy * scalar * x^(scalar - 1)",
    .inputs = {"dy", "x"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          double scalar = d.params<ScalarParams>().scalar;
          // The derivatives of a polynomial end, also at x = 0 where 0 · x^-1 would not be 0 (and is not in MXNet).
          if (scalar == 0) return d.y(0, d.emit(kZerosLike, {d.x(1)}));
          if (scalar == 1) return d.y(0, d.x(0));
          Value power = d.emit(kPowerScalar, {d.x(1)}, {{"scalar", d.number(scalar - 1)}});
          Value slope = d.emit(kMulScalar, {power}, {{"scalar", d.number(scalar)}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
        },
    .kernel = scalarFloating<[](auto dy, auto x, auto s) {
      return s == 0 ? decltype(dy)(0) : dy * (std::pow(x, s - decltype(s)(1)) * s);
    }>,
};

// v · ln(scalar). That of a negative number is NaN, which no attribute can be.
Value timesLogarithm(DecomposeRule &d, Value v, double scalar) {
  if (scalar > 0) return d.emit(kMulScalar, {v}, {{"scalar", d.number(std::log(scalar))}});
  Value constant = d.emit(kPlusScalar, {d.emit(kZerosLike, {v})}, {{"scalar", d.number(scalar)}});
  return d.emit(kElemwiseMul, {v, d.emit(kLog, {constant})});
}

constinit const OpDef kBackwardRpowerScalar = {
    .name = "_backward_rpower_scalar",
    .summary =
        "gradient of _rpower_scalar: dx = dy * y * ln(scalar); 0 for scalar 0, where y is 0 for every positive x",
    .inputs = {"dy", "y"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          const double scalar = d.params<ScalarParams>().scalar;
          if (scalar == 0) return d.y(0, d.emit(kZerosLike, {d.x(1)}));
          Value slope = timesLogarithm(d, d.x(1), scalar);
          d.y(0, d.emit(kElemwiseMul, {d.x(0), slope}));
        },
    .kernel = scalarFloating<[](auto dy, auto y, auto s) { return s == 0 ? decltype(dy)(0) : dy * (y * std::log(s)); }>,
};

constinit const OpDef kBackwardMaximumScalar = {
    .name = "_backward_maximum_scalar",
    .summary = "gradient of _maximum_scalar: dx = dy where x >= scalar, else 0",
    .inputs = {"dy", "x"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          Value mask = d.emit(kGreaterEqualScalar, {d.x(1)}, {{"scalar", scalarText(d)}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), mask}));
        },
    .kernel = scalarFloating<[](auto dy, auto x, auto s) { return s <= x ? dy : decltype(dy)(0); }>,
    .piece = boundPiece<false, true>,
};

constinit const OpDef kBackwardMinimumScalar = {
    .name = "_backward_minimum_scalar",
    .summary = "gradient of _minimum_scalar: dx = dy where x <= scalar, else 0",
    .inputs = {"dy", "x"},
    .attrs = kScalarAttrs,
    .params = paramsOf<ScalarParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          Value mask = d.emit(kLesserEqualScalar, {d.x(1)}, {{"scalar", scalarText(d)}});
          d.y(0, d.emit(kElemwiseMul, {d.x(0), mask}));
        },
    .kernel = scalarFloating<[](auto dy, auto x, auto s) { return x <= s ? dy : decltype(dy)(0); }>,
    .piece = boundPiece<true, true>,
};

constexpr const OpDef *kOps[] = {
    &kPlusScalar,
    &kMinusScalar,
    &kRminusScalar,
    &kMulScalar,
    &kDivScalar,
    &kRdivScalar,
    &kPowerScalar,
    &kRpowerScalar,
    &kGreaterScalar,
    &kLesserScalar,
    &kEqualScalar,
    &kNotEqualScalar,
    &kLogicalAndScalar,
    &kLogicalOrScalar,
    &kLogicalXorScalar,
    &kGreaterEqualScalar,
    &kLesserEqualScalar,
    &kMaximumScalar,
    &kMinimumScalar,
    &kBackwardMulScalar,
    &kBackwardDivScalar,
    &kBackwardRdivScalar,
    &kBackwardPowerScalar,
    &kBackwardRpowerScalar,
    &kBackwardMaximumScalar,
    &kBackwardMinimumScalar,
};

}  // namespace

constinit const OpFamily kElementwiseScalarFamily = kOps;

}  // namespace gradc
