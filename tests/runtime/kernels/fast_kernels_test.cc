// Fast kernels against the reference kernels: every operator of the table over its conformance samples and their
// gradients, whole stretches of channels-last layers, requests, in-place pairs, threads.
#include "runtime/kernels/table.h"

#include "ops/kit/primitives.h"
#include "passes/lowering/lower_to.h"
#include "runtime/kernels/convolution/gemm_convolution.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/matrix/gemm.h"
#include "tests/support/ops/cells.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Values = gradc::testing::Array;

Cells cells;
constexpr Cells::Floor kFloors[] = {{"RUN_02_AgreeWithReference", 400}};

class FastKernels : public ::testing::TestWithParam<Sample> {
 protected:
  static void TearDownTestSuite() { cells.print(tableSamples().size(), kFloors); }
};

TEST_P(FastKernels, RUN_02_AgreeWithReference) {
  TestContext context;
  SampleGraph sample(context, GetParam());
  const Ran ran = compareOrders(context, sample, GetParam().orders);
  cells.conclude({{}, ran.operators.size()}, "nothing of it has a fast kernel, or no element");
}

INSTANTIATE_TEST_SUITE_P(Samples, FastKernels, ::testing::ValuesIn(tableSamples()),
                         [](const ::testing::TestParamInfo<Sample> &info) {
                           return cellName(info.param.op, info.index);
                         });

// A block of a residual network: its middle can be channels-last, its ends cannot.
constexpr char kBlock[] = "c1 = Convolution(data, w1, b1) {kernel=(3,3), pad=(1,1), num_filter=16};"
                          "n1 = BatchNorm(c1, gamma1, beta1, mean1, var1) {fix_gamma=False};"
                          "r1 = Activation(n1) {act_type=relu};"
                          "c2 = Convolution(r1, w2) {kernel=(3,3), pad=(1,1), num_filter=16, no_bias=True};"
                          "n2 = BatchNorm(c2, gamma2, beta2, mean2, var2) {fix_gamma=True};"
                          "s = elemwise_add(n2, r1);"
                          "p = Pooling(s) {kernel=(2,2), stride=(2,2), pool_type=max};"
                          "k = Concat(p, p) {num_args=2, dim=1};"
                          "c3 = Convolution(k, w3, b3) {kernel=(1,1), stride=(2,2), num_filter=16};"
                          "a = Pooling(c3) {kernel=(2,2), pool_type=avg, global_pool=True};"
                          "f = FullyConnected(a, w4, b4) {num_hidden=5};"
                          "y = Activation(f) {act_type=tanh}; heads y";

struct Block {
  TestContext context;
  Graph graph = cantFail(parseGraph(context, kBlock));
  std::vector<std::string> variables = {"data",   "w1",    "b1", "gamma1", "beta1", "w2",
                                        "gamma2", "beta2", "w3", "b3",     "w4",    "b4"};
  Bindings bindings = drawBindings(graph, {{"data", DimsBuffer{3, 4, 8, 8}}});

  Graph gradient() {
    std::vector<Values> values = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads();
    for (size_t i = 0; i < values[0].values.size(); ++i) values[0].values[i] = drawNumber(1, i);
    bindings["p1_0"] = values[0];
    return cantFail(derivativeGraph(context, graph, variables, 1));
  }
};

TEST(FastKernels, RUN_02_ChannelsLastStretchAgreesWithReference) {
  Block block;
  const Graph gradient = block.gradient();
  NaiveOptions naive;
  naive.floatAs = DType::Float32;
  FastOptions options;
  options.run = naive;
  const FastResult found = runFast(gradient, block.bindings, options);
  EXPECT_GT(found.numChannelsLast, 15u);
  const NaiveRun expected = cantFail(NaiveRun::run(gradient, block.bindings, naive));
  EXPECT_EQ(difference(found.heads, expected, gradient, fastTolerance(DType::Float32)), "");
  EXPECT_GE(compareFast(gradient, block.bindings, NaiveOptions()).operators.size(), 12u);
}

