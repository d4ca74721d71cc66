// Operators that draw: distributions, independence of nodes, steps and elements, gradients through the parameters,
// shapes, refusals. Draws are functions of the seed, the step and the node, so every number here is the same on each
// run.
#include "ir/tensor/random_stream.h"
#include "passes/lowering/lower_to.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/runs/exec_bench.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr size_t kCount = 40000;
const std::string kShape = "shape=(200,200), dtype=float64";

/// Draws of head `head` at the steps given, one after the other.
std::vector<double> draws(const Graph &graph, uint64_t step = 0, size_t head = 0, uint64_t seed = 3,
                          unsigned threads = 1, Backend backend = Backend::Auto) {
  Bench bench(graph);
  bench.options.seed = seed;
  bench.options.threads = threads;
  bench.options.backend = backend;
  cantFail(bench.prepare());
  cantFail(bench.executor->run(step));
  return valuesOf<double>(bench.executor->head(head));
}

double mean(ArrayRef<double> values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double covariance(ArrayRef<double> a, ArrayRef<double> b) {
  const double ofA = mean(a), ofB = mean(b);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - ofA) * (b[i] - ofB);
  return sum / static_cast<double>(a.size());
}

double correlation(ArrayRef<double> a, ArrayRef<double> b) {
  return covariance(a, b) / std::sqrt(covariance(a, a) * covariance(b, b));
}

double moment(ArrayRef<double> values, double around, int power) {
  std::vector<double> powers;
  for (double value : values) powers.push_back(std::pow(value - around, power));
  return mean(powers);
}

// Five standard deviations of what is estimated from so many draws.
const double kFive = 5 / std::sqrt(static_cast<double>(kCount));

void expectUniform(ArrayRef<double> values, double low, double high) {
  const double width = high - low;
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, low);
  EXPECT_LT(*largest, high);
  EXPECT_LT(*least, low + 0.001 * width);
  EXPECT_GT(*largest, high - 0.001 * width);
  EXPECT_NEAR(mean(values), (low + high) / 2, kFive * width / std::sqrt(12.0));
  EXPECT_NEAR(covariance(values, values), width * width / 12, kFive * width * width / std::sqrt(180.0));
  // Each of ten parts of the range has its share.
  std::vector<double> shares(10);
  for (double value : values) shares[std::min<size_t>(9, static_cast<size_t>((value - low) / width * 10))] += 1;
  for (double share : shares) EXPECT_NEAR(share / static_cast<double>(kCount), 0.1, kFive * 0.3);
}

void expectNormal(ArrayRef<double> values, double loc, double scale) {
  std::vector<double> z;
  for (double value : values) z.push_back((value - loc) / scale);
  EXPECT_NEAR(mean(z), 0, kFive);
  EXPECT_NEAR(moment(z, 0, 2), 1, kFive * std::sqrt(2.0));
  EXPECT_NEAR(moment(z, 0, 3), 0, kFive * std::sqrt(15.0));
  EXPECT_NEAR(moment(z, 0, 4), 3, kFive * std::sqrt(96.0));
  for (double bound : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0}) {
    const double below = static_cast<double>(std::count_if(z.begin(), z.end(), [&](double v) { return v < bound; }));
    EXPECT_NEAR(below / static_cast<double>(kCount), std::erfc(-bound / std::sqrt(2.0)) / 2, kFive / 2) << bound;
  }
  for (double value : z) ASSERT_LT(std::abs(value), 9);
}

TEST(Random, DistributionsByAttributes) {
  expectUniform(draws(TestGraph("y = _random_uniform() {" + kShape + "}")), 0, 1);
  expectUniform(draws(TestGraph("y = _random_uniform() {low=-3, high=5, " + kShape + "}")), -3, 5);
  expectNormal(draws(TestGraph("y = _random_normal() {" + kShape + "}")), 0, 1);
  expectNormal(draws(TestGraph("y = _random_normal() {loc=-2, scale=0.25, " + kShape + "}")), -2, 0.25);
}

