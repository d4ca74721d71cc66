// Infinities, NaN, poles and numbers so small that their squares are 0: values and gradients on both backends. Unless a
// line says otherwise, what is expected is the limit, which is what PyTorch 2.15 answers.
#include "tests/support/ops/fast_runs.h"
#include "tests/support/ops/op_harness.h"
#include "tests/support/ops/op_table.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Values = gradc::testing::Array;

constexpr double kInfinity = HUGE_VAL, kNan = NAN, kLowest = std::numeric_limits<float>::lowest();

// ---- windows of the maximum

// Windows of four: what is in them, their maximum, and which element gets the gradient. NaN takes no part, as in MXNet;
// of NaN alone the maximum (here NaN) is the lowest number of the type, and nothing gets the gradient, as in MXNet's
// float64.
struct Window {
  double elements[4], largest;
  int winner;
};
constexpr Window kWindows[] = {
    {{kNan, kNan, kNan, 1}, 1, 3},
    {{-kInfinity, -kInfinity, -kInfinity, -kInfinity}, -kInfinity, 0},
    {{kNan, -kInfinity, -kInfinity, kNan}, -kInfinity, 1},
    {{kLowest, -kInfinity, kNan, kLowest}, kLowest, 0},
    {{kNan, kNan, kNan, kNan}, kNan, -1},
    {{kInfinity, kNan, kInfinity, 5}, kInfinity, 0},
    {{2, 2, -3, kNan}, 2, 0},
};
constexpr size_t kCount = std::size(kWindows);

Graph gradientToward(Context &context, const Graph &graph, std::string variable) {
  std::vector<std::string> variables = {std::move(variable)};
  return cantFail(derivativeGraph(context, graph, variables, 1));
}

/// x with the windows side by side in every image and channel, the maxima, and the gradient of their sum.
struct Images {
  std::vector<double> x, y, dx;
  int64_t width = 2 * kCount;

  Images(int64_t batch, int64_t channels, bool isLast) {
    x.resize(static_cast<size_t>(batch * channels * 2 * width));
    dx.resize(x.size());
    y.resize(x.size() / 4);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (size_t w = 0; w < kCount; ++w) {
          const int64_t image = isLast ? n * 2 * width * channels + c : (n * channels + c) * 2 * width;
          const int64_t step = isLast ? channels : 1, column = static_cast<int64_t>(w);
          for (int64_t i = 0; i < 4; ++i) {
            const auto at = static_cast<size_t>(image + (i / 2 * width + 2 * column + i % 2) * step);
            x[at] = kWindows[w].elements[i];
            dx[at] = kWindows[w].winner == i ? 1 : 0;
          }
          const int64_t pooled = isLast ? n * width / 2 * channels + c : (n * channels + c) * width / 2;
          y[static_cast<size_t>(pooled + column * step)] = kWindows[w].largest;
        }
  }
};

/// y and its gradient on the reference kernels and on the fast ones, on one thread and several.
void checkMaximum(StringRef text, const Values &x, const Images &expected, DType type) {
  SCOPED_TRACE(text.str());
  TestContext context;
  const Graph graph = cantFail(parseGraph(context, text));
  const Graph gradient = gradientToward(context, graph, "x");
  std::vector<double> y = expected.y;
  for (double &v : y)
    if (std::isnan(v)) v = type == DType::Float64 ? std::numeric_limits<double>::lowest() : kLowest;
  FastOptions options;
  options.run.floatAs = type;
  Bindings bindings = {{"x", x}};
  Values head = cantFail(NaiveRun::run(graph, bindings, options.run)).heads()[0];
  expectClose(head.values, y, 0);
  for (unsigned threads : {1u, 3u}) {
    options.threads = threads;
    expectClose(runFast(graph, bindings, options).heads[0].values, y, 0);
  }
  head.values.assign(head.values.size(), 1);
  bindings["p1_0"] = head;
  expectClose(cantFail(NaiveRun::run(gradient, bindings, options.run)).heads()[0].values, expected.dx, 0);
  for (unsigned threads : {1u, 3u}) {
    options.threads = threads;
    const FastResult found = runFast(gradient, bindings, options);
    EXPECT_TRUE(found.operators.contains("_backward_Pooling"));
    expectClose(found.heads[0].values, expected.dx, 0);
  }
}

