// Fast kernels on operands of many blocks, rows and threads' shares: to the values of the reference kernels, and with
// the same bits for any number of threads.
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <thread>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Values = gradc::testing::Array;

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
    // A bound that float32 cannot represent: the nearest number is outside.
    {"z = zeros_like(a); c = _plus_scalar(z) {scalar=0.1}; y = _backward_clip(a, c) {a_min=-1, a_max=0.1}; heads y",
     {{"a", {3, 5}}}},
    {"z = zeros_like(a); c = _plus_scalar(z) {scalar=-0.1}; y = _backward_clip(a, c) {a_min=-0.1, a_max=1}; heads y",
     {{"a", {3, 5}}}},
    {"y = max(a) {axis=1, keepdims=True}; heads y", {{"a", {5, 90, 77}}}},
    {"y = min(a) {axis=0}; heads y", {{"a", {3, 9001}}}},
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
    {"y = LayerNorm(a, b, c) {axis=1}; heads y", {{"a", {5, 37, 90}}}},
    {"y = LayerNorm(a, b, c) {axis=0}; heads y", {{"a", {70, 41}}}},
    {"y = norm(a); heads y", {{"a", {200, 301}}}},
    {"y = norm(a) {axis=(0,2), keepdims=True}; heads y", {{"a", {9, 21, 300}}}},
    {"y = norm(a) {axis=1, ord=1}; heads y", {{"a", {5, 90, 77}}}},
    {"y = _np_cumsum(a) {axis=1}; heads y", {{"a", {5, 90, 77}}}},
    {"y = _np_cumsum(a) {axis=0}; heads y", {{"a", {20011}}}},
    {"y = im2col(a) {kernel=(3,5), pad=(2,6), stride=(1,2), dilate=(2,3)}; heads y", {{"a", {2, 5, 31, 29}}}},
    {"y = im2col(a) {kernel=(2,3,4), pad=(1,0,5), stride=(1,2,3), dilate=(2,1,3)}; heads y", {{"a", {2, 3, 7, 9, 23}}}},
    {"y = col2im(a) {kernel=(3,3), pad=(1,1), output_size=(17,19)}; heads y", {{"a", {4, 45, 323}}}},
    {"y = sort(a); heads y", {{"a", {70001}}}},
    {"y = sort(a) {axis=1, is_ascend=False}; heads y", {{"a", {3, 300, 37}}}},
    {"y = topk(a) {axis=0, k=9001, ret_typ=value}; heads y", {{"a", {70001}}}},
    {"y = topk(a) {axis=0, k=17, ret_typ=value, is_ascend=True}; heads y", {{"a", {70001}}}},
    {"y = topk(a) {k=5, ret_typ=value}; heads y", {{"a", {130, 327}}}},
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

/// A case, its gradients toward everything but moving statistics, and a head gradient drawn for them.
struct LargeGraph {
  TestContext context;
  Graph graph, gradient;
  Bindings bindings;

  LargeGraph(const LargeCase &large, const NaiveOptions &naive)
      : graph(cantFail(parseGraph(context, large.graph))), bindings(drawBindings(graph, large.shapes)) {
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings)
      if (name != "m" && name != "v") variables.push_back(name);
    Values head = cantFail(NaiveRun::run(graph, bindings, naive)).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    gradient = cantFail(derivativeGraph(context, graph, variables, 1));
  }
};

std::vector<LargeCase> joined(ArrayRef<LargeCase> first, ArrayRef<LargeCase> second) {
  std::vector<LargeCase> cases = first.vec();
  cases.insert(cases.end(), second.begin(), second.end());
  return cases;
}

TEST(LargeKernels, RUN_02_SeveralThreadsHaveTheBitsOfOne) {
  for (const LargeCase &large : joined(kFewChannels, kMovements)) {
    SCOPED_TRACE(large.graph);
    FastOptions options;
    options.run.isTraining = true;
    const LargeGraph made(large, options.run);
    EXPECT_FALSE(compareFast(made.gradient, made.bindings, options.run, 3).operators.empty());
    options.run.floatAs = DType::Float32;
    options.threads = 1;
    const FastResult one = runFast(made.gradient, made.bindings, options);
    for (unsigned threads : {2u, 3u, 17u}) {
      options.threads = threads;
      const FastResult several = runFast(made.gradient, made.bindings, options);
      for (size_t h = 0; h < one.heads.size(); ++h) EXPECT_EQ(one.heads[h].values, several.heads[h].values) << threads;
    }
  }
}