TEST(FastKernels, RUN_02_InferenceFormAgreesWithReference) {
  Block block;
  NaiveOptions naive;
  naive.isTraining = false;
  compareFast(block.graph, block.bindings, naive);
  compareFast(block.gradient(), block.bindings, naive);
}

// Every gradient alone, so that each kernel is requested each subset of its outputs.
TEST(FastKernels, REQ_03_SubsetsOfGradientsAgree) {
  Block block;
  const Graph gradient = block.gradient();
  NaiveOptions naive;
  naive.floatAs = DType::Float32;
  const NaiveRun expected = cantFail(NaiveRun::run(gradient, block.bindings, naive));
  for (size_t head = 0; head < gradient.heads().size(); ++head) {
    FastOptions options;
    options.run = naive;
    options.requests.assign(gradient.heads().size(), Request::Null);
    options.requests[head] = Request::Write;
    FastResult found = runFast(gradient, block.bindings, options);
    // The others are not computed; theirs are taken as right.
    for (size_t other = 0; other < found.heads.size(); ++other)
      if (other != head) found.heads[other] = expected.value(gradient.heads()[other]);
    EXPECT_EQ(difference(found.heads, expected, gradient, fastTolerance(DType::Float32)), "") << head;
  }
}

TEST(FastKernels, RUN_02_EqualBitsInEveryRun) {
  Block block;
  const Graph gradient = block.gradient();
  for (unsigned threads : {1u, 2u, 3u}) {
    FastOptions options;
    options.threads = threads;
    options.run.floatAs = DType::Float32;
    const FastResult first = runFast(gradient, block.bindings, options);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const FastResult again = runFast(gradient, block.bindings, options);
      for (size_t h = 0; h < first.heads.size(); ++h) EXPECT_EQ(first.heads[h].values, again.heads[h].values);
    }
  }
}

// Normalisation, scaling by channel and functions of one element between two convolutions.
constexpr char kExcitation[] = "c = Convolution(data, w1) {kernel=(3,3), pad=(1,1), num_filter=32, no_bias=True};"
                               "n = LRN(c) {nsize=5, alpha=0.3};"
                               "t = clip(n) {a_min=-0.4, a_max=0.5};"
                               "m = mean(t) {axis=(2,3), keepdims=True};"
                               "g = sigmoid(m);"
                               "e = broadcast_mul(t, g);"
                               "b = broadcast_add(e, bias);"
                               "h = _div_scalar(b) {scalar=3};"
                               "p = _maximum(h, n);"
                               "y = Convolution(p, w2) {kernel=(1,1), num_filter=16, no_bias=True}; heads y";

TEST(FastKernels, RUN_02_ChannelsLastScalingAgreesWithReference) {
  TestContext context;
  const Graph graph = cantFail(parseGraph(context, kExcitation));
  Bindings bindings = drawBindings(graph, {{"data", DimsBuffer{3, 16, 9, 7}}, {"bias", DimsBuffer{1, 32, 1, 1}}});
  Values head = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads()[0];
  for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
  bindings["p1_0"] = head;
  std::vector<std::string> variables = {"data", "w1", "bias", "w2"};
  const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
  FastOptions options;
  options.run.floatAs = DType::Float32;
  const FastResult found = runFast(gradient, bindings, options);
  EXPECT_GT(found.numChannelsLast, 5u);
  EXPECT_TRUE(found.operators.contains("_backward_broadcast_mul"));
  compareFast(gradient, bindings, NaiveOptions());
}

// The mean of a block is not that of all: rows, rows in blocks that threads share, and images.
TEST(FastKernels, RUN_02_StatisticsOfDriftingDataAgreeWithReference) {
  TestGraph g("y = BatchNorm(x, gamma, beta, mean, var) {fix_gamma=False}; heads y, y:1, y:2");
  for (const DimsBuffer &dims : {DimsBuffer{700, 3}, {3000, 33}, {2, 3, 100, 70}, {2, 1, 300, 300}}) {
    Bindings bindings = drawBindings(g, {{"x", dims}});
    std::vector<double> &x = bindings["x"].values;
    for (size_t i = 0; i < x.size(); ++i) x[i] += 20 * static_cast<double>(i) / static_cast<double>(x.size());
    EXPECT_EQ(compareFast(g, bindings, NaiveOptions()).operators.count("BatchNorm"), 1u);
  }
}