TEST(SpecialValues, RUN_02_MaximaOfInfinitiesAndNaN) {
  const int64_t width = 2 * kCount;
  for (DType type : {DType::Float32, DType::Float64}) {
    const Images first(3, 2, false);
    checkMaximum("y = Pooling(x) {kernel=(2,2), stride=(2,2), pool_type=max}; heads y", {{3, 2, 2, width}, first.x},
                 first, type);
  }
  const Images last(3, 2, true), volume(3, 1, false);
  checkMaximum("y = Pooling(x) {kernel=(2,2), stride=(2,2), pool_type=max, layout=NHWC}; heads y",
               {{3, 2, width, 2}, last.x}, last, DType::Float32);
  checkMaximum("y = Pooling(x) {kernel=(1,2,2), stride=(1,2,2), pool_type=max}; heads y",
               {{3, 1, 1, 2, width}, volume.x}, volume, DType::Float32);
}

// Windows that begin in the padding, and a network whose pooling is channels-last.
TEST(SpecialValues, RUN_02_MaximaOfMaskedImagesAgree) {
  for (StringRef text :
       {"c = Convolution(x, w) {kernel=(1,1), num_filter=16, no_bias=True}; m = broadcast_add(c, mask);"
        "p = Pooling(m) {kernel=(3,3), stride=(2,2), pad=(1,1), pool_type=max}; y = sigmoid(p); heads y",
        "m = broadcast_add(x, mask);"
        "p = Pooling(m) {kernel=(3,3), stride=(1,1), pad=(1,1), pool_type=max}; y = sigmoid(p); heads y"}) {
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, text));
    Bindings bindings = drawBindings(graph, {{"x", DimsBuffer{2, 16, 7, 9}}, {"mask", DimsBuffer{1, 1, 7, 9}}});
    for (size_t i = 0; i < 63; ++i) bindings["mask"].values[i] = i < 40 ? -kInfinity : 0;
    NaiveOptions naive;
    naive.floatAs = DType::Float32;
    Values head = cantFail(NaiveRun::run(graph, bindings, naive)).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    const Graph gradient = gradientToward(context, graph, "x");
    const NaiveRun expected = cantFail(NaiveRun::run(gradient, bindings, naive));
    FastOptions options;
    options.run = naive;
    const FastResult found = runFast(gradient, bindings, options);
    EXPECT_EQ(difference(found.heads, expected, gradient, fastTolerance(DType::Float32)), "");
  }
}

// ---- powers, quotients, ψ

// 0^b is 0 for every positive b, and a^0 is 1 for every a: no slope, neither once nor twice. In MXNet these are NaN.
TEST(SpecialValues, HO_01_PowersOfZero) {
  for (StringRef op : {"_power", "broadcast_power"}) {
    OpHarness h;
    const Value a = h.variable({5}, std::vector<double>{0, 0, 0, 0, 2});
    const Value b = h.variable({5}, std::vector<double>{2, 3, 0, 0.5, 0});
    const Value y = h.apply(op, {a, b}, {});
    const std::vector<Value> first = h.gradients(y, h.variable({5}, std::vector<double>(5, 1)), {a, b});
    expectClose(h.values(y), {0, 0, 1, 0, 1}, 0);
    expectClose(h.values(first[0]), {0, 0, 0, kInfinity, 0}, 0);
    expectClose(h.values(first[1]), {0, 0, 0, 0, std::log(2)}, 1e-15);
    const std::vector<Value> second = h.gradients(first[1], h.variable({5}, std::vector<double>(5, 1)), {a, b});
    const std::vector<double> towardBoth = h.values(second[0]), twice = h.values(second[1]);
    expectClose(ArrayRef(towardBoth).take_front(2), {0, 0}, 0);
    expectClose(ArrayRef(twice).take_front(3), {0, 0, 0}, 0);
    // At b = 0 the slope toward b changes with a: ln a.
    EXPECT_DOUBLE_EQ(towardBoth[4], 0.5);
    EXPECT_DOUBLE_EQ(twice[4], std::log(2) * std::log(2));
  }
}

