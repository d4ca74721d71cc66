// One tensor to the power of another. Powers with a number are in ops/elementwise/scalar.cc.
// Tested by tests/ops/extrema_ops_test.cc
#include "ops/binary/binary_functions.h"
#include "ops/elementwise/integer_functions.h"
#include "ops/kit/families.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using std::log, std::pow;

// 1 where the base is 0 and `isLimit` is 1, else the base.
constexpr auto kOneAtLimit = [](auto base, auto isLimit) {
  const auto isOne = kIsZero(base) * isLimit;
  if constexpr (std::is_arithmetic_v<decltype(base)>) return isOne == 1 ? isOne : base;
  else return base + isOne;
};

// 1 where b is 0 and a^(b - 1) may be infinite, which 0 is not to be multiplied by. In a formula, which may be
// differentiated toward b, other points of b = 0 are as any.
constexpr auto kIsZerothPower = [](auto a, auto b) {
  if constexpr (std::is_arithmetic_v<decltype(a)>) return kIsZero(b);
  else return kIsZero(b) * kIsZero(1 / (1 / a));
};

// 0^b is 0 for every b > 0, so its derivative toward b is 0 there, not 0 · ln 0; a^0 is 1 for every a, 0 included.
// These are the limits that PyTorch and TensorFlow take; in MXNet both are NaN.
struct Power {
  static constexpr bool kHasIntegers = true;
  static constexpr auto value = [](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>) return integerPower(a, b);
    else return pow(a, b);
  };
  static constexpr auto left = [](auto dy, auto a, auto b) {
    return dy * pow(a, (b - 1) * (1 - kIsZerothPower(a, b))) * b;
  };
  static constexpr auto right = [](auto dy, auto a, auto b) {
    return dy * pow(a, b) * log(kOneAtLimit(a, 1 - greater(-b, 0)));
  };
  // At a = 0 limits as well: of b·(b − 1)·a^(b−2) it is 0 for b = 0 and 1, of a^(b−1)·(1 + b·ln a) 0 for b > 1, else
  // −∞, but ∞ for b ≤ 0.
  static Term leftLeft(const Term &a, const Term &b) {
    return pow(a, (b - 2) * (1 - kIsZero(b) - kIsZero(b - 1))) * b * (b - 1);
  }
  static Term leftRight(const Term &a, const Term &b) {
    return pow(a, b - 1) * (b * log(kOneAtLimit(a, greater(b, 1) + kIsZero(b))) + 1);
  }
  static Term rightRight(const Term &a, const Term &b) {
    return pow(a, b) * square(log(kOneAtLimit(a, 1 - greater(-b, 0))));
  }
};

constexpr Domain kDomains[] = {Domain::Positive, Domain::Any};
constexpr Domain kBackwardDomains[] = {Domain::Any, Domain::Positive, Domain::Any};

constinit const OpDef kBackwardPower = equalGradient<Power>(
    {{"_backward_power"},
     "gradient of _power: dlhs = dy * rhs * lhs^(rhs - 1), drhs = dy * lhs^rhs * ln(lhs), 0 for lhs 0 and rhs >= 0",
     kBackwardDomains});
constinit const OpDef kBackwardBroadcastPower = broadcastGradient<Power>(
    {{"_backward_broadcast_power"},
     "gradient of broadcast_power: dlhs = sum dy * rhs * lhs^(rhs - 1), drhs = sum dy * lhs^rhs * ln(lhs), 0 for lhs 0 "
     "and rhs >= 0",
     kBackwardDomains});

}  // namespace

constinit const OpDef kBroadcastPower =
    asPrimitive(broadcastForm<Power, kBackwardBroadcastPower>(
                    {{"broadcast_power", "_npi_power"}, "y = lhs ^ rhs with broadcasting", kDomains}),
                {.onnx = "Pow", .c = "y[i] = pow(a[j], b[k]); a repeated axis has step 0"});
constinit const OpDef kPower = equalForm<Power, kBackwardPower, kBroadcastPower>(
    {{"_power", "_Power"}, "y = lhs ^ rhs, operands of equal shape", kDomains});

constinit const OpFamily kPowerFamily = kOps<kPower, kBackwardPower, kBroadcastPower, kBackwardBroadcastPower>;

}  // namespace gradc
