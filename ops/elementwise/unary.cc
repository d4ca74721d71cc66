// Functions of one variable, element by element, and their fused gradients.
//
// A backward operator reads what MXNet's reads, input or output, so that only that one has to be kept (RC-04). Its
// decomposition is in operators of this file and of elementwise_scalar.cc, hence closed to every order.
// Tested by tests/elementwise_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/families.h"
#include "ops/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr Domain kPositive[] = {Domain::Positive};
constexpr Domain kPositiveSecond[] = {Domain::Any, Domain::Positive};

template <const OpDef &Backward> void useInput(GradRule &g) { g.fused(Backward, {g.dy(0), g.x(0)}); }
template <const OpDef &Backward> void useOutput(GradRule &g) { g.fused(Backward, {g.dy(0), g.y(0)}); }

// What each decomposition ends with: output 0 = dy · factor.
void timesHead(DecomposeRule &d, Value factor) { d.y(0, d.emit(kElemwiseMul, {d.x(0), factor})); }

extern const OpDef kBackwardLog, kBackwardSqrt, kBackwardSquare, kBackwardReciprocal, kBackwardAbs, kBackwardSign,
    kBackwardRelu, kBackwardSigmoid, kBackwardTanh, kBackwardSoftsign, kBackwardLog1p, kBackwardExpm1;

// (x > 0) - (x < 0); 0 for 0 and for NaN.
struct SignOf {
  template <class T> constexpr T operator()(T x) const { return static_cast<T>((x > T(0)) - (x < T(0))); }
};

}  // namespace

// dx = -dy
constinit const OpDef kNegative = {
    .name = "negative",
    .aliases = {"_sparse_negative"},
    .summary = "y = -x",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kNegative, {g.dy(0)})); },
    .primitive = {.onnx = "Neg", .c = "y[i] = -x[i]"},
    .kernel = mapNumeric<[](auto x) { return wrappingNegate(x); }>,
};

// dx = dy · y
constinit const OpDef kExp = {
    .name = "exp",
    .aliases = {"_sparse_exp"},
    .summary = "y = exp(x)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.y(0)})); },
    .primitive = {.onnx = "Exp", .c = "y[i] = exp(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::exp(x); }>,
};

// dx = dy / x
constinit const OpDef kLog = {
    .name = "log",
    .aliases = {"_sparse_log"},
    .summary = "natural logarithm: y = ln(x)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .domains = kPositive,
    .gradient = useInput<kBackwardLog>,
    .primitive = {.onnx = "Log", .c = "y[i] = log(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::log(x); }>,
};

// dx = dy / 2y
constinit const OpDef kSqrt = {
    .name = "sqrt",
    .aliases = {"_sparse_sqrt"},
    .summary = "y = sqrt(x)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .domains = kPositive,
    .gradient = useOutput<kBackwardSqrt>,
    .primitive = {.onnx = "Sqrt", .c = "y[i] = sqrt(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::sqrt(x); }>,
};

// dx = 2x · dy
constinit const OpDef kSquare = {
    .name = "square",
    .aliases = {"_sparse_square"},
    .summary = "y = x * x",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = useInput<kBackwardSquare>,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMul, {d.x(0), d.x(0)})); },
    .kernel = mapNumeric<[](auto x) { return wrappingMul(x, x); }>,
};

// dx = -dy / x²
constinit const OpDef kReciprocal = {
    .name = "reciprocal",
    .summary = "y = 1 / x",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = useInput<kBackwardReciprocal>,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kRdivScalar, {d.x(0)}, {{"scalar", "1"}})); },
    .kernel = mapFloating<[](auto x) { return decltype(x)(1) / x; }>,
};

// dx = dy · sign x; 0 at 0
constinit const OpDef kAbs = {
    .name = "abs",
    .aliases = {"_sparse_abs"},
    .summary = "y = |x|",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = useInput<kBackwardAbs>,
    .primitive = {.onnx = "Abs", .c = "y[i] = fabs(x[i])"},
    .kernel = mapNumeric<[](auto x) { return x < decltype(x)(0) ? wrappingNegate(x) : x; }>,
    .piece = mapPiece<[](auto x, auto base) { return wrappingMul(x, SignOf()(base)); }>,
};

// dx = 0 · dy, as a node of its own because MXNet has one
constinit const OpDef kSign = {
    .name = "sign",
    .aliases = {"_sparse_sign"},
    .summary = "y = 1, 0 or -1 as x is above, at or below 0",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = useInput<kBackwardSign>,
    .primitive = {.onnx = "Sign", .c = "y[i] = (x[i] > 0) - (x[i] < 0)"},
    .kernel = mapNumeric<SignOf{}>,
    .piece = mapPiece<[](auto, auto base) { return SignOf()(base); }>,
};

// dx = dy where y > 0, else 0
constinit const OpDef kRelu = {
    .name = "relu",
    .aliases = {"_sparse_relu"},
    .summary = "y = max(x, 0)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = useOutput<kBackwardRelu>,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kMaximumScalar, {d.x(0)}, {{"scalar", "0"}})); },
    .kernel = mapNumeric<[](auto x) { return x <= decltype(x)(0) ? decltype(x)(0) : x; }>,
    .piece = mapPiece<[](auto x, auto base) { return base <= decltype(x)(0) ? decltype(x)(0) : x; }>,
};

// dx = dy · y(1 - y)
constinit const OpDef kSigmoid = {
    .name = "sigmoid",
    .aliases = {"_sparse_sigmoid"},
    .summary = "y = 1 / (1 + exp(-x))",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = useOutput<kBackwardSigmoid>,
    .primitive = {.onnx = "Sigmoid", .c = "y[i] = 1 / (1 + exp(-x[i]))"},
    .kernel = mapFloating<[](auto x) { return decltype(x)(1) / (decltype(x)(1) + std::exp(-x)); }>,
};

// dx = dy · (1 - y²)
constinit const OpDef kTanh = {
    .name = "tanh",
    .aliases = {"_sparse_tanh"},
    .summary = "y = tanh(x)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = useOutput<kBackwardTanh>,
    .primitive = {.onnx = "Tanh", .c = "y[i] = tanh(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::tanh(x); }>,
};

// dx = dy / (1 + |x|)²
constinit const OpDef kSoftsign = {
    .name = "softsign",
    .summary = "y = x / (1 + |x|)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = useInput<kBackwardSoftsign>,
    .decompose =
        [](DecomposeRule &d) {
          const Value divisor = d.emit(kPlusScalar, {d.emit(kAbs, {d.x(0)})}, {{"scalar", "1"}});
          d.y(0, d.emit(kBroadcastDiv, {d.x(0), divisor}));
        },
    .kernel = mapFloating<[](auto x) { return x / (decltype(x)(1) + std::abs(x)); }>,
};

// dx = dy / (1 + x)
constinit const OpDef kLog1p = {
    .name = "log1p",
    .aliases = {"_sparse_log1p"},
    .summary = "y = ln(1 + x)",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .domains = kPositive,
    .gradient = useInput<kBackwardLog1p>,
    .primitive = {.onnx = "Add, Log, Sub, Div, Mul, Where: u = 1 + x; x where u = 1, else ln(u) * x / (u - 1)",
                  .c = "y[i] = log1p(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::log1p(x); }>,
};

// dx = dy · exp x
constinit const OpDef kExpm1 = {
    .name = "expm1",
    .aliases = {"_sparse_expm1"},
    .summary = "y = exp(x) - 1",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = useInput<kBackwardExpm1>,
    .primitive = {.onnx = "Exp, Sub, Log, Div, Mul, Where: u = exp(x); x where u = 1, else (u - 1) * x / ln(u)",
                  .c = "y[i] = expm1(x[i])"},
    .kernel = mapFloating<[](auto x) { return std::expm1(x); }>,
};

namespace {

constinit const OpDef kBackwardLog = {
    .name = "_backward_log",
    .summary = "gradient of log: dx = dy / x",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .domains = kPositiveSecond,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kElemwiseDiv, {d.x(0), d.x(1)})); },
    .kernel = mapFloating<[](auto dy, auto x) { return dy / x; }>,
};

constinit const OpDef kBackwardSqrt = {
    .name = "_backward_sqrt",
    .summary = "gradient of sqrt: dx = dy / (2 * y)",
    .inputs = {"dy", "y"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .domains = kPositiveSecond,
    .decompose =
        [](DecomposeRule &d) {
          Value half = d.emit(kMulScalar, {d.x(0)}, {{"scalar", "0.5"}});
          d.y(0, d.emit(kElemwiseDiv, {half, d.x(1)}));
        },
    .kernel = mapFloating<[](auto dy, auto y) { return dy * decltype(y)(0.5) / y; }>,
};

constinit const OpDef kBackwardSquare = {
    .name = "_backward_square",
    .summary = "gradient of square: dx = 2 * x * dy",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { timesHead(d, d.emit(kMulScalar, {d.x(1)}, {{"scalar", "2"}})); },
    .kernel = mapFloating<[](auto dy, auto x) { return dy * (decltype(x)(2) * x); }>,
};

constinit const OpDef kBackwardReciprocal = {
    .name = "_backward_reciprocal",
    .summary = "gradient of reciprocal: dx = -dy / x^2",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          Value quotient = d.emit(kElemwiseDiv, {d.x(0), d.emit(kSquare, {d.x(1)})});
          d.y(0, d.emit(kNegative, {quotient}));
        },
    .kernel = mapFloating<[](auto dy, auto x) { return dy * (decltype(x)(-1) / (x * x)); }>,
};

constinit const OpDef kBackwardAbs = {
    .name = "_backward_abs",
    .summary = "gradient of abs: dx = dy * sign(x)",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { timesHead(d, d.emit(kSign, {d.x(1)})); },
    .kernel = mapFloating<[](auto dy, auto x) { return dy * SignOf()(x); }>,
    .piece = mapBackwardPiece<[](auto dy, auto, auto base) { return dy * SignOf()(base); }>,
};

constinit const OpDef kBackwardSign = {
    .name = "_backward_sign",
    .summary = "gradient of sign: dx = 0",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .ignored = {0, 1},
    .flags = {.isBackward = true, .isZero = true},
    .kernelTypes = kFloatingAndIntegers,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kZerosLike, {d.x(1)})); },
    .kernel = writeZeros,
};

constinit const OpDef kBackwardRelu = {
    .name = "_backward_relu",
    .summary = "gradient of relu: dx = dy where y > 0, else 0",
    .inputs = {"dy", "y"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { timesHead(d, d.emit(kGreaterScalar, {d.x(1)}, {{"scalar", "0"}})); },
    .kernel = mapFloating<[](auto dy, auto y) { return decltype(y)(0) < y ? dy : decltype(y)(0); }>,
    .piece = mapBackwardPiece<[](auto dy, auto, auto base) { return decltype(dy)(0) < base ? dy : decltype(dy)(0); }>,
};

constinit const OpDef kBackwardSigmoid = {
    .name = "_backward_sigmoid",
    .summary = "gradient of sigmoid: dx = dy * y * (1 - y)",
    .inputs = {"dy", "y"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          Value rest = d.emit(kRminusScalar, {d.x(1)}, {{"scalar", "1"}});
          timesHead(d, d.emit(kElemwiseMul, {d.x(1), rest}));
        },
    .kernel = mapFloating<[](auto dy, auto y) { return dy * (y * (decltype(y)(1) - y)); }>,
};

constinit const OpDef kBackwardTanh = {
    .name = "_backward_tanh",
    .summary = "gradient of tanh: dx = dy * (1 - y^2)",
    .inputs = {"dy", "y"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          timesHead(d, d.emit(kRminusScalar, {d.emit(kSquare, {d.x(1)})}, {{"scalar", "1"}}));
        },
    .kernel = mapFloating<[](auto dy, auto y) { return dy * (decltype(y)(1) - y * y); }>,
};

constinit const OpDef kBackwardSoftsign = {
    .name = "_backward_softsign",
    .summary = "gradient of softsign: dx = dy / (1 + |x|)^2",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          Value base = d.emit(kPlusScalar, {d.emit(kAbs, {d.x(1)})}, {{"scalar", "1"}});
          d.y(0, d.emit(kElemwiseDiv, {d.x(0), d.emit(kSquare, {base})}));
        },
    .kernel = mapFloating<[](auto dy, auto x) {
      const decltype(x) base = decltype(x)(1) + std::abs(x);
      return dy * (decltype(x)(1) / (base * base));
    }>,
};

constinit const OpDef kBackwardLog1p = {
    .name = "_backward_log1p",
    .summary = "gradient of log1p: dx = dy / (1 + x)",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .domains = kPositiveSecond,
    .decompose =
        [](DecomposeRule &d) {
          d.y(0, d.emit(kElemwiseDiv, {d.x(0), d.emit(kPlusScalar, {d.x(1)}, {{"scalar", "1"}})}));
        },
    .kernel = mapFloating<[](auto dy, auto x) { return dy * (decltype(x)(1) / (decltype(x)(1) + x)); }>,
};

constinit const OpDef kBackwardExpm1 = {
    .name = "_backward_expm1",
    .summary = "gradient of expm1: dx = dy * exp(x)",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { timesHead(d, d.emit(kExp, {d.x(1)})); },
    .kernel = mapFloating<[](auto dy, auto x) { return dy * std::exp(x); }>,
};

constexpr const OpDef *kOps[] = {
    &kNegative,         &kExp,         &kLog,         &kSqrt,         &kSquare,       &kReciprocal,
    &kAbs,              &kSign,        &kRelu,        &kSigmoid,      &kTanh,         &kSoftsign,
    &kLog1p,            &kExpm1,       &kBackwardLog, &kBackwardSqrt, &kBackwardSquare, &kBackwardReciprocal,
    &kBackwardAbs,      &kBackwardSign, &kBackwardRelu, &kBackwardSigmoid, &kBackwardTanh, &kBackwardSoftsign,
    &kBackwardLog1p,    &kBackwardExpm1,
};

}  // namespace

constinit const OpFamily kElementwiseUnaryFamily = kOps;

}  // namespace gradc