// Three derivatives of functions whose slopes are negative powers or roots.
struct Limits {
  const char *op;
  double x, derivatives[3];
  const char *scalar = nullptr;
};
constexpr Limits kLimits[] = {
    {"reciprocal", 0, {-kInfinity, kInfinity, -kInfinity}},
    {"reciprocal", -0.0, {-kInfinity, -kInfinity, -kInfinity}},
    {"reciprocal", kInfinity, {0, 0, 0}},
    {"reciprocal", 1e-200, {-kInfinity, kInfinity, -kInfinity}},
    {"_rdiv_scalar", 0, {-kInfinity, kInfinity, -kInfinity}, "0.5"},
    {"_rdiv_scalar", 0, {kInfinity, -kInfinity, kInfinity}, "-0.5"},
    {"_rdiv_scalar", -kInfinity, {0, 0, 0}, "0.5"},
    {"_rdiv_scalar", 1e-160, {-1e120, 2e280, -kInfinity}, "1e-200"},
    {"sqrt", 0, {kInfinity, -kInfinity, kInfinity}},
    {"sqrt", kInfinity, {0, 0, 0}},
    {"rsqrt", 0, {-kInfinity, kInfinity, -kInfinity}},
    {"rsqrt", kInfinity, {0, 0, 0}},
    {"cbrt", 0, {kInfinity, -kInfinity, kInfinity}},
    {"cbrt", -kInfinity, {0, 0, 0}},
    {"rcbrt", 0, {-kInfinity, kInfinity, -kInfinity}},
    {"rcbrt", kInfinity, {0, 0, 0}},
    {"softsign", 0, {1, 0, 0}},
    {"softsign", kInfinity, {0, 0, 0}},
    {"softsign", -kInfinity, {0, 0, 0}},
    {"arccosh", 1, {kInfinity, -kInfinity, kInfinity}},
    {"arccosh", kInfinity, {0, 0, 0}},
    {"arccosh", 1e200, {1e-200, 0, 0}},
    {"arcsin", 1, {kInfinity, kInfinity, kInfinity}},
    {"arctanh", -1, {kInfinity, -kInfinity, kInfinity}},
    {"log", 0, {kInfinity, -kInfinity, kInfinity}},
    {"log1p", kInfinity, {0, 0, 0}},
};

TEST(SpecialValues, HO_01_NegativePowersAtZeroAndInfinity) {
  for (const Limits &limits : kLimits) {
    SCOPED_TRACE(std::string(limits.op) + " at " + std::to_string(limits.x));
    OpHarness h;
    const Value x = h.variable({1}, std::vector<double>{limits.x});
    SmallVector<AttrText, 1> attrs;
    if (limits.scalar) attrs.push_back({"scalar", limits.scalar});
    Value slope = h.apply(limits.op, {x}, attrs);
    for (double expected : limits.derivatives) {
      slope = h.gradients({slope}, {h.variable({1}, std::vector<double>{1})}, {x})[0];
      expectClose(h.values(slope), {expected}, 1e-12);
      if (h.canDecompose(slope)) expectClose(h.values(h.decomposed(slope)), {expected}, 1e-12);
    }
  }
}

// The kink has the subgradient 0, as that of norm has. In MXNet and PyTorch it is NaN.
TEST(SpecialValues, RUN_02_HypotAtTheOrigin) {
  for (StringRef op : {"_hypot", "broadcast_hypot"}) {
    OpHarness h;
    const Value a = h.variable({3}, std::vector<double>{0, 3, 0}), b = h.variable({3}, std::vector<double>{0, 4, -2});
    const std::vector<Value> slopes =
        h.gradients({h.apply(op, {a, b}, {})}, {h.variable({3}, std::vector<double>(3, 1))}, {a, b});
    for (bool isDecomposed : {false, true}) {
      const Value left = isDecomposed ? h.decomposed(slopes[0]) : slopes[0];
      const Value right = isDecomposed ? h.decomposed(slopes[1]) : slopes[1];
      expectClose(h.values(left), {0, 0.6, 0}, 1e-15);
      expectClose(h.values(right), {0, 0.8, -1}, 1e-15);
    }
  }
}

// What has no derivative there by definition does not move.
TEST(SpecialValues, RUN_03_PiecesOfTheOriginAreFlat) {
  OpHarness h;
  const Value a = h.variable({1}, std::vector<double>{3}), b = h.variable({1}, std::vector<double>{4});
  const Value zero = h.variable({1}, std::vector<double>{0});
  for (StringRef op : {"_hypot", "broadcast_hypot", "_npi_arctan2"})
    expectClose(h.pieceValues(h.apply(op, {a, b}, {}), {zero, zero}), {0}, 0);
}

