// Functions whose gradient is declared, not derived: straight-through estimators, and a factor on the gradient alone.
// Central differences therefore see a piece with the declared slope. Tested by tests/ops/elementwise_ops_test.cc
#include "ops/elementwise/functions.h"
#include "ops/elementwise/scalar_params.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr auto kRounded = [](auto x) {
  if constexpr (std::is_floating_point_v<decltype(x)>) return std::round(x);
  else return x;
};
constexpr auto kSigned = [](auto x) { return decltype(x)((x > 0) - (x < 0)); };

// y = F(x); dx = dy. The operators that it is lowered to lead from x to y along nodes that pass on gradients: `grad`
// reports what is lost there, and does not take it for a zero.
template <auto F, auto Lower> constexpr OpDef straightThrough(NameList names, StringRef summary) {
  OpDef op = unary<F>(names, summary);
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(kCopy, {g.dy(0)})); };
  op.decompose = Lower;
  op.kernel = mapNumeric<F>;
  op.piece = mapPiece<[](auto x, auto base) { return F(base) + (x - base); }>;
  return op;
}

// Forward the identity.
void multipliedPiece(const PieceCall &call) {
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T scalar = convertNumber<T>(call.params<ScalarParams>().scalar);
    const T *x = call.in[0].as<const T>(), *base = call.base[0].as<const T>();
    for (int64_t i = 0; i < call.out[0].size(); ++i) call.out[0].as<T>()[i] = base[i] + scalar * (x[i] - base[i]);
  });
}

void lowerRounded(DecomposeRule &d) { d.y(0, d.emit(kRound, {d.x(0)}, {loweredFrom(d)})); }

// Nothing flows through the comparisons of a sign.
void lowerSigned(DecomposeRule &d) {
  const Value x = d.x(0), isZero = d.emit(kEqualScalar, {x}, {{"scalar", "0"}});
  d.y(0, d.emit(kWhere, {isZero, x, d.emit(kSign, {x})}, {loweredFrom(d)}));
}

constinit const OpDef kRoundSte = straightThrough<kRounded, lowerRounded>(
    {"_contrib_round_ste", "_sparse__contrib_round_ste"},
    "y = the whole number nearest to x, halves away from 0; the gradient passes unchanged: dx = dy");
constinit const OpDef kSignSte =
    straightThrough<kSigned, lowerSigned>({"_contrib_sign_ste", "_sparse__contrib_sign_ste"},
                                          "y = the sign of x: -1, 0 or 1; the gradient passes unchanged: dx = dy");

constinit const OpDef kBackwardGradientMultiplier = [] {
  OpDef op = scalarOp({"_contrib_backward_gradientmultiplier"},
                      "gradient of _contrib_gradientmultiplier: dx = dy * scalar", {"dy"});
  op.flags.isBackward = true;
  op.decompose = [](DecomposeRule &d) { d.y(0, d.emit(kMulScalar, {d.x(0)}, {{"scalar", scalarText(d)}})); };
  op.kernel = scalarFloating<[](auto dy, auto s) { return dy * s; }>;
  return op;
}();

constinit const OpDef kGradientMultiplier = [] {
  OpDef op = scalarOp({"_contrib_gradientmultiplier"}, "y = x; the gradient is multiplied: dx = dy * scalar", {"data"});
  op.inplace = kInplaceIdentity;
  op.flags.movesElements = true;
  op.kernelTypes = kFloatingAndIntegers;
  op.gradient = [](GradRule &g) { g.fused(kBackwardGradientMultiplier, {g.dy(0)}); };
  op.decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)}, {loweredFrom(d)})); };
  op.kernel = copyBytes;
  op.piece = multipliedPiece;
  return op;
}();

}  // namespace

constinit const OpFamily kStraightThroughFamily =
    kOps<kRoundSte, kSignSte, kGradientMultiplier, kBackwardGradientMultiplier>;

}  // namespace gradc