// The temperature divides differences of scores: quotients of scores that are far from 0 round more, or are infinite.
// Along either axis, in the kernels and in the operators that they decompose to.
TEST(FastKernels, RUN_02_TemperaturesOfDistantScoresAgreeWithReference) {
  for (const char *op : {"softmax", "softmin", "log_softmax"})
    for (const char *axis : {"0", "1"}) {
      TestGraph g(std::string("y = ") + op + "(x) {temperature=0.3, axis=" + axis + "}; heads y");
      const Graph parts = cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr));
      NaiveOptions naive;
      naive.floatAs = DType::Float32;
      for (const double offset : {50000.0, -50000.0, 3e38}) {
        Bindings bindings = drawBindings(g, {{"x", DimsBuffer{7, 19}}});
        for (double &x : bindings["x"].values) x = static_cast<float>(x + offset);
        bindings["x"].values[30] = 0.9 * offset;
        EXPECT_EQ(compareFast(g, bindings, NaiveOptions()).operators.count(op), 1u);
        const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, naive));
        const std::vector<Values> found = cantFail(NaiveRun::run(parts, bindings, naive)).heads();
        EXPECT_EQ(difference(found, expected, g, fastTolerance(DType::Float32)), "") << op << ' ' << offset;
      }
    }
}

// Windows mostly of padding: neither oneDNN nor the loops skip what the reference kernel does not visit.
TEST(FastKernels, RUN_02_WindowsOfPaddingAreLeftToTheReference) {
  for (const char *type : {"max", "avg"}) {
    TestGraph g("y = Pooling(x) {kernel=(2147483647,2147483647), pad=(1073741823,1073741823), pool_type=" +
                std::string(type) + "}");
    EXPECT_TRUE(compareFast(g, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators.empty()) << type;
  }
  TestGraph wide("y = Pooling(x) {kernel=(2147483647,1), pad=(1073741823,0), pool_type=avg}");
  EXPECT_TRUE(compareFast(wide, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators.empty());
  TestGraph small("y = Pooling(x) {kernel=(3,3), pad=(1,1), pool_type=avg}");
  EXPECT_EQ(compareFast(small, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators,
            std::set<std::string>{"Pooling"});
}

TEST(FastKernels, RUN_02_ConditionsOfAnotherTypeAreLeftToTheReference) {
  TestGraph g("c = var {__dtype__=6}; y = where(c, a, b)");  // int64
  const Values c({5}, {1, 0, 2, 0, 3}), a({5}, {1, 2, 3, 4, 5}), b({5}, {6, 7, 8, 9, 10});
  compareFast(g, {{"c", c}, {"a", a}, {"b", b}}, NaiveOptions());
}

TEST(FastKernels, A_10_EveryRowOfTheTableIsExercised) {
  Ran ran;
  for (const Sample &row : tableSamples()) {
    TestContext context;
    SampleGraph sample(context, row);
    ran.add(compareOrders(context, sample, std::min(2u, row.orders)));
  }
  Block block;
  ran.add(compareFast(block.gradient(), block.bindings, NaiveOptions()));
  TestContext context;
  const Graph sums =
      cantFail(parseGraph(context, "s = add_n(a, b, c) {num_args=3}; g = _grad_add(s, a); k = _copy(g); heads k"));
  const DimsBuffer dims{70, 33};
  ran.add(compareFast(sums, drawBindings(sums, {{"a", dims}, {"b", dims}, {"c", dims}}), NaiveOptions()));
  const Graph hosts =
      cantFail(parseGraph(context, "a = _backward_linear_reg_out(l, x); b = _backward_logistic_reg_out(l, x);"
                                   " c = _backward_mae_reg_out(l, x); heads a, a:1, b, b:1, c, c:1"));
  const Graph softmax = cantFail(parseGraph(context, "d = _backward_SoftmaxOutput(y, l) {grad_scale=0.5}; heads d"));
  Bindings classes = drawBindings(softmax, {{"y", dims}});
  for (size_t i = 0; i < classes["l"].values.size(); ++i) classes["l"].values[i] = static_cast<double>(i % 35) - 1;
  ran.add(compareFast(softmax, classes, NaiveOptions()));
  ran.add(compareFast(hosts, drawBindings(hosts, {{"x", dims}}), NaiveOptions()));
  const Graph last = cantFail(parseGraph(context, "y = Convolution(a, b) {kernel=(1,1), num_filter=3, layout=NHWC,"
                                                  " no_bias=True}; heads y"));
  ran.add(compareFast(last, drawBindings(last, {{"a", DimsBuffer{1, 4, 5, 3}}}), NaiveOptions()));
  std::string missing;
  for (const OpDef *op : context.ops.all())
    if (findFastKernel(*op) && !ran.operators.contains(op->name.str())) missing += op->name.str() + " ";
  EXPECT_EQ(missing, "");
  for (size_t i = 0; i < listOnReference().size(); ++i)
    EXPECT_TRUE(ran.onReference.contains(i)) << "no node is like " << listOnReference()[i].pattern;
}

// NaN, infinities and blocks with numbers whose sine the loops leave to the library.
TEST(FastKernels, RUN_02_ExtremeNumbersAgreeWithReference) {
  TestGraph g(
      "s = sin(x); c = cos(x); e = exp(x); t = tanh(x); m = max(x) {axis=1}; n = min(x) {axis=0}; l = log(x);"
      " b = _backward_sin(v, x); g = sigmoid(x); p = nanprod(x) {axis=1};"
      " q = _backward_nanprod(u, x, w) {axis=1}; r = _backward_relu(v, x); heads s, c, e, t, m, n, l, b, g, p, q, r");
  Bindings bindings = drawBindings(g, {{"x", DimsBuffer{3, 700}}, {"v", DimsBuffer{3, 700}}});
  std::vector<double> &x = bindings["x"].values;
  for (size_t i : {5u, 1000u}) x[i] = i == 5 ? NAN : -NAN;
  x[1] = INFINITY, x[701] = -INFINITY, x[1500] = 3e38, x[1501] = -2e7, x[1502] = -0.0, x[1503] = 1e-44;
  for (DType type : {DType::Float32, DType::Float64})
    for (unsigned threads : {1u, 3u}) {
      FastOptions options;
      options.threads = threads;
      options.run.floatAs = type;
      const FastResult found = runFast(g, bindings, options);
      EXPECT_EQ(found.surprises, "");
      const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, options.run));
      for (size_t h = 0; h < found.heads.size(); ++h) {
        const std::vector<double> &wanted = expected.value(g.graph.heads()[h]).values;
        for (size_t i = 0; i < wanted.size(); ++i) {
          const double value = found.heads[h].values[i], want = wanted[i];
          const bool isSame = std::isnan(want) ? std::isnan(value) : value == want;
          EXPECT_TRUE(isSame || std::abs(value - want) <= 1e-6 * std::abs(want)) << h << ' ' << i << ": " << value;
        }
      }
    }
}

// The exponents that have loops of their own and some that have not, on numbers whose powers overflow, underflow or are
// defined by C alone. Signs of zeros count: 1 / y tells them apart.
TEST(FastKernels, RUN_02_PowersOfExtremeNumbers) {
  for (const char *scalar : {"-2", "-1", "-0.5", "0", "0.5", "1", "2", "3", "4", "1.5", "-3"}) {
    SCOPED_TRACE(scalar);
    const std::string attrs = std::string(" {scalar=") + scalar + "}";
    TestGraph g("y = _power_scalar(x)" + attrs + "; z = reciprocal(y); b = _backward_power_scalar(v, x)" + attrs +
                "; heads y, z, b");
    Bindings bindings;
    bindings["x"] =
        std::vector<double>{0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.3, -0.7, 3e-20, 2e20, 7e-39, 1e38};
    bindings["v"] = std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1};
    for (DType type : {DType::Float32, DType::Float64}) {
      FastOptions options;
      options.run.floatAs = type;
      const FastResult found = runFast(g, bindings, options);
      const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, options.run));
      const double unit = type == DType::Float32 ? 0x1p-23 : 0x1p-52, tiny = type == DType::Float32 ? 0x1p-148 : 0;
      for (size_t h = 0; h < found.heads.size(); ++h) {
        const std::vector<double> &wanted = expected.value(g.graph.heads()[h]).values;
        for (size_t i = 0; i < wanted.size(); ++i) {
          const double value = found.heads[h].values[i], want = wanted[i];
          const bool isSame = std::isnan(want) ? std::isnan(value) : value == want;
          EXPECT_TRUE(isSame || std::abs(value - want) <= 4 * unit * std::abs(want) + tiny)
              << h << ' ' << i << ": " << value << ", not " << want;
        }
      }
    }
  }
}

