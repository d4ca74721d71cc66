// Comparisons of two tensors, of a tensor and the number in attribute `scalar`, and logical connectives: 1 where true,
// else 0, in the operands' type (MXNet's choice). They carry no gradient. A number other than 0, NaN included, is true.
// Tested by tests/ops/extrema_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/binary/broadcast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/scalar_params.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr OpDef comparison(OpDef op, void (*kernel)(const KernelCall &)) {
  op.flags.hasNoGradient = true;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) {
    for (size_t i = 0; i < g.numInputs(); ++i) g.noGrad(i);
  };
  op.kernel = kernel;
  op.piece = holdAtBase;
  return op;
}

template <auto F> constexpr OpDef equalShapes(StringRef name, StringRef legacyName, StringRef summary) {
  return comparison(asEqualShapes(named({name, legacyName}, summary)), mapNumeric<F>);
}

template <auto F> constexpr OpDef broadcasting(StringRef name, StringRef summary) {
  return comparison(asBroadcast(named({name}, summary)), broadcastKernel<F>);
}

template <auto F> constexpr OpDef withNumber(StringRef name, StringRef legacyName, StringRef summary) {
  return comparison(scalarOp({name, legacyName}, summary, {"data"}), scalarNumeric<F>);
}

template <const OpDef &Broadcasting> void broadcastSame(DecomposeRule &d) {
  d.y(0, d.emit(Broadcasting, {d.x(0), d.x(1)}));
}
template <const OpDef &Comparison> void exchanged(DecomposeRule &d) { d.y(0, d.emit(Comparison, {d.x(1), d.x(0)})); }
void negateEqual(DecomposeRule &d) {
  d.y(0, d.emit(kEqualScalar, {d.emit(kBroadcastEqual, {d.x(0), d.x(1)})}, {{"scalar", "0"}}));
}

/// The compiler vectorises a choice, and not the conversion of a bool.
template <class T> constexpr T truth(bool isTrue) { return isTrue ? T(1) : T(0); }

constexpr auto kIsEqual = [](auto a, auto b) { return truth<decltype(a)>(a == b); };
constexpr auto kIsNotEqual = [](auto a, auto b) { return truth<decltype(a)>(a != b); };
constexpr auto kIsGreater = [](auto a, auto b) { return truth<decltype(a)>(a > b); };
constexpr auto kIsGreaterEqual = [](auto a, auto b) { return truth<decltype(a)>(a >= b); };
constexpr auto kIsLesser = [](auto a, auto b) { return truth<decltype(a)>(a < b); };
constexpr auto kIsLesserEqual = [](auto a, auto b) { return truth<decltype(a)>(a <= b); };
constexpr auto kBoth = [](auto a, auto b) { return truth<decltype(a)>((a != 0) & (b != 0)); };
constexpr auto kEither = [](auto a, auto b) { return truth<decltype(a)>((a != 0) | (b != 0)); };
constexpr auto kEitherAlone = [](auto a, auto b) { return truth<decltype(a)>((a != 0) != (b != 0)); };

template <const OpDef &Connective> void ofTruths(DecomposeRule &d) {
  auto truth = [&](size_t i) { return d.emit(kNotEqualScalar, {d.x(i)}, {{"scalar", "0"}}); };
  const Value lhs = truth(0), rhs = truth(1);
  d.y(0, d.emit(Connective, {lhs, rhs}));
}

// A connective with a number reduces to the truth of x, its negation, or 0 or 1 everywhere. `ifTrue` and `ifFalse` are
// the results for a true and a false x.
void byTruth(DecomposeRule &d, bool ifTrue, bool ifFalse) {
  if (ifTrue == ifFalse) return d.y(0, d.emit(ifTrue ? kOnesLike : kZerosLike, {d.x(0)}));
  d.y(0, d.emit(ifTrue ? kNotEqualScalar : kEqualScalar, {d.x(0)}, {{"scalar", "0"}}));
}
bool isTrue(DecomposeRule &d) { return d.params<ScalarParams>().scalar != 0; }

}  // namespace

constinit const OpDef kEqual = withDecomposition(
    equalShapes<kIsEqual>("_equal", "_Equal", "y = 1 where lhs = rhs, else 0"), broadcastSame<kBroadcastEqual>);
