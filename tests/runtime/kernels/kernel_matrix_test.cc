// Fast kernels over layers drawn at random: odd sizes up to 10^5 elements, strides, dilation, groups, odd thread
// counts. Every layer here is a sum of products of its operands, or moves them, forward and backward. So each value has
// a scale of its own: the same layer of the absolute values, which is the sum of its terms' sizes, however much of it
// cancels out.
#include "ops/registry.h"
#include "tests/support/drawn/dice.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Values = gradc::testing::Array;

/// In units of the rounding of float32 at the scale of a value of its own; products came within 4, repeated operands
/// within 7.
constexpr double kAllowed = 8;
constexpr unsigned kThreads[] = {1, 3, 7, 17};

struct Layer {
  std::string text;
  std::vector<std::pair<StringRef, DimsBuffer>> shapes;
  std::set<std::string> fast;  // operators that must run on a fast kernel
};

std::string tuple(ArrayRef<int64_t> values) {
  std::string text = "(";
  for (int64_t value : values) text += std::to_string(value) + ",";
  return text + ")";
}

constexpr int64_t kOdd[] = {5, 7, 9, 11, 13, 17, 19, 23, 31};

/// Lengths of a layer with windows, in each of `rank` directions.
struct Windows {
  DimsBuffer image, kernel, stride, dilate, pad;

  Windows(Dice &dice, size_t rank, bool dilates) {
    for (size_t i = 0; i < rank; ++i) {
      kernel.push_back(dice.one<int64_t>({1, 2, 3, 3, 5}));
      stride.push_back(1 + static_cast<int64_t>(dice.below(3)));
      dilate.push_back(dilates ? 1 + static_cast<int64_t>(dice.below(3)) : 1);
      pad.push_back(static_cast<int64_t>(dice.below(static_cast<size_t>(kernel[i]) / 2 + 1)));
      const int64_t extent = dilate[i] * (kernel[i] - 1) + 1;
      image.push_back(std::max(extent, rank == 3 ? dice.one<int64_t>({5, 7, 9}) : dice.one<int64_t>(kOdd)));
    }
  }

  std::string attrs() const { return "kernel=" + tuple(kernel) + ", stride=" + tuple(stride) + ", pad=" + tuple(pad); }
};

Layer drawConvolution(Dice &dice, bool isTransposed) {
  const size_t rank = dice.one<size_t>({1, 2, 2, 2, 3});
  const Windows windows(dice, rank, dice.chance(40));
  const int64_t groups = dice.one<int64_t>({1, 1, 1, 2, 3, 7});
  const int64_t channels = groups * (1 + static_cast<int64_t>(dice.below(groups == 1 ? 19 : 3)));
  const int64_t filters = groups * (1 + static_cast<int64_t>(dice.below(groups == 1 ? 23 : 3)));
  const bool hasBias = dice.chance(50);
  Layer layer;
  const std::string op = isTransposed ? "Deconvolution" : "Convolution";
  layer.text = formatv("y = {0}(a, w{1}) {{{2}, dilate={3}, num_filter={4}, num_group={5}, no_bias={6}}; heads y", op,
                       hasBias ? ", b" : "", windows.attrs(), tuple(windows.dilate), filters, groups,
                       hasBias ? "False" : "True");
  DimsBuffer data{1 + static_cast<int64_t>(dice.below(3)), channels};
  data.append(windows.image.begin(), windows.image.end());
  layer.shapes = {{"a", data}};
  layer.fast = {op, "_backward_" + op};
  return layer;
}

Layer drawPooling(Dice &dice) {
  const Windows windows(dice, 2, false);
  const bool isGlobal = dice.chance(15);
  const std::string attrs = isGlobal ? "global_pool=True, kernel=(1,1)" : windows.attrs();
  Layer layer;
  layer.text = formatv("y = Pooling(a) {{{0}, pool_type=avg, count_include_pad={1}}; heads y", attrs,
                       dice.chance(50) ? "True" : "False");
  layer.shapes = {{"a", DimsBuffer{2, dice.one<int64_t>({1, 3, 16, 17, 33}), windows.image[0], windows.image[1]}}};
  layer.fast = {"Pooling", "_backward_Pooling"};
  return layer;
}

Layer drawProduct(Dice &dice) {
  const int64_t m = dice.one<int64_t>({1, 3, 31, 129}), k = dice.one<int64_t>({1, 7, 65, 257}),
                n = dice.one<int64_t>({1, 5, 33, 101});
  const bool left = dice.chance(50), right = dice.chance(50);
  auto sides = [&](int64_t rows, int64_t columns, bool isTransposed) {
    return isTransposed ? DimsBuffer{columns, rows} : DimsBuffer{rows, columns};
  };
  const std::string attrs =
      formatv("transpose_a={0}, transpose_b={1}", left ? "True" : "False", right ? "True" : "False");
  switch (dice.below(3)) {
    case 0:
      return {"y = dot(a, b) {" + attrs + "}; heads y",
              {{"a", sides(m, k, left)}, {"b", sides(k, n, right)}},
              {"dot", "_backward_dot"}};
    case 1: {
      DimsBuffer a = sides(m, k, left), b = sides(k, n, right);
      const int64_t batch = dice.one<int64_t>({1, 3, 13});
      a.insert(a.begin(), batch);
      b.insert(b.begin(), batch);
      return {"y = batch_dot(a, b) {" + attrs + "}; heads y", {{"a", a}, {"b", b}}, {"batch_dot"}};
    }
    default:
      return {formatv("y = FullyConnected(a, w, b) {{num_hidden={0}, flatten={1}}; heads y", n,
                      dice.chance(50) ? "True" : "False"),
              {{"a", DimsBuffer{m, 3, k}}},
              {"FullyConnected", "_backward_FullyConnected"}};
  }
}