// Where relu is flat, nothing flows back, not even from infinity or NaN: what PyTorch's relu does.
TEST(FastKernels, RUN_02_ReluStopsInfinityAndNan) {
  TestGraph g("a = _backward_Activation(v, y) {act_type=relu}; b = _backward_relu(v, y); heads a, b");
  const std::vector<double> wanted = {0, 0, -INFINITY, 0, 3, 0};
  Bindings bindings;
  bindings["v"] = std::vector<double>{INFINITY, NAN, -INFINITY, 2, 3, -NAN};
  bindings["y"] = std::vector<double>{0, 0, 1, 0, 2, 0};
  const FastResult fast = runFast(g, bindings, FastOptions());
  EXPECT_EQ(fast.surprises, "");
  const NaiveRun reference = cantFail(NaiveRun::run(g, bindings, NaiveOptions()));
  for (size_t h : {0u, 1u}) {
    EXPECT_EQ(fast.heads[h].values, wanted);
    EXPECT_EQ(reference.value(g.graph.heads()[h]).values, wanted);
  }
}

// States too; with shares and one thread the bits are those of the reference kernels.
TEST(FastKernels, RUN_02_StepsOfOptimizersHaveTheBitsOfTheReference) {
  const std::pair<const char *, const char *> cases[] = {
      {"y = sgd_update(w, g) {lr=0.1, wd=0.01}; heads y", "sgd_update"},
      {"y = sgd_mom_update(w, g, s) {lr=0.1, momentum=0.9, clip_gradient=0.3}; t = _copy(s) ^y; heads y, t",
       "sgd_mom_update"},
      {"y = adam_update(w, g, s, u) {lr=0.1}; t = _copy(s) ^y; v = _copy(u) ^y; heads y, t, v", "adam_update"},
      {"y = _scheduled_adam_update(w, g, s, u, r) {}; t = _copy(s) ^y; heads y, t", "_scheduled_adam_update"},
      {"y = rmspropalex_update(w, g, n, s, q) {lr=0.1, clip_weights=0.5}; t = _copy(q) ^y; heads y, t",
       "rmspropalex_update"},
      {"y = ftrl_update(w, g, s, u) {lr=0.1, wd=0.01}; t = _copy(s) ^y; heads y, t", "ftrl_update"},
      {"y = mp_sgd_mom_update(w, g, s, q) {lr=0.1, momentum=0.9}; t = _copy(q) ^y; heads y, t", "mp_sgd_mom_update"}};
  for (const auto &[text, op] : cases) {
    SCOPED_TRACE(text);
    TestGraph g(text);
    Bindings bindings = drawBindings(g, {{"w", DimsBuffer{307, 211}}});
    for (double &variance : bindings["u"].values) variance = std::abs(variance);
    for (double &square : bindings["n"].values) square = 1 + std::abs(square);  // more than the square of the mean
    for (DType type : {DType::Float32, DType::Float64})
      for (unsigned threads : {1u, 2u, 3u}) {
        FastOptions options;
        options.threads = threads;
        options.run.floatAs = type;
        const FastResult found = runFast(g, bindings, options);
        EXPECT_EQ(found.surprises, "");
        EXPECT_TRUE(found.operators.contains(op));
        const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, options.run));
        for (size_t h = 0; h < found.heads.size(); ++h)
          EXPECT_EQ(found.heads[h].values, expected.value(g.graph.heads()[h]).values) << threads;
      }
  }
}

