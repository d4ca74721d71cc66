// One tensor to the power of another. Powers with a number are in ops/elementwise/scalar.cc.
// Tested by tests/extrema_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ops/elementwise/broadcast_binary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/families.h"
#include "ops/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

extern const OpDef kBackwardPower, kBackwardBroadcastPower;

// dy · b · a^(b - 1), in operators whose shapes may differ if `power` and `times` allow it.
Value baseTerm(DecomposeRule &d, const OpDef &power, const OpDef &times) {
  Value lower = d.emit(kMinusScalar, {d.x(2)}, {{"scalar", "1"}});
  return d.emit(times, {d.emit(kElemwiseMul, {d.x(0), d.emit(power, {d.x(1), lower})}), d.x(2)});
}

// dy · a^b · ln a
Value exponentTerm(DecomposeRule &d, const OpDef &power, const OpDef &times) {
  Value value = d.emit(kElemwiseMul, {d.x(0), d.emit(power, {d.x(1), d.x(2)})});
  return d.emit(times, {value, d.emit(kLog, {d.x(1)})});
}

constexpr Domain kDomains[] = {Domain::Positive, Domain::Any};
constexpr Domain kBackwardDomains[] = {Domain::Any, Domain::Positive, Domain::Any};

}  // namespace

// dlhs = dy · rhs · lhs^(rhs - 1), drhs = dy · lhs^rhs · ln lhs
constinit const OpDef kPower = {
    .name = "_power",
    .aliases = {"_Power"},
    .summary = "y = lhs ^ rhs, operands of equal shape",
    .inputs = {"lhs", "rhs"},
    .shape = shapes::same,
    .inplace = kInplaceEither,
    .flags = {.isElementwise = true},
    .domains = kDomains,
    .gradient = [](GradRule &g) { g.fused(kBackwardPower, {g.dy(0), g.x(0), g.x(1)}); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastPower, {d.x(0), d.x(1)})); },
    .kernel = mapFloating<[](auto a, auto b) { return std::pow(a, b); }>,
};

namespace {

constinit const OpDef kBackwardPower = {
    .name = "_backward_power",
    .summary = "gradient of _power: dlhs = dy * rhs * lhs^(rhs - 1), drhs = dy * lhs^rhs * ln(lhs)",
    .inputs = {"dy", "lhs", "rhs"},
    .outputs = {"dlhs", "drhs"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isBackward = true, .isElementwise = true},
    .domains = kBackwardDomains,
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) d.y(0, baseTerm(d, kPower, kElemwiseMul));
          if (d.wants(1)) d.y(1, exponentTerm(d, kPower, kElemwiseMul));
        },
    .kernel = mapTwoFloating<[](auto dy, auto a, auto b) { return dy * (b * std::pow(a, b - decltype(b)(1))); },
                             [](auto dy, auto a, auto b) { return dy * (std::pow(a, b) * std::log(a)); }>,
};

}  // namespace

// dlhs = Σ dy · rhs · lhs^(rhs - 1), drhs = Σ dy · lhs^rhs · ln lhs over the repeated axes of each
constinit const OpDef kBroadcastPower = {
    .name = "broadcast_power",
    .aliases = {"_npi_power"},
    .summary = "y = lhs ^ rhs with broadcasting",
    .inputs = {"lhs", "rhs"},
    .shape = broadcastShape,
    .domains = kDomains,
    .gradient = [](GradRule &g) { g.fused(kBackwardBroadcastPower, {g.dy(0), g.x(0), g.x(1)}); },
    .primitive = {.onnx = "Pow", .c = "y[i] = pow(a[j], b[k]); a repeated axis has step 0"},
    .kernel = broadcastKernel<[](auto a, auto b) { return std::pow(a, b); }>,
};

namespace {

constinit const OpDef kBackwardBroadcastPower = {
    .name = "_backward_broadcast_power",
    .summary = "gradient of broadcast_power: dlhs = sum dy * rhs * lhs^(rhs - 1), drhs = sum dy * lhs^rhs * ln(lhs)",
    .inputs = {"dy", "lhs", "rhs"},
    .outputs = {"dlhs", "drhs"},
    .flags = {.isBackward = true},
    .domains = kBackwardDomains,
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) d.y(0, d.emit(kSumLike, {baseTerm(d, kBroadcastPower, kBroadcastMul), d.x(1)}));
          if (d.wants(1)) d.y(1, d.emit(kSumLike, {exponentTerm(d, kBroadcastPower, kBroadcastMul), d.x(2)}));
        },
    .kernel = broadcastBackwardKernel<[](auto v) { return v[0] * (v[2] * std::pow(v[1], v[2] - 1)); },
                                      [](auto v) { return v[0] * (std::pow(v[1], v[2]) * std::log(v[1])); }>,
};

constexpr const OpDef *kOps[] = {&kPower, &kBackwardPower, &kBroadcastPower, &kBackwardBroadcastPower};

}  // namespace

constinit const OpFamily kPowerFamily = kOps;

}  // namespace gradc