// The divisor's square is 0 in float64 as well.
TEST(SpecialValues, RUN_02_QuotientsByTinyNumbers) {
  for (StringRef op : {"elemwise_div", "broadcast_div"})
    for (bool isFast : {false, true}) {
      TestGraph g("y = " + op.str() + "(a, b); heads y");
      const Graph gradient = gradientToward(g.context, g, "b");
      const Bindings bindings = {{"a", Values({3}, {0, 3e-200, -1})},
                                 {"b", Values({3}, {1e-200, 1e-200, 2})},
                                 {"p1_0", Values({3}, {0.5, 2, 1})}};
      FastOptions options;
      const std::vector<Values> heads = isFast ? runFast(gradient, bindings, options).heads
                                               : cantFail(NaiveRun::run(gradient, bindings, options.run)).heads();
      expectClose(heads[0].values, {0, -6e200, 0.25}, 1e-15);
    }
}

// Python saves `x * float('nan')` as scalar=nan. Values as in MXNet 1.9.1.
TEST(SpecialValues, REG_19_ScalarsOfNan) {
  TestGraph g(
      "a = _mul_scalar(x) {scalar=nan}; b = _maximum_scalar(x) {scalar=nan}; c = _minimum_scalar(x) {scalar=NaN};"
      "d = _equal_scalar(x) {scalar=nan}; e = _not_equal_scalar(x) {scalar=nan}; f = _full {shape=(2,), value=-nan};"
      "heads a, b, c, d, e, f");
  const Bindings bindings = {{"x", Values({2}, {1, -2})}};
  const double expected[] = {kNan, kNan, kNan, 0, 1, kNan};
  FastOptions options;
  const std::vector<Values> plain = evaluate(g, bindings), fast = runFast(g, bindings, options).heads;
  for (size_t h = 0; h < 6; ++h) {
    expectClose(plain[h].values, {expected[h], expected[h]}, 0);
    expectClose(fast[h].values, {expected[h], expected[h]}, 0);
  }
}

// MXNet reads NaN for every number. Here it is outside every range that is stated, and where None is a value neither
// reads it.
TEST(SpecialValues, REG_19_AttributesOfNan) {
  TestGraph g(
      "a = LeakyReLU(x) {act_type=leaky, slope=nan}; b = Pad(i) {mode=constant, constant_value=nan, "
      "pad_width=(0,0,0,0,1,0,0,0)}; c = _contrib_quadratic(x) {a=0, b=nan, c=1}; d = hard_sigmoid(x) {alpha=nan}; "
      "heads a, b, c, d");
  const std::vector<Values> found = evaluate(g, {{"x", Values({2}, {1, -2})}, {"i", Values({1, 1, 1, 1}, {3})}});
  expectClose(found[0].values, {1, kNan}, 0);
  expectClose(found[1].values, {kNan, 3}, 0);
  for (size_t h : {2, 3}) expectClose(found[h].values, {kNan, kNan}, 0);
  struct Refused {
    const char *op, *key, *message;
  };
  for (auto [op, key, message] : {
           Refused{"Dropout", "p", "attribute 'p' is \"nan\", expected float from 0 to 1"},
           Refused{"LayerNorm", "eps", "attribute 'eps' is \"nan\", expected float from 0"},
           Refused{"softmax", "temperature", "attribute 'temperature' is \"nan\", expected float or None"},
           Refused{"_random_normal", "scale", "scale is nan, expected a positive number"},
           Refused{"_random_uniform", "low", "low is nan and high is 1, expected low to be at most high"},
           Refused{"_arange", "start", "attributes 'start', 'stop' and 'step' describe an empty range"},
       })
    EXPECT_EQ(
        describeError(g.context.kind(*g.context.ops.find(op), g.context.attrs({AttrText{key, "nan"}})).takeError()),
        "[bad_attribute] " + std::string(message));
}

// Integers begin and go on without fractions, as in MXNet.
TEST(SpecialValues, RUN_02_WholeRangesLikeATensor) {
  TestGraph g("i = Cast(x) {dtype=int32}; y = _contrib_arange_like(i) {start=-1.7, step=1.9, repeat=2};"
              "z = _contrib_arange_like(x) {start=1.5, step=-1.5, repeat=2}; heads y, z");
  const std::vector<Values> found = evaluate(g, {{"x", Values({5}, {0, 0, 0, 0, 0})}});
  expectClose(found[0].values, {-1, -1, 0, 0, 1}, 0);
  expectClose(found[1].values, {1.5, 1.5, 0, 0, -1.5}, 0);
}

