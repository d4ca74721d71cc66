// The fast kernels of RNN: every kind of cell in parts of the batch, with what the forward kernel keeps and without,
// and what they consist of.
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"
#include "runtime/kernels/elementwise/float_functions.h"
#include "runtime/kernels/matrix/prepared_product.h"
#include "tests/support/ops/derivative.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <bit>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

struct Layers {
  const char *inputs, *attrs;
  DimsBuffer data;
};

// Batches that threads divide evenly, unevenly and not at all; rows of elements that vectors do not divide.
const Layers kLayers[] = {
    {"x, w, h, c", "state_size=37, num_layers=2, mode=lstm", {5, 13, 9}},
    {"x, w, h, c", "state_size=48, num_layers=3, mode=lstm, bidirectional=True, state_outputs=True", {3, 8, 48}},
    {"x, w, h, c", "state_size=50, num_layers=2, mode=lstm, projection_size=33, state_outputs=True", {3, 12, 5}},
    {"x, w, h, c",
     "state_size=43, num_layers=1, mode=lstm, lstm_state_clip_min=-0.1, lstm_state_clip_max=0.2",
     {3, 9, 4}},
    {"x, w, h, c", "state_size=40, num_layers=2, mode=lstm, p=0.4", {4, 12, 6}},
    {"x, w, h, c", "state_size=3, num_layers=1, mode=lstm", {1, 1, 1}},
    {"x, w, h", "state_size=43, num_layers=2, mode=gru, state_outputs=True", {4, 13, 9}},
    {"x, w, h", "state_size=53, num_layers=2, mode=gru, bidirectional=True, p=0.3", {3, 8, 5}},
    {"x, w, h", "state_size=72, num_layers=2, mode=rnn_tanh", {6, 13, 72}},
    {"x, w, h", "state_size=90, num_layers=2, mode=rnn_relu, bidirectional=True", {2, 9, 7}},
    {"x, w, h", "state_size=5, num_layers=1, mode=rnn_relu", {1, 3, 4}},
    {"x, w, h, c", "state_size=128, num_layers=2, mode=lstm", {3, 5, 5}},  // rows of gates that are padded
    {"x, w, h", "state_size=256, num_layers=1, mode=gru", {2, 5, 3}},
    {"x, w, h, c, n", "state_size=37, num_layers=2, mode=lstm, use_sequence_length=True", {5, 13, 9}},
    {"x, w, h, c, n",
     "state_size=48, num_layers=2, mode=lstm, use_sequence_length=True, bidirectional=True, projection_size=33,"
     " state_outputs=True",
     {4, 12, 8}},
    {"x, w, h, n",
     "state_size=43, num_layers=2, mode=gru, use_sequence_length=True, bidirectional=True, state_outputs=True",
     {4, 13, 9}},
    {"x, w, h, n", "state_size=72, num_layers=1, mode=rnn_tanh, use_sequence_length=True", {6, 13, 72}},
};

/// Gradients of a sum over squares, which make the forward node run, too.
struct Training {
  TestContext context;
  std::optional<Graph> graph;
  Bindings bindings;

  explicit Training(const Layers &layers) {
    const Graph forward = cantFail(parseGraph(context, textOf(layers)));
    bindings = drawBindings(forward, {{"x", layers.data}});
    for (double &weight : bindings["w"].values) weight *= 0.2;  // that gradients neither vanish nor explode
    if (bindings.contains("n")) endSequences(layers.data);
    bindings["p1_0"] = cantFail(NaiveRun::run(forward, bindings, NaiveOptions())).heads()[0];
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings)
      if (name != "p1_0" && name != "n") variables.push_back(name);
    graph = cantFail(derivativeGraph(context, forward, variables, 1));
  }

  // Sequences of no steps, of all and of more than there are; the data beyond their ends must not be read.
  void endSequences(const DimsBuffer &data) {
    const auto time = static_cast<size_t>(data[0]), batch = static_cast<size_t>(data[1]);
    const auto width = static_cast<std::ptrdiff_t>(data[2]);
    for (size_t n = 0; n < batch; ++n) {
      const size_t length = n % (time + 2);
      bindings["n"].values[n] = static_cast<double>(length);
      for (size_t t = length; t < time; ++t)
        std::fill_n(bindings["x"].values.begin() + static_cast<std::ptrdiff_t>(t * batch + n) * width, width, NAN);
    }
  }

  static std::string textOf(const Layers &layers) {
    const std::string node = "y = RNN(" + std::string(layers.inputs) + ") {" + layers.attrs + "}; q = square(y); ";
    if (!StringRef(layers.attrs).contains("state_outputs")) return node + "l = sum(q); heads l";
    return node + "r = square(y:1); s = sum(q); t = sum(r); l = elemwise_add(s, t); heads l";
  }
};