constinit const OpDef kNotEqual =
    withDecomposition(equalShapes<kIsNotEqual>("_not_equal", "_Not_Equal", "y = 1 where lhs differs from rhs, else 0"),
                      broadcastSame<kBroadcastNotEqual>);
constinit const OpDef kGreater = withDecomposition(
    equalShapes<kIsGreater>("_greater", "_Greater", "y = 1 where lhs > rhs, else 0"), broadcastSame<kBroadcastGreater>);
constinit const OpDef kGreaterEqual = withDecomposition(
    equalShapes<kIsGreaterEqual>("_greater_equal", "_Greater_Equal", "y = 1 where lhs >= rhs, else 0"),
    broadcastSame<kBroadcastGreaterEqual>);
constinit const OpDef kLesser = withDecomposition(
    equalShapes<kIsLesser>("_lesser", "_Lesser", "y = 1 where lhs < rhs, else 0"), broadcastSame<kBroadcastLesser>);
constinit const OpDef kLesserEqual =
    withDecomposition(equalShapes<kIsLesserEqual>("_lesser_equal", "_Lesser_Equal", "y = 1 where lhs <= rhs, else 0"),
                      broadcastSame<kBroadcastLesserEqual>);

constinit const OpDef kBroadcastEqual =
    asPrimitive(broadcasting<kIsEqual>("broadcast_equal", "y = 1 where lhs = rhs, else 0, with broadcasting"),
                {.onnx = "Equal, CastLike", .c = "y[i] = a[j] == b[k]; a repeated axis has step 0"});
constinit const OpDef kBroadcastNotEqual = withDecomposition(
    broadcasting<kIsNotEqual>("broadcast_not_equal", "y = 1 where lhs differs from rhs, else 0, with broadcasting"),
    negateEqual);
constinit const OpDef kBroadcastGreater =
    asPrimitive(broadcasting<kIsGreater>("broadcast_greater", "y = 1 where lhs > rhs, else 0, with broadcasting"),
                {.onnx = "Greater, CastLike", .c = "y[i] = a[j] > b[k]; a repeated axis has step 0"});
constinit const OpDef kBroadcastGreaterEqual = withDecomposition(
    broadcasting<kIsGreaterEqual>("broadcast_greater_equal", "y = 1 where lhs >= rhs, else 0, with broadcasting"),
    [](DecomposeRule &d) {
      const Value isGreater = d.emit(kBroadcastGreater, {d.x(0), d.x(1)});
      d.y(0, d.emit(kElemwiseAdd, {isGreater, d.emit(kBroadcastEqual, {d.x(0), d.x(1)})}));
    });
constinit const OpDef kBroadcastLesser =
    withDecomposition(broadcasting<kIsLesser>("broadcast_lesser", "y = 1 where lhs < rhs, else 0, with broadcasting"),
                      exchanged<kBroadcastGreater>);
constinit const OpDef kBroadcastLesserEqual = withDecomposition(
    broadcasting<kIsLesserEqual>("broadcast_lesser_equal", "y = 1 where lhs <= rhs, else 0, with broadcasting"),
    exchanged<kBroadcastGreaterEqual>);

constinit const OpDef kGreaterScalar =
    withDecomposition(withNumber<kIsGreater>("_greater_scalar", "_GreaterScalar", "y = 1 where x > scalar, else 0"),
                      broadcastNumber<kBroadcastGreater>);
constinit const OpDef kLesserScalar =
    withDecomposition(withNumber<kIsLesser>("_lesser_scalar", "_LesserScalar", "y = 1 where x < scalar, else 0"),
                      broadcastNumberFirst<kBroadcastGreater>);
constinit const OpDef kEqualScalar =
    withDecomposition(withNumber<kIsEqual>("_equal_scalar", "_EqualScalar", "y = 1 where x = scalar, else 0"),
                      broadcastNumber<kBroadcastEqual>);