TEST(Random, DistributionsLikeATensor) {
  expectUniform(draws(TestGraph("p = _zeros() {" + kShape + "}; y = _random_uniform_like(p) {low=2, high=2.5}")), 2,
                2.5);
  expectNormal(draws(TestGraph("p = _zeros() {" + kShape + "}; y = _random_normal_like(p) {loc=1, scale=3}")), 1, 3);
}

TEST(Random, DistributionsWithTensorsOfParameters) {
  const std::string parameters = "a = _constant() {dtype=float64, shape=(2,), values=(-1, 3)};"
                                 "b = _constant() {dtype=float64, shape=(2,), values=(0.5, 7)};";
  const std::vector<double> uniform = draws(TestGraph(parameters + "y = _sample_uniform(a, b) {" + kShape + "}"));
  const std::vector<double> normal = draws(TestGraph(parameters + "y = _sample_normal(a, b) {" + kShape + "}"));
  ASSERT_EQ(uniform.size(), 2 * kCount);
  expectUniform(ArrayRef(uniform).take_front(kCount), -1, 0.5);
  expectUniform(ArrayRef(uniform).take_back(kCount), 3, 7);
  expectNormal(ArrayRef(normal).take_front(kCount), -1, 0.5);
  expectNormal(ArrayRef(normal).take_back(kCount), 3, 7);
  EXPECT_NEAR(correlation(ArrayRef(normal).take_front(kCount), ArrayRef(normal).take_back(kCount)), 0, kFive);
}

TEST(Random, RUN_02_NodesStepsAndElementsAreIndependent) {
  for (const char *op : {"_random_uniform", "_random_normal"}) {
    SCOPED_TRACE(op);
    TestGraph g(std::string("a = ") + op + "() {" + kShape + "}; b = " + op + "() {" + kShape + "}; heads a, b");
    const std::vector<double> a = draws(g), b = draws(g, 0, 1), later = draws(g, 1), seeded = draws(g, 0, 0, 4);
    EXPECT_NE(a, b) << "equal nodes are two nodes";
    EXPECT_NEAR(correlation(a, b), 0, kFive);
    EXPECT_NEAR(correlation(a, later), 0, kFive);
    EXPECT_NEAR(correlation(a, seeded), 0, kFive);
    for (size_t lag : {1, 2, 3, 200})
      EXPECT_NEAR(correlation(ArrayRef(a).drop_back(lag), ArrayRef(a).drop_front(lag)), 0, kFive) << lag;
    std::vector<double> squares, next;
    for (size_t i = 0; i + 1 < a.size(); ++i) {
      squares.push_back(a[i] * a[i]);
      next.push_back(a[i + 1] * a[i + 1]);
    }
    EXPECT_NEAR(correlation(squares, next), 0, kFive);
  }
}

// The number of a node among those that draw is part of its key.
TEST(Random, RUN_02_NodesThatDrawNothingAreNotCounted) {
  const std::string normal = "n = _random_normal() {" + kShape + "}; ";
  auto behind = [&](const std::string &node) {
    const TestGraph graph("a = _zeros() {shape=(4,2,3), dtype=float64}; w = _zeros() {shape=(26,), dtype=float64};"
                          "h = _zeros() {shape=(2,2,2), dtype=float64}; b = " +
                          node + "; " + normal + "heads b, n");
    return draws(graph, 0, 1);
  };
  const std::vector<double> alone = draws(TestGraph(normal + "heads n"));
  EXPECT_EQ(behind("LeakyReLU(a) {act_type=leaky}"), alone);
  EXPECT_NE(behind("LeakyReLU(a) {act_type=rrelu}"), alone);
  EXPECT_EQ(behind("RNN(a, w, h) {mode=rnn_tanh, state_size=2, num_layers=2}"), alone);
  EXPECT_NE(behind("RNN(a, w, h) {mode=rnn_tanh, state_size=2, num_layers=2, p=0.5}"), alone);
}