TEST(RnnKernels, RUN_02_GradientsWithATapeAndWithout) {
  for (const Layers &layers : kLayers) {
    SCOPED_TRACE(layers.attrs);
    const Training training(layers);
    for (DType type : {DType::Float64, DType::Float32}) {
      NaiveOptions naive;
      naive.floatAs = type;
      const NaiveRun expected = cantFail(NaiveRun::run(*training.graph, training.bindings, naive));
      for (unsigned threads : {1u, 2u, 3u})
        for (bool keepsTapes : {true, false}) {
          FastOptions options;
          options.run = naive;
          options.threads = threads;
          options.keepsTapes = keepsTapes;
          const FastResult found = runFast(*training.graph, training.bindings, options);
          EXPECT_EQ(difference(found.heads, expected, *training.graph, fastTolerance(type)), "") << threads;
          EXPECT_EQ(found.numTapes, keepsTapes ? 1u : 0u);
          EXPECT_TRUE(found.operators.contains(training.bindings.contains("n") ? "_RNN_grad" : "_backward_RNN"));
          const FastResult again = runFast(*training.graph, training.bindings, options);
          for (size_t h = 0; h < found.heads.size(); ++h) EXPECT_EQ(found.heads[h].values, again.heads[h].values);
        }
    }
  }
}

// The first gradient node of the same operands reads the tape; others run the layers again.
TEST(RnnKernels, RUN_02_TapesAreOfTheSameOperands) {
  const std::string attrs = "{state_size=5, num_layers=1, mode=gru}";
  const std::string forward = "y = RNN(x, w, h) " + attrs + "; ";
  const std::tuple<std::string, std::string, size_t> cases[] = {
      {"d = _backward_RNN(x, w, h, y, v) " + attrs + " ^y; heads y, d, d:1", "", 1},
      {"d = _backward_RNN(x, w, h, y, v) " + attrs + "; heads y, d, d:1", "depends on no forward node", 0},
      {"d = _backward_RNN(z, w, h, y, v) " + attrs + " ^y; heads y, d, d:1", "other data", 0},
      {"d = _backward_RNN(x, u, h, y, v) " + attrs + " ^y; heads y, d, d:1", "other parameters", 0},
      {"d = _backward_RNN(x, w, i, y, v) " + attrs + " ^y; heads y, d, d:1", "another state", 0},
      {"d = _backward_RNN(x, w, h, y, v) " + attrs +
           " ^y; e = _backward_RNN(x, w, h, y, d) {state_size=5, num_layers=1,"
           " mode=gru} ^y; heads y, d, e, e:1",
       "the second one of two", 1},
      {"d = _backward_RNN(x, w, h, y, v) " + attrs + " ^y; heads d, d:1", "nobody wants the forward node", 0},
  };
  for (const auto &[backward, why, numTapes] : cases) {
    TestGraph g(forward + backward);
    std::vector<std::pair<StringRef, DimsBuffer>> shapes;
    for (uint32_t n = 0; n < g.graph.numNodes(); ++n) {
      const StringRef name = g.graph.name(NodeId(n));
      if (StringRef("xzv").contains(name)) shapes.push_back({name, DimsBuffer{3, 4, 5}});
      if (StringRef("wu").contains(name)) shapes.push_back({name, DimsBuffer{180}});
      if (StringRef("hi").contains(name)) shapes.push_back({name, DimsBuffer{1, 4, 5}});
    }
    const Bindings bindings = drawBindings(g, shapes);
    FastOptions options;
    const FastResult found = runFast(g, bindings, options);
    EXPECT_EQ(found.numTapes, numTapes) << why;
    const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, options.run));
    EXPECT_EQ(difference(found.heads, expected, g, fastTolerance(DType::Float64)), "") << why;
  }
}

TEST(RnnKernels, RUN_02_TapesAreOfTheSameLengths) {
  const std::string attrs = "{state_size=5, num_layers=1, mode=gru, use_sequence_length=True}";
  for (const char *lengths : {"m", "n"}) {
    TestGraph g("y = RNN(x, w, h, m) " + attrs + "; d = _RNN_grad(x, w, h, y, v, " + lengths + ") " + attrs +
                " ^y; heads y, d, d:1");
    Bindings bindings = drawBindings(g, {{"x", DimsBuffer{3, 4, 5}}, {"v", DimsBuffer{3, 4, 5}}});
    bindings["m"].values = {3, 1, 2, 0};
    if (bindings.contains("n")) bindings["n"].values = {1, 3, 0, 2};
    const FastResult found = runFast(g, bindings, FastOptions());
    EXPECT_EQ(found.numTapes, StringRef(lengths) == "m" ? 1u : 0u);
    const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, NaiveOptions()));
    EXPECT_EQ(difference(found.heads, expected, g, fastTolerance(DType::Float64)), "") << lengths;
  }
}