// Forward and gradient draw what the reference kernels draw.
TEST(FastKernels, RUN_02_DropoutBetweenRecurrentLayers) {
  TestContext context;
  const Graph graph = cantFail(parseGraph(
      context,
      "a = Dropout(x); y = RNN(a, w, h, c) {state_size=5, num_layers=3, mode=lstm, bidirectional=True, p=0.4}"));
  Bindings bindings = drawBindings(graph, {{"x", DimsBuffer{4, 3, 2}}});
  std::vector<Values> values = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads();
  for (size_t i = 0; i < values[0].values.size(); ++i) values[0].values[i] = drawNumber(1, i);
  bindings["p1_0"] = values[0];
  std::vector<std::string> variables = {"x", "w", "h", "c"};
  const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
  for (unsigned threads : {1u, 3u}) {
    EXPECT_TRUE(compareFast(graph, bindings, NaiveOptions(), threads).operators.contains("RNN"));
    EXPECT_TRUE(compareFast(gradient, bindings, NaiveOptions(), threads).operators.contains("_backward_RNN"));
  }
}

TEST(FastKernels, ParallelLoopCoversEveryElementOnce) {
  for (unsigned threads : {1u, 2u, 5u})
    for (int64_t size : {0, 1, 7, 1000, 5003}) {
      std::vector<int> visits(static_cast<size_t>(size), 0);
      parallelFor(threads, size, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(llvm::count(visits, 1), size) << threads;
    }
}

// oneDNN counts in int: windows that leave it are left to other kernels, which agree with the reference.
TEST(FastKernels, RUN_02_WindowsBeyondInt) {
  const std::string far = "kernel=(2, 1), stride=(2147483647, 1), pad=(2147483647, 0), dilate=(2147483647, 1)";
  for (const char *text : {"y = Convolution(x, w) {num_filter=16, no_bias=True, %s}",
                           "y = Deconvolution(x, w) {num_filter=16, adj=(7, 0), %s}"}) {
    std::string graph = text;
    graph.replace(graph.find("%s"), 2, far);
    TestGraph g(graph);
    Bindings bindings;
    bindings["x"] = Values({1, 16, 2, 3}, std::vector<double>(96));
    bindings["w"] = Values({16, 16, 2, 1}, std::vector<double>(512));
    for (const char *name : {"x", "w"})
      for (size_t i = 0; i < bindings[name].values.size(); ++i) bindings[name].values[i] = drawNumber(3, i);
    const std::set<std::string> operators = compareFast(g, bindings, NaiveOptions()).operators;
    EXPECT_EQ(operators.size(), 1u) << text;
  }
}

TEST(FastKernels, A_10_ProductsOfAnyExtentThatMemoryHolds) {
  const int64_t large = int64_t{1} << 31;
  ConvGeometry g;
  const int64_t in[] = {1, 1, large, 4}, out[] = {1, 1, 2 * large, 4};
  g.in = imageView(in, false);
  g.out = imageView(out, false);
  EXPECT_TRUE(GemmConvolution<float>(g).isPossible());
  EXPECT_TRUE(GemmConvolution<double>(g).isPossible());
  g.kernel[1] = int64_t{1} << 40;
  EXPECT_FALSE(GemmConvolution<float>(g).isPossible()) << "the matrix would have 2^74 elements";
}

}  // namespace
}  // namespace gradc