TEST(Random, RUN_02_DrawsDoNotDependOnThreadsOrBackend) {
  TestGraph g("a = _random_uniform() {" + kShape + "}; b = _random_normal() {" + kShape +
              "};"
              "c = _random_normal_like(a); d = _sample_normal(a, b) {shape=(2,), dtype=float64}; heads a, b, c, d");
  for (size_t head = 0; head < 4; ++head) {
    const std::vector<double> one = draws(g, 5, head);
    for (unsigned threads : {2u, 3u, 8u}) EXPECT_EQ(draws(g, 5, head, 3, threads), one);
    EXPECT_EQ(draws(g, 5, head, 3, 1, Backend::Reference), one);
  }
}

TEST(Random, SinglePrecisionDrawsAreTheSameRounded) {
  for (const char *op : {"_random_uniform", "_random_normal"}) {
    TestGraph wide(std::string("y = ") + op + "() {shape=(500,), dtype=float64}"),
        narrow(std::string("y = ") + op + "() {shape=(500,)}");
    const std::vector<double> exact = draws(wide);
    Bench bench(narrow);
    bench.options.seed = 3;
    bench.inferOptions.floatAs = DType::Float32;
    cantFail(bench.prepare());
    cantFail(bench.executor->run(0));
    ASSERT_EQ(bench.executor->head(0).dtype, DType::Float32) << "unless a type is given";
    const std::vector<float> rounded = valuesOf<float>(bench.executor->head(0));
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(rounded[i], static_cast<float>(exact[i]));
  }
}

// The noise of the forward pass, seen through the parameters: dμ = Σ dy, dσ = Σ dy·z, and so on.
TEST(Random, REG_18_GradientsReadTheNoiseThatWasDrawn) {
  for (bool isNormal : {false, true}) {
    TestGraph g(std::string("y = ") + (isNormal ? "_sample_normal" : "_sample_uniform") +
                "(a, b) {shape=(3,), dtype=float64}");
    GradientRequest request = wrt(g, {"a", "b"});
    request.heads.push_back({g.at("y"), std::nullopt, "dy"});
    GradientOptions options;
    Graph graph = cantFail(buildGradient(g.context, g, request, options)).graph;
    const Bindings bindings = {{"a", testing::Array({2}, {-1, 0.5})},
                               {"b", testing::Array({2}, {2, 0})},
                               {"dy", testing::Array({2, 3}, {1, 2, -3, 4, 0.5, 1})}};
    Bindings unit = bindings;
    unit["a"] = testing::Array({2}, {0, 0});
    unit["b"] = testing::Array({2}, {1, 1});
    const std::vector<testing::Array> heads = evaluate(graph, bindings), noise = evaluate(graph, unit);
    for (size_t i = 0; i < 2; ++i) {
      double ofAll = 0, ofNoise = 0;
      for (size_t j = 0; j < 3; ++j) {
        const double dy = bindings.at("dy").values[3 * i + j], z = noise[0].values[3 * i + j];
        ofAll += dy;
        ofNoise += dy * z;
        const double a = bindings.at("a").values[i], b = bindings.at("b").values[i];
        EXPECT_DOUBLE_EQ(heads[0].values[3 * i + j], isNormal ? a + b * z : a + (b - a) * z);
      }
      EXPECT_NEAR(heads[1].values[i], isNormal ? ofAll : ofAll - ofNoise, 1e-14);
      EXPECT_NEAR(heads[2].values[i], ofNoise, 1e-14);
    }
  }
}

TEST(Random, A_14_MxnetKeepsTheNoise) {
  TestGraph g("y = _sample_normal(a, b) {shape=(3,)}");
  EXPECT_EQ(describeError(lowerTo(g.context, g, kMxnetTarget, nullptr).takeError()), "success");
  Graph gradients = cantFail(buildGradient(g.context, g, wrt(g, {"b"}), {})).graph;
  GradcError error = errorOf(lowerTo(g.context, gradients, kMxnetTarget, nullptr));
  EXPECT_EQ(error.message,
            "operator '_sample_normal' of node 'y' cannot be expressed in the operators of MXNet 1.9.1: it needs "
            "'_uniform_like'");
}