Layer drawRepeated(Dice &dice) {
  DimsBuffer large{dice.one<int64_t>({1, 3, 11}), dice.one<int64_t>({1, 17, 64}), dice.one<int64_t>({1, 13, 101})};
  DimsBuffer small = large;
  for (int64_t &length : small)
    if (dice.chance(50)) length = 1;
  const StringRef op = dice.one<StringRef>({"broadcast_add", "broadcast_mul"});
  return {("y = " + op + (dice.chance(50) ? "(a, b)" : "(b, a)") + "; heads y").str(),
          {{"a", large}, {"b", small}},
          {op.str(), "_backward_" + op.str()}};
}

Layer drawReduction(Dice &dice) {
  const DimsBuffer dims{dice.one<int64_t>({1, 3, 29}), dice.one<int64_t>({1, 31, 65}), dice.one<int64_t>({1, 7, 53})};
  const StringRef axes = dice.one<StringRef>({"()", "(0,)", "(1,)", "(2,)", "(0,2)", "(0,1)", "(1,2)"});
  const StringRef op = dice.one<StringRef>({"sum", "mean"});
  return {formatv("y = {0}(a) {{axis={1}, keepdims={2}}; heads y", op, axes, dice.chance(50) ? "True" : "False"),
          {{"a", dims}},
          {op.str(), "_backward_" + op.str()}};
}

using Draw = Layer (*)(Dice &);
struct Family {
  const char *name;
  Draw draw;
  int count;
};
constexpr Family kDrawn[] = {
    {"convolution", [](Dice &dice) { return drawConvolution(dice, false); }, 60},
    {"deconvolution", [](Dice &dice) { return drawConvolution(dice, true); }, 30},
    {"pooling", drawPooling, 40},
    {"product", drawProduct, 40},
    {"repeated", drawRepeated, 30},
    {"reduction", drawReduction, 30},
};

/// The largest distance from the values in double precision, in units of what float32 rounds at each value's own scale.
double worstError(const std::vector<Values> &found, const std::vector<Values> &expected,
                  const std::vector<Values> &scale) {
  double worst = 0;
  for (size_t h = 0; h < found.size(); ++h)
    for (size_t i = 0; i < found[h].values.size(); ++i) {
      const double error = std::abs(found[h].values[i] - expected[h].values[i]);
      const double unit = 0x1p-24 * scale[h].values[i] + 0x1p-149;
      if (!(error <= worst * unit)) worst = error / unit;
    }
  return worst;
}

Bindings absolute(Bindings bindings) {
  for (auto &[name, array] : bindings)
    for (double &value : array.values) value = std::abs(value);
  return bindings;
}

/// As float32 holds them, in which all the runs start.
Bindings rounded(Bindings bindings) {
  for (auto &[name, array] : bindings)
    for (double &value : array.values) value = static_cast<float>(value);
  return bindings;
}

class KernelMatrix : public ::testing::TestWithParam<Family> {};

/// The graph on fast kernels with several numbers of threads, against the reference kernels in double precision.
void compare(const Graph &graph, const Bindings &bindings, std::set<std::string> &operators, double &worst) {
  const std::vector<Values> expected = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads();
  const std::vector<Values> scale = cantFail(NaiveRun::run(graph, absolute(bindings), NaiveOptions())).heads();
  FastOptions options;
  options.run.floatAs = DType::Float32;
  for (unsigned threads : kThreads) {
    options.threads = threads;
    const FastResult found = runFast(graph, bindings, options);
    worst = std::max(worst, worstError(found.heads, expected, scale));
    EXPECT_LE(worst, kAllowed) << threads << " threads\n" << dump(graph);
    operators.insert(found.operators.begin(), found.operators.end());
  }
}

TEST_P(KernelMatrix, RUN_02_EveryValueAgreesAtItsOwnScale) {
  double worst = 0;
  for (int i = 0; i < GetParam().count; ++i) {
    Dice dice(static_cast<uint64_t>(i) * 977 + 5);
    const Layer layer = GetParam().draw(dice);
    SCOPED_TRACE(layer.text);
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, layer.text));
    Bindings bindings = rounded(drawBindings(graph, layer.shapes));
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings) variables.push_back(name);
    std::set<std::string> operators;
    compare(graph, bindings, operators, worst);
    Values head = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads()[0];
    for (size_t j = 0; j < head.values.size(); ++j) head.values[j] = static_cast<float>(drawNumber(1, j));
    bindings["p1_0"] = head;
    const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
    compare(gradient, bindings, operators, worst);
    for (const std::string &op : layer.fast) EXPECT_TRUE(operators.count(op)) << op << " ran on its reference kernel";
    if (HasFailure()) return;
  }
  RecordProperty("worst", formatv("{0}", worst).str());
}

INSTANTIATE_TEST_SUITE_P(Layers, KernelMatrix, ::testing::ValuesIn(kDrawn),
                         [](const ::testing::TestParamInfo<Family> &info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradc
