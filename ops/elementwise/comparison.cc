// Comparisons of two tensors and logical connectives: 1 where true, else 0, in the operands' type (MXNet's choice). Nothing
// flows through them. A number other than 0, NaN included, is true.
//
// Comparisons with a number are in ops/elementwise/scalar.cc. Tested by tests/extrema_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ops/amended.h"
#include "ops/elementwise/broadcast_binary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/families.h"
#include "ops/pieces.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr OpDef comparison(StringRef name, StringRef summary, void (*kernel)(const KernelCall &)) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.inputs = {"lhs", "rhs"};
  op.flags.hasNoGradient = true;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) {
    g.noGrad(0);
    g.noGrad(1);
  };
  op.kernel = kernel;
  op.piece = holdAtBase;
  return op;
}

template <auto F> constexpr OpDef equalShapes(StringRef name, StringRef legacyName, StringRef summary) {
  OpDef op = comparison(name, summary, mapNumeric<F>);
  op.aliases = {legacyName};
  op.shape = shapes::same;
  op.inplace = kInplaceEither;
  op.flags.isElementwise = true;
  return op;
}

template <auto F> constexpr OpDef broadcasting(StringRef name, StringRef summary) {
  OpDef op = comparison(name, summary, broadcastKernel<F>);
  op.shape = broadcastShape;
  return op;
}

template <const OpDef &Broadcasting> void broadcastSame(DecomposeRule &d) {
  d.y(0, d.emit(Broadcasting, {d.x(0), d.x(1)}));
}
template <const OpDef &Comparison> void exchanged(DecomposeRule &d) { d.y(0, d.emit(Comparison, {d.x(1), d.x(0)})); }
void negateEqual(DecomposeRule &d) {
  d.y(0, d.emit(kEqualScalar, {d.emit(kBroadcastEqual, {d.x(0), d.x(1)})}, {{"scalar", "0"}}));
}

constexpr auto kIsEqual = [](auto a, auto b) { return a == b; };
constexpr auto kIsNotEqual = [](auto a, auto b) { return a != b; };
constexpr auto kIsGreater = [](auto a, auto b) { return a > b; };
constexpr auto kIsGreaterEqual = [](auto a, auto b) { return a >= b; };
constexpr auto kIsLesser = [](auto a, auto b) { return a < b; };
constexpr auto kIsLesserEqual = [](auto a, auto b) { return a <= b; };
constexpr auto kBoth = [](auto a, auto b) { return a != 0 && b != 0; };
constexpr auto kEither = [](auto a, auto b) { return a != 0 || b != 0; };
constexpr auto kEitherAlone = [](auto a, auto b) { return (a != 0) != (b != 0); };

template <const OpDef &Connective> void ofTruths(DecomposeRule &d) {
  auto truth = [&](size_t i) { return d.emit(kNotEqualScalar, {d.x(i)}, {{"scalar", "0"}}); };
  const Value lhs = truth(0), rhs = truth(1);
  d.y(0, d.emit(Connective, {lhs, rhs}));
}

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
constinit const OpDef kBroadcastGreaterEqual = asPrimitive(
    broadcasting<kIsGreaterEqual>("broadcast_greater_equal", "y = 1 where lhs >= rhs, else 0, with broadcasting"),
    {.onnx = "GreaterOrEqual, CastLike", .c = "y[i] = a[j] >= b[k]; a repeated axis has step 0"});
constinit const OpDef kBroadcastLesser =
    withDecomposition(broadcasting<kIsLesser>("broadcast_lesser", "y = 1 where lhs < rhs, else 0, with broadcasting"),
                      exchanged<kBroadcastGreater>);
constinit const OpDef kBroadcastLesserEqual = withDecomposition(
    broadcasting<kIsLesserEqual>("broadcast_lesser_equal", "y = 1 where lhs <= rhs, else 0, with broadcasting"),
    exchanged<kBroadcastGreaterEqual>);

namespace {

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

constexpr const OpDef *kOps[] = {
    &kLogicalAnd,
    &kLogicalOr,
    &kLogicalXor,
    &kBroadcastLogicalAnd,
    &kBroadcastLogicalOr,
    &kBroadcastLogicalXor,
    &kEqual,
    &kNotEqual,
    &kGreater,
    &kGreaterEqual,
    &kLesser,
    &kLesserEqual,
    &kBroadcastEqual,
    &kBroadcastNotEqual,
    &kBroadcastGreater,
    &kBroadcastGreaterEqual,
    &kBroadcastLesser,
    &kBroadcastLesserEqual,
};

}  // namespace

constinit const OpFamily kComparisonFamily = kOps;

}  // namespace gradc