double unitsApart(float found, double expected) {
  const float size = static_cast<float>(std::abs(expected));
  return std::abs(found - expected) / (static_cast<double>(std::nextafter(size, 2.0f)) - size);
}

// Every 251st number, so that all exponents and signs occur.
TEST(RnnKernels, RUN_02_SigmoidAndTangentWithinThreeUnits) {
  double sigmoid = 0, tangent = 0;
  for (uint64_t bits = 0; bits < 0xff800000u; bits += 251) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(x)) continue;
    if (x > -86.9f)
      sigmoid = std::max(sigmoid, unitsApart(fast::math::sigmoid(x), 1 / (1 + std::exp(-static_cast<double>(x)))));
    tangent = std::max(tangent, unitsApart(fast::math::tanh(x), std::tanh(static_cast<double>(x))));
  }
  EXPECT_LT(sigmoid, 3);
  EXPECT_LT(tangent, 3);
  EXPECT_EQ(fast::math::sigmoid(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(fast::math::sigmoid(NAN)));
  EXPECT_TRUE(std::isnan(fast::math::tanh(NAN)));
  EXPECT_TRUE(std::signbit(fast::math::tanh(-0.0f)));
}

template <class T> void compareProducts(Gemm<T> shape, bool packs) {
  shape = withStrides(shape);
  std::vector<T> a(static_cast<size_t>(shape.m * shape.k)), b(static_cast<size_t>(shape.k * shape.n));
  std::vector<T> c(static_cast<size_t>(shape.m * shape.n)), expected;
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(drawNumber(1, i));
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(drawNumber(2, i));
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<T>(drawNumber(3, i));
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j) {
      double sum = shape.beta == 0 ? 0 : c[static_cast<size_t>(i * shape.n + j)];
      for (int64_t l = 0; l < shape.k; ++l)
        sum += static_cast<double>(a[static_cast<size_t>(shape.transA ? l * shape.m + i : i * shape.k + l)]) *
               b[static_cast<size_t>(shape.transB ? j * shape.k + l : l * shape.n + j)];
      expected.push_back(static_cast<T>(sum));
    }
  PreparedProduct<T> product(shape, packs);
  std::vector<std::max_align_t> packed(product.packedBytes() / sizeof(std::max_align_t) + 5);
  std::vector<std::max_align_t> scratch(product.scratchBytes() / sizeof(std::max_align_t) + 5);
  auto aligned = [](std::vector<std::max_align_t> &memory) {
    return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  };
  product.run(a.data(), product.pack(b.data(), aligned(packed)), c.data(), aligned(scratch));
  for (size_t i = 0; i < c.size(); ++i)
    ASSERT_NEAR(c[i], expected[i], (sizeof(T) == 4 ? 2e-5 : 1e-13) * static_cast<double>(shape.k)) << i;
}

TEST(RnnKernels, DescriptionsOfAsManyAxesAsOneDnnHas) {
  for (size_t rank = 1; rank <= 12; ++rank) {
    size_t bytes = 0;
    EXPECT_TRUE(guarded([&] { bytes = denseDesc(DimsBuffer(rank, 2), Layout::Plain).get_size(); })) << rank;
    EXPECT_EQ(bytes, sizeof(float) << rank) << rank;
  }
  EXPECT_FALSE(guarded([] { denseDesc(DimsBuffer(13, 2), Layout::Plain); }));
}

TEST(RnnKernels, RUN_02_PreparedProductsOfAllForms) {
  for (unsigned threads : {1u, 3u})
    withThreads(threads, [] {
      for (int form = 0; form < 16; ++form)
        for (const auto &[m, n] : {std::pair<int64_t, int64_t>{1, 67}, {16, 67}, {37, 67}, {16, 512}}) {
          SCOPED_TRACE(form);
          const bool transA = form & 1, transB = form & 2, packs = form & 4;
          compareProducts(
              Gemm<float>{.transA = transA, .transB = transB, .m = m, .n = n, .k = 41, .beta = form & 8 ? 1.0f : 0.0f},
              packs);
          compareProducts(
              Gemm<double>{.transA = transA, .transB = transB, .m = m, .n = n, .k = 41, .beta = form & 8 ? 1.0 : 0.0},
              packs);
        }
    });
}

}  // namespace
}  // namespace gradc
