// Slopes at kinks, poles and ends of domains, beside what MXNet 1.9.1 and PyTorch 2.15 answer there in float64. Both
// columns come from running them; gamma is exp(lgamma) in PyTorch, hard_sigmoid a clamped line.
#include "tests/support/ops/op_harness.h"
#include "tests/support/ops/op_table.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <gtest/gtest.h>
#include <optional>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr double kInfinity = HUGE_VAL, kNan = NAN, kLargest = std::numeric_limits<double>::max();

using Pair = std::array<double, 2>;  // of functions of one argument the first

struct Limit {
  const char *op, *attrs;
  std::initializer_list<double> at;
  Pair slopes;
  std::optional<Pair> mxnet, torch;  // none: it has no such operator
  const char *reason = nullptr;      // why no peer is followed
};
const Limit kLimits[] = {
    {"log2", "", {0}, {kInfinity}, {{kInfinity}}, {{kInfinity}}},
    {"log10", "", {0}, {kInfinity}, {{kInfinity}}, {{kInfinity}}},
    {"log2", "", {-0.0}, {-kInfinity}, {{-kInfinity}}, {{-kInfinity}}},
    {"log10", "", {-0.0}, {-kInfinity}, {{-kInfinity}}, {{-kInfinity}}},
    {"log2", "", {kInfinity}, {0}, {{0}}, {{0}}},
    {"log10", "", {kInfinity}, {0}, {{0}}, {{0}}},
    {"log2", "", {-1}, {-1.4426950408889634}, {{-1.4426950408889634}}, {{-1.4426950408889634}}},
    {"log10", "", {-1}, {-0.43429448190325176}, {{-0.4342944819032518}}, {{-0.43429448190325176}}},
    {"arccos", "", {1}, {-kInfinity}, {{-kInfinity}}, {{-kInfinity}}},
    {"arccos", "", {-1}, {-kInfinity}, {{-kInfinity}}, {{-kInfinity}}},
    {"erfinv", "", {1}, {kInfinity}, {{kInfinity}}, {{kInfinity}}},
    {"erfinv", "", {-1}, {kInfinity}, {{kInfinity}}, {{kInfinity}}},
    {"gamma", "", {0}, {-kInfinity}, {{kInfinity}}, {{-kInfinity}}},
    {"gammaln", "", {0}, {-kInfinity}, {{kLargest}}, {{-kInfinity}}},
    {"gamma", "", {-1}, {kNan}, {{kNan}}, {{kNan}}},
    {"gammaln", "", {-1}, {kNan}, {{kLargest}}, {{kNan}}},
    {"gamma", "", {-2}, {kNan}, {{kNan}}, {{kNan}}},
    {"gammaln", "", {-2}, {kNan}, {{kLargest}}, {{kNan}}},
    {"gamma", "", {kInfinity}, {kInfinity}, {{kInfinity}}, {{kInfinity}}},
    {"gammaln", "", {kInfinity}, {kInfinity}, {{kInfinity}}, {{kInfinity}}},
    {"tan", "", {1.5707963267948966}, {2.6670937881135714e+32}, {{2.6670937881135714e+32}}, {{2.6670937881135714e+32}}},
    {"_npi_arctan2", "", {0, 0}, {0, 0}, {{kNan, kNan}}, {{0, 0}}},
    {"_npi_arctan2", "", {0, 1}, {1, 0}, {{1, 0}}, {{1, 0}}},
    {"_npi_arctan2", "", {0, -1}, {-1, 0}, {{-1, 0}}, {{-1, 0}}},
    {"_npi_arctan2", "", {1, 0}, {0, -1}, {{0, -1}}, {{0, -1}}},
    {"_npi_arctan2", "", {kInfinity, 1}, {0, 0}, {{0, kNan}}, {{0, kNan}}, "the limit"},
    {"_npi_arctan2", "", {1, kInfinity}, {0, 0}, {{kNan, 0}}, {{kNan, 0}}, "the limit"},
    {"_hypot", "", {0, 0}, {0, 0}, {{kNan, kNan}}, {{kNan, kNan}}, "the least subgradient, as that of norm"},
    {"_hypot", "", {0, -2}, {0, -1}, {{0, -1}}, {{0, -1}}},
    {"_hypot", "", {kInfinity, 1}, {kNan, 0}, {{kNan, 0}}, {{kNan, 0}}},
    {"_hypot", "", {kInfinity, kInfinity}, {kNan, kNan}, {{kNan, kNan}}, {{kNan, kNan}}},
    {"_mod", "", {4, 2}, {1, -2}, {{1, -2}}, {{1, -2}}},
    {"_mod", "", {-4, 2}, {1, 2}, {{1, 2}}, {{1, 2}}},
    {"_mod", "", {0, 2}, {1, 0}, {{1, 0}}, {{1, 0}}},
    {"_mod", "", {1, 0.1}, {1, -9}, {{1, -10}}, {{1, -9}}},
    {"_mod", "", {1, 0}, {1, -kInfinity}, {{1, -kInfinity}}, {{1, -kInfinity}}},
    {"_mod", "", {0, 0}, {1, kNan}, {{1, kNan}}, {{1, kNan}}},
    {"smooth_l1", "scalar=1.0", {1}, {1}, {{1}}, {{1}}},
    {"smooth_l1", "scalar=1.0", {-1}, {-1}, {{-1}}, {{-1}}},
    {"smooth_l1", "scalar=1.0", {0}, {0}, {{0}}, {{0}}},
    {"smooth_l1", "scalar=2.0", {0.25}, {1}, {{1}}, {{1}}},
    {"smooth_l1", "scalar=2.0", {-0.25}, {-1}, {{-1}}, {{-1}}},
    {"hard_sigmoid", "", {2.5}, {0}, {{0}}, {{0}}},
    {"hard_sigmoid", "", {-2.5}, {0}, {{0}}, {{0}}},
    {"hard_swish", "", {3}, {1}, {}, {{1}}},
    {"hard_swish", "", {-3}, {0}, {}, {{0}}},
    {"clip", "a_min=-1,a_max=1", {1}, {1}, {{1}}, {{0}}},
    {"clip", "a_min=-1,a_max=1", {-1}, {1}, {{1}}, {{0}}},
    {"_power", "", {0, 0}, {0, 0}, {{kNan, -kInfinity}}, {{0, 0}}},
    {"_power", "", {0, 1}, {1, 0}, {{1, kNan}}, {{1, 0}}},
    {"_power", "", {0, -1}, {-kInfinity, -kInfinity}, {{-kInfinity, -kInfinity}}, {{-kInfinity, -kInfinity}}},
    {"_power", "", {0, 0.5}, {kInfinity, 0}, {{kInfinity, kNan}}, {{kInfinity, 0}}},
    {"_power", "", {-1, 2}, {-2, kNan}, {{-2, kNan}}, {{-2, kNan}}},
    {"_power", "", {2, 0}, {0, 0.6931471805599453}, {{0, 0.6931471805599453}}, {{0, 0.6931471805599453}}},
    {"_maximum", "", {1, 1}, {1, 0}, {{1, 0}}, {{0.5, 0.5}}},
    {"_minimum", "", {1, 1}, {1, 0}, {{1, 0}}, {{0.5, 0.5}}},
};

SmallVector<AttrText, 2> attrsOf(StringRef text) {
  SmallVector<AttrText, 2> attrs;
  for (StringRef pair : split(text, ','))
    if (!pair.empty()) attrs.push_back({pair.split('=').first, pair.split('=').second});
  return attrs;
}

bool isClose(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= 1e-12 * std::abs(b);
}

TEST(Limits, RUN_02_SlopesBesideTwoPeers) {
  for (const Limit &limit : kLimits) {
    SCOPED_TRACE(std::string(limit.op) + " {" + limit.attrs + "} at " + std::to_string(*limit.at.begin()));
    OpHarness h;
    const Value one = h.variable({1}, std::vector<double>{1});
    std::vector<Value> at;
    for (double x : limit.at) at.push_back(h.variable({1}, std::vector<double>{x}));
    const std::vector<Value> slopes = h.gradients({h.apply(limit.op, at, attrsOf(limit.attrs))}, {one}, at);
    bool isMxnets = limit.mxnet.has_value(), isTorchs = limit.torch.has_value();
    for (size_t i = 0; i < at.size(); ++i) {
      const double expected = limit.slopes[i];
      expectClose(h.values(slopes[i]), {expected}, 1e-12);
      if (h.canDecompose(slopes[i])) expectClose(h.values(h.decomposed(slopes[i])), {expected}, 1e-12);
      isMxnets = isMxnets && isClose(expected, (*limit.mxnet)[i]);
      isTorchs = isTorchs && isClose(expected, (*limit.torch)[i]);
    }
    EXPECT_NE(isMxnets || isTorchs, limit.reason != nullptr);
  }
}