constinit const OpDef kNotEqualScalar = withDecomposition(
    withNumber<kIsNotEqual>("_not_equal_scalar", "_NotEqualScalar", "y = 1 where x differs from scalar, else 0"),
    [](DecomposeRule &d) {
      const Value isEqual = d.emit(kEqualScalar, {d.x(0)}, {{"scalar", scalarText(d)}});
      d.y(0, d.emit(kEqualScalar, {isEqual}, {{"scalar", "0"}}));
    });
constinit const OpDef kGreaterEqualScalar = withDecomposition(
    withNumber<kIsGreaterEqual>("_greater_equal_scalar", "_GreaterEqualScalar", "y = 1 where x >= scalar, else 0"),
    broadcastNumber<kBroadcastGreaterEqual>);
constinit const OpDef kLesserEqualScalar = withDecomposition(
    withNumber<kIsLesserEqual>("_lesser_equal_scalar", "_LesserEqualScalar", "y = 1 where x <= scalar, else 0"),
    broadcastNumberFirst<kBroadcastGreaterEqual>);

namespace {

constinit const OpDef kLogicalAndScalar =
    withDecomposition(withNumber<kBoth>("_logical_and_scalar", "_LogicalAndScalar",
                                        "y = 1 where x and scalar are true, that is not 0, else 0"),
                      [](DecomposeRule &d) { byTruth(d, isTrue(d), false); });
constinit const OpDef kLogicalOrScalar =
    withDecomposition(withNumber<kEither>("_logical_or_scalar", "_LogicalOrScalar",
                                          "y = 1 where x or scalar is true, that is not 0, else 0"),
                      [](DecomposeRule &d) { byTruth(d, true, isTrue(d)); });
constinit const OpDef kLogicalXorScalar =
    withDecomposition(withNumber<kEitherAlone>("_logical_xor_scalar", "_LogicalXorScalar",
                                               "y = 1 where either x or scalar is true, that is not 0, else 0"),
                      [](DecomposeRule &d) { byTruth(d, !isTrue(d), isTrue(d)); });

constinit const OpDef kBroadcastLogicalAnd = withDecomposition(
    broadcasting<kBoth>("broadcast_logical_and", "y = 1 where lhs and rhs are true, else 0, with broadcasting"),
    ofTruths<kBroadcastMul>);
constinit const OpDef kBroadcastLogicalOr = withDecomposition(
    broadcasting<kEither>("broadcast_logical_or", "y = 1 where lhs or rhs is true, else 0, with broadcasting"),
    ofTruths<kBroadcastMaximum>);
constinit const OpDef kBroadcastLogicalXor =
    withDecomposition(broadcasting<kEitherAlone>("broadcast_logical_xor",
                                                 "y = 1 where either lhs or rhs is true, else 0, with broadcasting"),
                      ofTruths<kBroadcastNotEqual>);
constinit const OpDef kLogicalAnd =
    withDecomposition(equalShapes<kBoth>("_logical_and", "_Logical_And", "y = 1 where lhs and rhs are true, else 0"),
                      broadcastSame<kBroadcastLogicalAnd>);
constinit const OpDef kLogicalOr =
    withDecomposition(equalShapes<kEither>("_logical_or", "_Logical_Or", "y = 1 where lhs or rhs is true, else 0"),
                      broadcastSame<kBroadcastLogicalOr>);
constinit const OpDef kLogicalXor = withDecomposition(
    equalShapes<kEitherAlone>("_logical_xor", "_Logical_Xor", "y = 1 where either lhs or rhs is true, else 0"),
    broadcastSame<kBroadcastLogicalXor>);

}  // namespace

constinit const OpFamily kComparisonFamily =
    kOps<kGreaterScalar, kLesserScalar, kEqualScalar, kNotEqualScalar, kLogicalAndScalar, kLogicalOrScalar,
         kLogicalXorScalar, kGreaterEqualScalar, kLesserEqualScalar, kLogicalAnd, kLogicalOr, kLogicalXor,
         kBroadcastLogicalAnd, kBroadcastLogicalOr, kBroadcastLogicalXor, kEqual, kNotEqual, kGreater, kGreaterEqual,
         kLesser, kLesserEqual, kBroadcastEqual, kBroadcastNotEqual, kBroadcastGreater, kBroadcastGreaterEqual,
         kBroadcastLesser, kBroadcastLesserEqual>;

}  // namespace gradc