TEST(LargeKernels, RUN_02_OperandsOfManyBlocksAgreeWithReference) {
  for (const LargeCase &large : joined(kLargeCases, kMovements)) {
    SCOPED_TRACE(large.graph);
    const LargeGraph made(large, NaiveOptions());
    for (unsigned threads : {1u, 3u, 17u}) {
      compareFast(made.graph, made.bindings, NaiveOptions(), threads);
      EXPECT_FALSE(compareFast(made.gradient, made.bindings, NaiveOptions(), threads).operators.empty()) << threads;
    }
  }
}

// More pixels than the weight gradient adds up at once: tiles that begin and end in the padding, overlap and leave
// gaps.
const LargeCase kTiledCases[] = {
    {"y = Convolution(a, b) {kernel=(3,3), pad=(2,1), dilate=(2,1), num_filter=2, no_bias=True}; heads y",
     {{"a", {1, 2, 1100, 1000}}}},
    {"y = Convolution(a, b) {kernel=(3,2), pad=(1,0), stride=(2,1), num_filter=1, no_bias=True, layout=NHWC}; heads y",
     {{"a", {1, 2200, 1001, 2}}}},
    {"y = Convolution(a, b) {kernel=(3,3), pad=(1,1), num_filter=4, num_group=2, no_bias=True}; heads y",
     {{"a", {1, 4, 1050, 1050}}}},
    {"y = Convolution(a, b) {kernel=(3,), pad=(4,), num_filter=1, no_bias=True, layout=NWC}; heads y",
     {{"a", {1, 1100000, 1}}}},
};

TEST(LargeKernels, RUN_02_LargeImagesAgreeWithReference) {
  for (const LargeCase &large : kTiledCases) {
    SCOPED_TRACE(large.graph);
    const LargeGraph made(large, NaiveOptions());
    Bindings whole = made.bindings;  // −1, 0 and 1, whose sums are exact in any order
    for (auto &[name, array] : whole)
      for (double &value : array.values) value = std::remainder(std::floor(value * 1000), 3);
    EXPECT_FALSE(compareFast(made.gradient, whole, NaiveOptions(), 2).operators.empty());
  }
}

/// The threads of this process.
std::set<std::string> tasks() {
  std::set<std::string> ids;
  std::error_code error;  // one may end meanwhile
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task", error))
    ids.insert(task.path().string());
  return ids;
}

/// How many threads a run at two threads starts, on a thread that has no team yet.
size_t numStartedBy(const LargeCase &one) {
  size_t numStarted = 0;
  std::thread([&] {
    FastOptions options;
    options.run.floatAs = DType::Float32;
    const LargeGraph made(one, options.run);
    const std::set<std::string> before = tasks();
    runFast(made.gradient, made.bindings, options);
    // Not the difference of two numbers: threads of an earlier team may end at any time.
    for (const std::string &task : tasks()) numStarted += !before.count(task);
  }).join();
  return numStarted;
}

// oneDNN's primitives would otherwise wake the team for a handful of elements, as often as there are nodes.
TEST(LargeKernels, RUN_02_SmallOperandsWakeNoThread) {
  constexpr StringLiteral kConvolution = "y = Convolution(a, b, c) {kernel=(3,3), num_filter=4}; heads y";
  constexpr StringLiteral kDeconvolution = "y = Deconvolution(a, b) {kernel=(3,3), num_filter=4}; heads y";
  constexpr StringLiteral kPooling = "y = Pooling(a) {kernel=(2,2)}; heads y";
  for (const LargeCase &small :
       {LargeCase{kConvolution.data(), {{"a", {1, 4, 6, 6}}, {"b", {4, 4, 3, 3}}, {"c", {4}}}},
        LargeCase{kDeconvolution.data(), {{"a", {1, 4, 6, 6}}, {"b", {4, 4, 3, 3}}}},
        LargeCase{kPooling.data(), {{"a", {2, 4, 6, 6}}}}, LargeCase{"y = tanh(a); heads y", {{"a", {2, 3}}}},
        LargeCase{"y = sigmoid(a); heads y", {{"a", {2, 3}}}}})
    EXPECT_EQ(numStartedBy(small), 0u) << small.graph;
#ifndef __clang__  // whose OpenMP takes threads from other teams
  for (const LargeCase &large :
       {LargeCase{kConvolution.data(), {{"a", {4, 4, 60, 60}}, {"b", {4, 4, 3, 3}}, {"c", {4}}}},
        LargeCase{kDeconvolution.data(), {{"a", {4, 4, 60, 60}}, {"b", {4, 4, 3, 3}}}},
        LargeCase{kPooling.data(), {{"a", {20, 4, 60, 60}}}}, LargeCase{"y = tanh(a); heads y", {{"a", {200, 300}}}}})
    EXPECT_EQ(numStartedBy(large), 1u) << large.graph;
#endif
}

}  // namespace
}  // namespace gradc
