// Piecewise constant functions of one variable: rounding, and logical negation. Their gradient is zero, as in MXNet
// where MXNet defines it. Tested by tests/ops/elementwise_ops_test.cc
#include "ops/elementwise/functions.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

// Integers are rounded already.
template <auto F>
constexpr auto kRounded = [](auto x) {
  if constexpr (std::is_floating_point_v<decltype(x)>) return F(x);
  else return x;
};

constexpr auto kDown = kRounded<[](auto x) { return std::floor(x); }>;
constexpr auto kUp = kRounded<[](auto x) { return std::ceil(x); }>;
constexpr auto kTowardsZero = kRounded<[](auto x) { return std::trunc(x); }>;
constexpr auto kAwayFromZero = kRounded<[](auto x) { return std::round(x); }>;
// MXNet's rint rounds halves down.
constexpr auto kNearest = kRounded<[](auto x) {
  const auto down = std::floor(x), up = std::ceil(x);
  return x - down <= up - x ? down : up;
}>;
constexpr auto kIsFalse = [](auto x) { return x == 0; };

template <auto F> constexpr OpDef step(NameList names, StringRef summary) {
  OpDef op = unary<F>(names, summary);
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); };
  op.kernel = mapNumeric<F>;
  op.piece = mapPiece<[](auto, auto base) { return F(base); }>;
  return op;
}

void nearestByChoosing(DecomposeRule &d) {
  const Value down = d.emit(kFloor, {d.x(0)}), up = d.emit(kCeil, {d.x(0)});
  const Value below = d.emit(kElemwiseSub, {d.x(0), down}), above = d.emit(kElemwiseSub, {up, d.x(0)});
  d.y(0, d.emit(kWhere, {d.emit(kLesserEqual, {below, above}), down, up}));
}

// Without fractions, so that integers remain what they are.
void awayFromZero(DecomposeRule &d) {
  const Value size = d.emit(kAbs, {d.x(0)}), down = d.emit(kFloor, {size});
  const Value twiceTheRest = d.emit(kMulScalar, {d.emit(kElemwiseSub, {size, down})}, {{"scalar", "2"}});
  const Value goesUp = d.emit(kGreaterEqualScalar, {twiceTheRest}, {{"scalar", "1"}});
  d.y(0, d.emit(kElemwiseMul, {d.emit(kSign, {d.x(0)}), d.emit(kElemwiseAdd, {down, goesUp})}));
}

void downTowardsZero(DecomposeRule &d) {
  const Value size = d.emit(kFloor, {d.emit(kAbs, {d.x(0)})});
  d.y(0, d.emit(kElemwiseMul, {d.emit(kSign, {d.x(0)}), size}));
}

}  // namespace

constinit const OpDef kFloor =
    asPrimitive(step<kDown>({"floor", "_sparse_floor", "_npi_floor"}, "y = the largest whole number that is at most x"),
                {.onnx = "Floor", .c = "y[i] = floor(x[i])"});
constinit const OpDef kCeil =
    asPrimitive(step<kUp>({"ceil", "_sparse_ceil", "_npi_ceil"}, "y = the smallest whole number that is at least x"),
                {.onnx = "Ceil", .c = "y[i] = ceil(x[i])"});

constinit const OpDef kRound = withDecomposition(
    step<kAwayFromZero>({"round", "_sparse_round"}, "y = the whole number nearest to x, halves away from 0"),
    awayFromZero);

namespace {

constinit const OpDef kRint = withDecomposition(
    step<kNearest>({"rint", "_sparse_rint", "_npi_rint"}, "y = the whole number nearest to x, halves down"),
    nearestByChoosing);
constinit const OpDef kTrunc = withDecomposition(
    step<kTowardsZero>({"trunc", "_sparse_trunc", "_npi_trunc"}, "y = x without what follows the decimal point"),
    downTowardsZero);
constinit const OpDef kFix = withDecomposition(
    step<kTowardsZero>({"fix", "_sparse_fix", "_npi_fix"}, "y = the whole number nearest to x towards 0"),
    downTowardsZero);
constinit const OpDef kLogicalNot =
    withDecomposition(step<kIsFalse>({"logical_not"}, "y = 1 where x = 0, else 0"),
                      [](DecomposeRule &d) { d.y(0, d.emit(kEqualScalar, {d.x(0)}, {{"scalar", "0"}})); });

}  // namespace

constinit const OpFamily kRoundingFamily = kOps<kFloor, kCeil, kRound, kRint, kTrunc, kFix, kLogicalNot>;

}  // namespace gradc