TEST(Random, INF_ShapesBothWays) {
  EXPECT_EQ(inferShapes("_sample_normal", {{"shape", "(4,5)"}}, "(2,3) ? -> ? ?"),
            "(2,3) (2,3) -> (2,3,4,5) (2,3,4,5)");
  EXPECT_EQ(inferShapes("_sample_normal", {{"shape", "(4,)"}}, "? ? -> (2,4) ?"), "(2,) (2,) -> (2,4) (2,4)");
  EXPECT_EQ(inferShapes("_sample_uniform", {}, "? (3,) -> ? ?"), "(3,) (3,) -> (3,) (3,)");
  EXPECT_EQ(inferShapes("_random_normal_like", {}, "(2,?) -> (?,3)"), "(2,3) -> (2,3)");
}

struct ShapeRefusal {
  StringRef op;
  std::vector<AttrText> attrs;
  StringRef shapes, message;
};

TEST(Random, INF_ShapesThatDoNotAgree) {
  // clang-format off
  const ShapeRefusal rows[] = {
      {"_sample_normal", {{"shape", "(4,)"}}, "(2,) (3,) -> ? ?", "input 0 has shape (2,), but input 1 has shape (3,)"},
      {"_sample_normal", {{"shape", "(4,)"}}, "(2,) ? -> (2,5) ?", "output 0 has shape (2,5), expected (2,4)"},
      {"_sample_uniform", {{"shape", "(2,3)"}}, "? ? -> (3,) ?",
       "output of shape (3,) has fewer axes than the draws of shape (2,3)"},
      {"_random_uniform", {{"shape", "(2,3)"}}, " -> (3,2)", "output 0 has shape (3,2), expected (2,3)"},
  };
  // clang-format on
  for (const ShapeRefusal &row : rows)
    EXPECT_EQ(inferShapes(row.op, row.attrs, row.shapes), row.message) << row.op.str();
}

struct AttrRefusal {
  StringRef op;
  std::vector<AttrText> attrs;
  StringRef message;
};

TEST(Random, E_41_AttributesOutOfRange) {
  const AttrRefusal rows[] = {
      {"_random_uniform", {{"low", "2"}, {"high", "1"}}, "low is 2 and high is 1, expected low to be at most high"},
      {"_random_uniform_like", {{"high", "-0.5"}}, "low is 0 and high is -0.5, expected low to be at most high"},
      {"_random_normal", {{"scale", "-1"}}, "scale is -1, expected a positive number"},
      {"_random_normal_like", {{"scale", "0"}}, "scale is 0, expected a positive number"},
      {"_random_normal", {{"dtype", "int32"}}, "attribute 'dtype' is int32, expected a floating type"},
      {"_sample_normal", {{"dtype", "bool"}}, "attribute 'dtype' is bool, expected a floating type"},
      {"_sample_uniform", {{"shape", "(2,-1)"}}, "'shape'"},
      {"_eye", {}, "'N'"},
      {"_eye", {{"N", "-1"}}, "'N'"},
      {"_eye", {{"N", "2"}, {"dtype", "None"}}, "attribute 'dtype' is \"None\", expected an element type"},
      {"_linspace", {{"start", "0"}, {"stop", "1"}}, "'num'"},
      {"_linspace", {{"start", "0"}, {"stop", "1"}, {"num", "-2"}}, "'num'"},
  };
  for (const AttrRefusal &row : rows) {
    TestContext context;
    const std::string text = describeError(context.kind(*context.ops.find(row.op), context.attrs(row.attrs)));
    EXPECT_NE(text.find(row.message), std::string::npos) << row.op.str() << ": " << text;
  }
}

TEST(Random, NumbersOfTheStreamAreThoseOfTheKey) {
  const RandomKey key{3, 1, 2};
  const RandomStream stream(key);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(stream.uniform(i), key.uniform(i));
}

}  // namespace
}  // namespace gradc