// NaN comes last in either direction, and 0 and -0 are equal: they keep their order.
TEST(SpecialValues, RUN_02_OrderOfSpecialValues) {
  const std::vector<double> x = {kNan, 0, 2, -kInfinity, -0.0, kInfinity, -1, kNan};
  for (bool isAscending : {true, false})
    for (DType type : {DType::Float32, DType::Float64}) {
      TestGraph g("y = argsort(x) {is_ascend=" + std::string(isAscending ? "True" : "False") + "}; heads y");
      FastOptions options;
      options.run.floatAs = type;
      const FastResult found = runFast(g, {{"x", Values({8}, x)}}, options);
      EXPECT_TRUE(found.operators.contains("argsort"));
      expectClose(
          found.heads[0].values,
          isAscending ? std::vector<double>{3, 6, 1, 4, 2, 5, 0, 7} : std::vector<double>{5, 2, 1, 4, 6, 3, 0, 7}, 0);
    }
}

// Rows without a class contribute nothing, to the loss and to the gradient.
TEST(SpecialValues, RUN_02_LabelsOutOfRange) {
  TestGraph g("y = softmax_cross_entropy(x, l); heads y");
  const Graph gradient = gradientToward(g.context, g, "x");
  const Bindings bindings = {{"x", Values({4, 2}, {0, 0, 1, 2, 3, -4, 5, 6})},
                             {"l", Values({4}, {1, 2, -1, kNan})},
                             {"p1_0", Values({1}, {2})}};
  for (const Graph *graph : {static_cast<const Graph *>(&g.graph), &gradient}) {
    const FastResult found = runFast(*graph, bindings, FastOptions());
    EXPECT_EQ(found.surprises, "");
    const bool isLoss = graph == &g.graph;
    expectClose(found.heads[0].values,
                isLoss ? std::vector<double>{std::log(2)} : std::vector<double>{1, -1, 0, 0, 0, 0, 0, 0}, 1e-15);
  }
}

// Their squares are infinite, or 0.
TEST(SpecialValues, RUN_02_NormsBeyondTheirSquares) {
  TestGraph g("y = norm(x) {axis=1}; heads y");
  const Values x({3, 2}, {3e200, 4e200, 3e-200, -4e-200, 0, 0});
  const FastResult found = runFast(g, {{"x", x}}, FastOptions());
  EXPECT_TRUE(found.operators.contains("norm"));
  expectClose(found.heads[0].values, {5e200, 5e-200, 0}, 1e-15);
}

// Left of a pole ψ⁽ⁿ⁾ is (−1)ⁿ⁺¹·n!/xⁿ⁺¹ as nearly as the numbers tell, x the distance. At a pole of odd n, and at
// zeros, whose sign says from where, there is a limit.
TEST(SpecialValues, RUN_02_PolygammaAtItsPoles) {
  OpHarness h;
  auto at = [&](const char *order, std::vector<double> x) {
    const auto count = static_cast<int64_t>(x.size());
    return h.values(h.apply("_polygamma", h.variable({count}, std::move(x)), {{"order", order}}));
  };
  const double step = std::ldexp(1, -40);
  expectClose(at("0", {-1e-20}), {1e20}, 1e-15);
  expectClose(at("0", {1e-20}), {-1e20}, 1e-15);
  expectClose(at("0", {-3 - step, -3 + step}), {1 / step, -1 / step}, 1e-10);
  expectClose(at("1", {-1e-20, -3 - step, -3 + step}), {1e40, 1 / (step * step), 1 / (step * step)}, 1e-12);
  expectClose(at("0", {0.0, -0.0, -1, -kInfinity, 1e-320, -1e-320}),
              {-kInfinity, kInfinity, kNan, kNan, -kInfinity, kInfinity}, 0);
  expectClose(at("1", {0.0, -0.0, -1, -7, -kInfinity}), {kInfinity, kInfinity, kInfinity, kInfinity, kNan}, 0);
  expectClose(at("2", {0.0, -0.0, -1}), {-kInfinity, kInfinity, kNan}, 0);
}

}  // namespace
}  // namespace gradc
