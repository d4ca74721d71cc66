// Fast kernels against the reference kernels: every operator of the table over its conformance samples and their
// gradients, whole stretches of channels-last layers, requests, in-place pairs, threads.
#include "runtime/kernels/table.h"

#include "runtime/kernels/gemm.h"
#include "runtime/kernels/gemm_convolution.h"
#include "runtime/kernels/threads.h"
#include "tests/support/cells.h"
#include "tests/support/fast_runs.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"

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

// Rows of a table, most of them of one number: threads divide them by rows, or by columns where one row has most.
TEST(FastKernels, RUN_02_SumsOfRowsHaveTheBitsOfOneThread) {
  const int64_t rows = 60, n = 300;
  const std::tuple<const char *, DimsBuffer, DimsBuffer> cases[] = {
      {"y = take(a, i); d = _backward_take(v, i) ^y; heads y, d", {rows, 300}, {n, 300}},
      {"y = take(a, i) {axis=1}; d = _backward_take(v, i) {axis=1} ^y; heads y, d", {30, rows, 10}, {30, n, 10}}};
  for (const auto &[text, data, picked] : cases) {
    TestGraph g(text);
    for (const int64_t numNumbers : {int64_t{1}, rows + 5}) {
      Bindings bindings = drawBindings(g, {{"a", data}, {"v", picked}, {"i", DimsBuffer{n}}});
      std::vector<double> &numbers = bindings["i"].values;
      for (int64_t j = 0; j < n; ++j) numbers[static_cast<size_t>(j)] = static_cast<double>(j * j % numNumbers);
      FastOptions options;
      options.run.floatAs = DType::Float32;
      options.threads = 1;
      const FastResult one = runFast(g, bindings, options);
      const NaiveRun expected = cantFail(NaiveRun::run(g, bindings, options.run));
      for (size_t h = 0; h < 2; ++h) EXPECT_EQ(one.heads[h].values, expected.value(g.graph.heads()[h]).values);
      for (unsigned threads : {2u, 3u}) {
        options.threads = threads;
        const FastResult several = runFast(g, bindings, options);
        for (size_t h = 0; h < 2; ++h) EXPECT_EQ(one.heads[h].values, several.heads[h].values) << threads;
      }
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

/// Operands beyond the blocks and shares the loops work in, with remainders.
struct LargeCase {
  const char *graph;
  std::vector<std::pair<StringRef, DimsBuffer>> shapes;
};

const LargeCase kLargeCases[] = {
    {"y = broadcast_add(a, b); heads y", {{"a", {5, 70, 33, 3}}, {"b", {70, 1, 1}}}},
    {"y = broadcast_mul(a, b); heads y", {{"a", {4, 35, 17, 19}}, {"b", {4, 35, 1, 1}}}},
    {"y = broadcast_sub(b, a); heads y", {{"a", {600, 37}}, {"b", {37}}}},
    {"y = broadcast_mul(a, b); heads y", {{"a", {6, 80, 41}}, {"b", {6, 1, 41}}}},
    {"y = broadcast_add(a, b); heads y", {{"a", {300, 173}}, {"b", {1}}}},
    {"y = sum(a) {axis=(0,2)}; heads y", {{"a", {9, 21, 300}}}},
    {"y = mean(a) {axis=1, keepdims=True}; heads y", {{"a", {5, 90, 77}}}},
    {"y = sum(a); heads y", {{"a", {200, 301}}}},
    {"y = softmax(a); heads y", {{"a", {101, 53}}}},
    {"y = softmax(a) {axis=1, temperature=0.5}; heads y", {{"a", {3, 29, 9, 17}}}},
    {"y = log_softmax(a) {axis=0}; heads y", {{"a", {41, 131}}}},
    {"y = softmin(a); heads y", {{"a", {7, 1009}}}},
    {"y = SoftmaxActivation(a) {mode=channel}; heads y", {{"a", {3, 21, 11, 13}}}},
    {"y = LRN(a) {nsize=5, alpha=0.1}; heads y", {{"a", {3, 23, 13, 9}}}},
    {"y = LRN(a) {nsize=3, alpha=0.5, beta=0.6, knorm=1}; heads y", {{"a", {40, 67}}}},
    {"y = Dropout(a) {p=0.4}; heads y", {{"a", {61, 97}}}},
    {"y = LayerNorm(a, b, c); heads y", {{"a", {301, 83}}}},
    {"y = dot(a, b); heads y", {{"a", {70, 33}}, {"b", {33, 91}}}},
    {"y = dot(a, b) {transpose_a=True}; heads y", {{"a", {33, 5, 14}}, {"b", {33, 7, 13}}}},
    {"y = dot(a, b) {transpose_b=True}; heads y", {{"a", {70, 33}}, {"b", {91, 33}}}},
    {"y = dot(a, b) {transpose_a=True, transpose_b=True}; heads y", {{"a", {33, 70}}, {"b", {91, 33}}}},
    {"y = dot(a, b); heads y", {{"a", {70, 33}}, {"b", {33}}}},
    {"y = dot(a, b); heads y", {{"a", {330}}, {"b", {330}}}},
    {"y = batch_dot(a, b) {transpose_b=True}; heads y", {{"a", {7, 31, 45}}, {"b", {7, 38, 45}}}},
    {"y = _contrib_interleaved_matmul_selfatt_qk(a) {heads=3}; heads y", {{"a", {37, 5, 99}}}},
    {"y = _contrib_interleaved_matmul_selfatt_valatt(a, b) {heads=3}; heads y",
     {{"a", {37, 5, 99}}, {"b", {15, 37, 37}}}},
    {"y = _contrib_interleaved_matmul_encdec_qk(a, b) {heads=3}; heads y", {{"a", {23, 5, 33}}, {"b", {37, 5, 66}}}},
    {"y = _contrib_interleaved_matmul_encdec_valatt(a, b) {heads=3}; heads y",
     {{"a", {37, 5, 66}}, {"b", {15, 23, 37}}}},
    {"y = _linalg_gemm(a, b, c) {transpose_a=True, alpha=0.5, beta=2}; heads y",
     {{"a", {7, 33, 31}}, {"b", {7, 33, 45}}, {"c", {7, 31, 45}}}},
    {"y = _linalg_gemm(a, b, c) {transpose_b=True, alpha=-2, beta=0.1}; heads y",
     {{"a", {71, 33}}, {"b", {45, 33}}, {"c", {71, 45}}}},
    {"y = _linalg_gemm2(a, b) {axis=1}; heads y", {{"a", {3, 31, 5, 17}}, {"b", {3, 17, 5, 29}}}},
    {"y = _linalg_gemm2(a, b) {transpose_a=True, transpose_b=True, axis=-3}; heads y",
     {{"a", {3, 17, 5, 31}}, {"b", {3, 29, 5, 17}}}},
    {"y = Deconvolution(a, b) {kernel=(4,4), stride=(2,2), pad=(1,1), num_filter=16}; heads y", {{"a", {2, 32, 7, 9}}}},
    {"y = Deconvolution(a, b, c) {kernel=(3,3), stride=(2,2), pad=(1,1), adj=(1,0), num_filter=12, num_group=4,"
     " no_bias=False}; heads y",
     {{"a", {2, 8, 6, 5}}}},
    {"y = Deconvolution(a, b) {kernel=(3,3), num_filter=6, dilate=(2,1), target_shape=(11,7)}; heads y",
     {{"a", {1, 5, 9, 7}}}},
    {"y = Deconvolution(a, b, c) {kernel=(3,3), stride=(2,2), pad=(1,1), adj=(1,0), num_filter=12, num_group=4,"
     " no_bias=False, layout=NHWC}; heads y",
     {{"a", {2, 6, 5, 8}}}},
    {"y = Convolution(a, b, c) {kernel=(3,3), pad=(1,1), num_filter=32, layout=NHWC}; heads y",
     {{"a", {2, 9, 11, 16}}}},
    {"y = Convolution(a, b, c) {kernel=(3,2), stride=(2,1), num_filter=12, num_group=3, layout=NHWC}; heads y",
     {{"a", {2, 9, 8, 6}}}},
    {"y = Convolution(a, b) {kernel=(3,3), num_filter=5, no_bias=True, layout=NHWC}; heads y", {{"a", {1, 12, 13, 3}}}},
    {"y = Convolution(a, b, c) {kernel=(3,), dilate=(2,), num_filter=8, layout=NWC}; heads y", {{"a", {2, 20, 5}}}},
    {"u = Convolution(a, b) {kernel=(3,3), pad=(1,1), num_filter=16, no_bias=True};"
     "y = Convolution(u, c) {kernel=(3,3), num_filter=16, no_bias=True, layout=NHWC}; heads y",
     {{"a", {2, 16, 16, 16}}}},
    {"y = Pooling(a) {kernel=(3,3), stride=(2,2), pad=(1,1), pool_type=avg, pooling_convention=full}; heads y",
     {{"a", {3, 5, 32, 30}}}},
    {"y = Pooling(a) {kernel=(3,3), stride=(2,2), pool_type=avg, pooling_convention=full}; heads y",
     {{"a", {3, 5, 32, 30}}}},
    {"y = Pooling(a) {kernel=(3,2), stride=(2,2), pad=(1,0), pool_type=max, layout=NHWC}; heads y",
     {{"a", {2, 13, 11, 16}}}},
    {"y = Pooling(a) {kernel=(3,2,2), stride=(2,1,2), pad=(1,0,1), pool_type=avg}; heads y", {{"a", {2, 6, 7, 9, 8}}}},
    {"y = Pooling(a) {kernel=(5,), stride=(2,), pad=(2,), pool_type=avg, count_include_pad=False}; heads y",
     {{"a", {4, 16, 301}}}},
    {"y = Pooling(a) {pool_type=max, global_pool=True}; heads y", {{"a", {3, 7, 5, 9, 11}}}},
    {"y = clip(a) {a_min=-0.1, a_max=0.2}; heads y", {{"a", {130, 127}}}},
    // A bound that is no number of float32: its nearest one is outside of it.
    {"z = zeros_like(a); c = _plus_scalar(z) {scalar=0.1}; y = _backward_clip(a, c) {a_min=-1, a_max=0.1}; heads y",
     {{"a", {3, 5}}}},
    {"z = zeros_like(a); c = _plus_scalar(z) {scalar=-0.1}; y = _backward_clip(a, c) {a_min=-0.1, a_max=1}; heads y",
     {{"a", {3, 5}}}},
    {"y = max(a) {axis=1, keepdims=True}; heads y", {{"a", {5, 90, 77}}}},
    {"y = min(a) {axis=(0,2)}; heads y", {{"a", {9, 21, 301}}}},
    {"y = sin(a); heads y", {{"a", {130, 127}}}},
    {"y = gelu(a); z = LeakyReLU(y) {act_type=selu}; heads z", {{"a", {130, 127}}}},
    {"y = _maximum(a, b); z = tanh(y); heads z", {{"a", {130, 127}}, {"b", {130, 127}}}},
    {"p = slice(a) {begin=(1,3), end=(99,120), step=(2,1)}; q = SliceChannel(p) {num_outputs=3, axis=1};"
     " y = broadcast_add(q:0, q:2); heads y",
     {{"a", {130, 127}}}},
    {"y = UpSampling(a, b) {scale=2, num_filter=5, sample_type=bilinear, num_args=2}; heads y",
     {{"a", {2, 5, 21, 19}}}},
};

// What moves elements, and what is computed plane by plane.
const LargeCase kMovements[] = {
    {"y = transpose(a) {axes=(0,2,1)}; heads y", {{"a", {3, 130, 67}}}},
    {"y = transpose(a) {axes=(2,0,3,1)}; heads y", {{"a", {7, 19, 23, 29}}}},
    {"y = SwapAxis(a) {dim1=0, dim2=3}; heads y", {{"a", {37, 2, 3, 153}}}},
    {"y = slice(a) {begin=(3,100), end=(399,2), step=(1,-2)}; heads y", {{"a", {430, 127}}}},
    {"y = slice_axis(a) {axis=-1, begin=3, end=120}; heads y", {{"a", {330, 127}}}},
    {"y = slice_axis(a) {axis=2, begin=1, end=6}; heads y", {{"a", {30, 20, 7, 40}}}},
    {"y = slice_like(a, b) {axes=(1,)}; heads y", {{"a", {430, 127}}, {"b", {5, 99}}}},
    {"y = Crop(a, b) {num_args=2, center_crop=True}; heads y", {{"a", {3, 5, 61, 67}}, {"b", {1, 1, 45, 50}}}},
    {"y = repeat(a) {repeats=3, axis=1}; heads y", {{"a", {41, 50, 23}}}},
    {"y = tile(a) {reps=(2,1,3)}; heads y", {{"a", {241, 50}}}},
    {"y = reverse(a) {axis=1}; heads y", {{"a", {130, 327}}}},
    {"y = depth_to_space(a) {block_size=3}; heads y", {{"a", {2, 36, 23, 21}}}},
    {"y = space_to_depth(a) {block_size=2}; heads y", {{"a", {3, 7, 46, 44}}}},
    {"p = SliceChannel(a) {num_outputs=3, axis=2, squeeze_axis=True}; y = stack(p:2, p:0) {num_args=2, axis=1};"
     " heads y",
     {{"a", {270, 61, 3, 5}}}},
    {"y = Pad(a) {mode=constant, constant_value=0.5, pad_width=(0,0,0,0,2,1,3,0)}; heads y", {{"a", {3, 7, 41, 47}}}},
    {"y = Pad(a) {mode=edge, pad_width=(0,0,0,0,1,2,0,3,4,1)}; heads y", {{"a", {2, 5, 11, 13, 37}}}},
    {"y = Pad(a) {mode=reflect, pad_width=(0,0,0,0,3,2,1,4)}; heads y", {{"a", {3, 7, 41, 47}}}},
    {"y = UpSampling(a) {scale=2, sample_type=nearest, num_args=1}; heads y", {{"a", {3, 5, 31, 29}}}},
    {"y = UpSampling(a, b) {scale=2, sample_type=nearest, num_args=2, multi_input_mode=sum}; heads y",
     {{"a", {3, 5, 30, 22}}, {"b", {3, 5, 15, 11}}}},
    {"y = UpSampling(a, b) {scale=3, sample_type=nearest, num_args=2}; heads y",
     {{"a", {3, 5, 20, 22}}, {"b", {3, 4, 60, 66}}}},
    {"y = _contrib_BilinearResize2D(a) {height=53, width=61}; heads y", {{"a", {3, 5, 31, 29}}}},
    {"y = _contrib_BilinearResize2D(a) {height=13, width=7, align_corners=False}; heads y", {{"a", {3, 5, 61, 59}}}},
    {"y = _contrib_AdaptiveAvgPooling2D(a) {output_size=(7,5)}; heads y", {{"a", {4, 9, 33, 46}}}},
    {"y = _contrib_AdaptiveAvgPooling2D(a); heads y", {{"a", {4, 9, 33, 46}}}},
    {"y = prod(a) {axis=1}; heads y", {{"a", {70, 19, 31}}}},
    {"y = nanprod(a) {axis=(1,2), keepdims=True}; heads y", {{"a", {570, 5, 14}}}},
    {"y = InstanceNorm(a, b, c); heads y", {{"a", {4, 9, 33, 31}}}},
    {"y = L2Normalization(a) {mode=channel}; heads y", {{"a", {4, 19, 33, 21}}}},
    {"y = L2Normalization(a) {mode=instance}; heads y", {{"a", {24, 1900}}}},
    {"y = L2Normalization(a) {mode=spatial}; heads y", {{"a", {4, 19, 33, 21}}}},
};

// Few channels of many elements: threads divide the elements in ways that depend on the sizes alone.
const LargeCase kFewChannels[] = {
    {"y = sum(a); heads y", {{"a", {300, 1201}}}},
    {"y = mean(a) {axis=(0,2)}; heads y", {{"a", {7, 3, 20011}}}},
    {"y = sum(a) {axis=0}; heads y", {{"a", {20011, 16}}}},
    {"y = broadcast_mul(a, b); heads y", {{"a", {9001, 20}}, {"b", {20}}}},
    {"y = BatchNorm(a, b, c, m, v) {fix_gamma=False}; heads y", {{"a", {9001, 16}}}},
    {"y = BatchNorm(a, b, c, m, v) {fix_gamma=False}; heads y", {{"a", {2, 5, 173, 97}}}},
    {"y = LeakyReLU(a, g) {act_type=prelu}; heads y", {{"a", {2, 3, 173, 97}}}},
    {"y = LeakyReLU(a, g) {act_type=prelu}; heads y", {{"a", {200003}}, {"g", {1}}}},
    {"y = max(a); heads y", {{"a", {300, 1201}}}},
    {"y = min(a) {axis=(0,2)}; heads y", {{"a", {7, 3, 20011}}}},
    {"y = max(a) {axis=0}; heads y", {{"a", {20011, 17}}}},
};

TEST(FastKernels, RUN_02_SeveralThreadsHaveTheBitsOfOne) {
  std::vector<LargeCase> cases(std::begin(kFewChannels), std::end(kFewChannels));
  cases.insert(cases.end(), std::begin(kMovements), std::end(kMovements));
  for (const LargeCase &large : cases) {
    SCOPED_TRACE(large.graph);
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, large.graph));
    Bindings bindings = drawBindings(graph, large.shapes);
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings)
      if (name != "m" && name != "v") variables.push_back(name);
    NaiveOptions training;
    training.isTraining = true;
    Values head = cantFail(NaiveRun::run(graph, bindings, training)).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
    EXPECT_FALSE(compareFast(gradient, bindings, training, 3).operators.empty());
    FastOptions options;
    options.run = training;
    options.run.floatAs = DType::Float32;
    options.threads = 1;
    const FastResult one = runFast(gradient, bindings, options);
    for (unsigned threads : {2u, 3u, 17u}) {
      options.threads = threads;
      const FastResult several = runFast(gradient, bindings, options);
      for (size_t h = 0; h < one.heads.size(); ++h) EXPECT_EQ(one.heads[h].values, several.heads[h].values) << threads;
    }
  }
}

TEST(FastKernels, RUN_02_OperandsOfManyBlocksAgreeWithReference) {
  std::vector<LargeCase> cases(std::begin(kLargeCases), std::end(kLargeCases));
  cases.insert(cases.end(), std::begin(kMovements), std::end(kMovements));
  for (const LargeCase &large : cases) {
    SCOPED_TRACE(large.graph);
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, large.graph));
    Bindings bindings = drawBindings(graph, large.shapes);
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings) variables.push_back(name);
    for (unsigned threads : {1u, 3u, 17u}) compareFast(graph, bindings, NaiveOptions(), threads);
    Values head = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
    for (unsigned threads : {1u, 3u, 17u})
      EXPECT_FALSE(compareFast(gradient, bindings, NaiveOptions(), threads).operators.empty()) << threads;
  }
}

// Windows mostly of padding: neither oneDNN nor the loops skip what the reference kernel does not visit.
TEST(FastKernels, RUN_02_WindowsOfPaddingAreLeftToTheReference) {
  for (const char *type : {"max", "avg"}) {
    TestGraph g("y = Pooling(x) {kernel=(2147483647,2147483647), pad=(1073741823,1073741823), pool_type=" +
                std::string(type) + "}");
    EXPECT_TRUE(compareFast(g, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators.empty()) << type;
  }
  TestGraph small("y = Pooling(x) {kernel=(3,3), pad=(1,1), pool_type=avg}");
  EXPECT_EQ(compareFast(small, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators,
            std::set<std::string>{"Pooling"});
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
  TestGraph g("s = sin(x); c = cos(x); e = exp(x); t = tanh(x); m = max(x) {axis=1}; n = min(x) {axis=0}; l = log(x);"
              " b = _backward_sin(v, x); g = sigmoid(x); p = nanprod(x) {axis=1};"
              " q = _backward_nanprod(u, x, w) {axis=1}; heads s, c, e, t, m, n, l, b, g, p, q");
  Bindings bindings = drawBindings(g, {{"x", DimsBuffer{3, 700}}, {"v", DimsBuffer{3, 700}}});
  std::vector<double> &x = bindings["x"].values;
  for (size_t i : {5u, 1000u}) x[i] = NAN;
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

// States too; with shares and one thread the bits are those of the reference kernels.
TEST(FastKernels, RUN_02_StepsOfOptimizersHaveTheBitsOfTheReference) {
  const std::pair<const char *, const char *> cases[] = {
      {"y = sgd_update(w, g) {lr=0.1, wd=0.01}; heads y", "sgd_update"},
      {"y = sgd_mom_update(w, g, s) {lr=0.1, momentum=0.9, clip_gradient=0.3}; t = _copy(s) ^y; heads y, t",
       "sgd_mom_update"},
      {"y = adam_update(w, g, s, u) {lr=0.1}; t = _copy(s) ^y; v = _copy(u) ^y; heads y, t, v", "adam_update"},
      {"y = _scheduled_adam_update(w, g, s, u, r) {}; t = _copy(s) ^y; heads y, t", "_scheduled_adam_update"}};
  for (const auto &[text, op] : cases) {
    SCOPED_TRACE(text);
    TestGraph g(text);
    Bindings bindings = drawBindings(g, {{"w", DimsBuffer{307, 211}}});
    for (double &variance : bindings["u"].values) variance = std::abs(variance);
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

/// Operators in gradients of operators with a fast kernel that have none: numbers, a column per channel repeated, and the
/// gradient of RNN that sequences of different lengths have.
constexpr StringRef kGradientsOnReference[] = {"_RNN_grad",         "_broadcast_axis_like", "_in_training",
                                               "_product_gradient", "_repeat_axes_like",    "_zeros_without_dtype"};

TEST(FastKernels, A_10_GradientsOfFastOperatorsAreFast) {
  std::set<std::string> slow;
  for (const Sample &row : tableSamples()) {
    TestContext context;
    SampleGraph sample(context, row);
    const Orders orders(context, sample, std::min(2u, row.orders + 1));
    const Graph &gradient = orders.graphs.back();
    for (uint32_t n = 0; n < gradient.numNodes(); ++n) {
      const OpDef *op = gradient.op(NodeId(n));
      if (!op || findFastKernel(*op) || referenceRole(*op) == LayoutRole::Elements) continue;
      if (!llvm::is_contained(kGradientsOnReference, op->name)) slow.insert(op->name.str());
    }
  }
  EXPECT_EQ(llvm::join(slow, ", "), "");
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

TEST(FastKernels, A_10_TableIsSortedAndKnowsOnlyBuiltinOperators) {
  TestContext context;
  for (size_t i = 0; i < fastKernelTable().size(); ++i) {
    const FastKernelRow &row = fastKernelTable()[i];
    if (i != 0) {
      EXPECT_LT(fastKernelTable()[i - 1].name, row.name);
    }
    const OpDef *op = context.ops.find(row.name);
    ASSERT_TRUE(op) << row.name.str();
    EXPECT_EQ(findFastKernel(*op), &row);
    const OpDef impostor = *op;
    const FastKernelRow *found = findFastKernel(impostor);
    EXPECT_EQ(found != nullptr, op->flags.isElementwise) << "by what it says of itself alone";
    EXPECT_NE(found, &row);
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
