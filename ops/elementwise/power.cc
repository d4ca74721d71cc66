// One tensor to the power of another. Powers with a number are in ops/elementwise/scalar.cc.
// Tested by tests/extrema_ops_test.cc
#include "ops/amended.h"
#include "ops/elementwise/binary_functions.h"
#include "ops/elementwise/integer_functions.h"
#include "ops/families.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using std::log, std::pow;

struct Power {
  static constexpr bool kHasIntegers = true;
  static constexpr auto value = [](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>) return integerPower(a, b);
    else return pow(a, b);
  };
  static constexpr auto left = [](auto dy, auto a, auto b) { return dy * pow(a, b - 1) * b; };
  static constexpr auto right = [](auto dy, auto a, auto b) { return dy * pow(a, b) * log(a); };
};

constexpr Domain kDomains[] = {Domain::Positive, Domain::Any};
constexpr Domain kBackwardDomains[] = {Domain::Any, Domain::Positive, Domain::Any};

constinit const OpDef kBackwardPower =
    equalGradient<Power>({{"_backward_power"},
                          "gradient of _power: dlhs = dy * rhs * lhs^(rhs - 1), drhs = dy * lhs^rhs * ln(lhs)",
                          kBackwardDomains});
constinit const OpDef kBackwardBroadcastPower = broadcastGradient<Power>(
    {{"_backward_broadcast_power"},
     "gradient of broadcast_power: dlhs = sum dy * rhs * lhs^(rhs - 1), drhs = sum dy * lhs^rhs * ln(lhs)",
     kBackwardDomains});

}  // namespace

constinit const OpDef kBroadcastPower =
    asPrimitive(broadcastForm<Power, kBackwardBroadcastPower>(
                    {{"broadcast_power", "_npi_power"}, "y = lhs ^ rhs with broadcasting", kDomains}),
                {.onnx = "Pow", .c = "y[i] = pow(a[j], b[k]); a repeated axis has step 0"});
constinit const OpDef kPower = equalForm<Power, kBackwardPower, kBroadcastPower>(
    {{"_power", "_Power"}, "y = lhs ^ rhs, operands of equal shape", kDomains});

namespace {
constexpr const OpDef *kOps[] = {&kPower, &kBackwardPower, &kBroadcastPower, &kBackwardBroadcastPower};
}  // namespace

constinit const OpFamily kPowerFamily = kOps;

}  // namespace gradc