// First and second derivatives of the angle and the distance where operands are infinite, large, small or zero, as they
// are emitted and in simpler operators.
struct Far {
  const char *op;
  Pair at;
  Pair slopes;
  std::array<double, 3> second;  // toward the first twice, toward both, toward the second twice
};
const Far kFar[] = {
    {"_npi_arctan2", {0, 0}, {0, 0}, {0, 0, 0}},
    {"_npi_arctan2", {0, -1}, {-1, 0}, {0, -1, 0}},
    {"_npi_arctan2", {kInfinity, 1}, {0, 0}, {0, 0, 0}},
    {"_npi_arctan2", {1, -kInfinity}, {0, 0}, {0, 0, 0}},
    {"_npi_arctan2", {-kInfinity, kInfinity}, {0, 0}, {0, 0, 0}},
    {"_npi_arctan2", {3e200, 4e200}, {1.6e-201, -1.2e-201}, {0, 0, 0}},
    {"_npi_arctan2", {3e-100, 4e-100}, {1.6e99, -1.2e99}, {-3.84e198, -1.12e198, 3.84e198}},
    {"_npi_arctan2", {0, 1e-200}, {1e200, 0}, {0, -kInfinity, 0}},
    {"_npi_arctan2", {1e-200, 1}, {1, -1e-200}, {-2e-200, -1, 2e-200}},
    {"_npi_arctan2", {1e200, 1e-200}, {0, -1e-200}, {0, 0, 0}},
    {"_npi_arctan2", {kNan, 1}, {kNan, kNan}, {kNan, kNan, kNan}},
    {"_hypot", {0, 0}, {0, 0}, {0, 0, 0}},
    {"_hypot", {1, kInfinity}, {0, kNan}, {0, 0, 0}},
    {"_hypot", {3e200, 4e200}, {0.6, 0.8}, {1.28e-201, -9.6e-202, 7.2e-202}},
    {"_hypot", {3e-200, -4e-200}, {0.6, -0.8}, {1.28e199, 9.6e198, 7.2e198}},
    {"_hypot", {1e-200, 1}, {1e-200, 1}, {1, -1e-200, 0}},
};

TEST(Limits, RUN_02_A_17_AnglesAndDistancesFarOutAndNearZero) {
  for (const Far &far : kFar) {
    SCOPED_TRACE(std::string(far.op) + " at " + std::to_string(far.at[0]) + ", " + std::to_string(far.at[1]));
    OpHarness h;
    const Value one = h.variable({1}, std::vector<double>{1});
    const Value a = h.variable({1}, std::vector<double>{far.at[0]}),
                b = h.variable({1}, std::vector<double>{far.at[1]});
    const std::vector<Value> slopes = h.gradients({h.apply(far.op, {a, b}, {})}, {one}, {a, b});
    for (size_t i : {0, 1}) {
      expectClose(h.values(slopes[i]), {far.slopes[i]}, 1e-12);
      expectClose(h.values(h.decomposed(slopes[i])), {far.slopes[i]}, 1e-12);
      const std::vector<Value> second = h.gradients({slopes[i]}, {one}, {a, b});
      for (size_t k : {0, 1}) expectClose(h.values(second[k]), {far.second[i + k]}, 1e-12);
    }
  }
}

// The floor of the exact quotient, also where a / b rounds up to a whole number, in every form of the operator; the
// whole quotients are those of Python's fractions.
struct Quotient {
  double a, b, whole;
};
constexpr Quotient kQuotients[] = {
    {1, 0.1, 9},  {1, 0.2, 4},   {-1, -0.2, 4}, {0.5, 0.1, 4}, {1, -0.1, -10}, {-1, 0.1, -10},
    {6, 0.6, 10}, {0.7, 0.1, 6}, {3.5, 2, 1},   {-3.5, 2, -2}, {4, 2, 2},      {1e300, 1e-300, kInfinity},
};

TEST(Limits, RUN_02_WholeQuotientsOfRemainders) {
  for (const auto &[a, b, whole] : kQuotients) {
    SCOPED_TRACE(std::to_string(a) + " mod " + std::to_string(b));
    OpHarness h;
    const Value x = h.variable({1}, std::vector<double>{a}), y = h.variable({1}, std::vector<double>{b});
    const Value one = h.variable({1}, std::vector<double>{1});
    std::string number;
    raw_string_ostream os(number);
    printAttr(os, a);
    for (Value rest : {h.apply("_mod", {x, y}, {}), h.apply("broadcast_mod", {x, y}, {}),
                       h.apply("_rmod_scalar", {y}, {{"scalar", number}})}) {
      const Value slope = h.gradients({rest}, {one}, {y})[0];
      expectClose(h.values(slope), {-whole}, 0);
      expectClose(h.values(h.decomposed(slope)), {-whole}, 0);
    }
  }
}

}  // namespace
}  // namespace gradc
