// Sums of many terms in float32: 2^25 ones, which one float32 accumulator stops adding up at 2^24, and 10^7 numbers of
// mixed size against long double. Each accumulation loop once, on both backends and any number of threads.
//
// Every operator that adds up is here: which these are comes from the registry, by what operators decompose into.
#include "tests/support/ops/conformance.h"
#include "tests/support/test_graph.h"

#include "ir/tensor/dim.h"
#include "passes/lowering/lower_to.h"
#include "runtime/session/session.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// What a head's elements are, of the numbers x.
enum class Is { Sum, Mean, Root, Inverse };  // Root: of the sum of ones; Inverse: of their number
enum class At { All, First, Last };
enum class Bits { Any, OwnLoop };  // OwnLoop: the fast kernel has the same bits on any number of threads

struct Sum {
  const char *op, *text;
  const char *shapes;  // of the variables; x has the numbers, i zeros, all others ones
  Is is = Is::Sum;
  Bits bits = Bits::OwnLoop;
  bool isLong = true;  // run with 2^25 too: there is memory and time, and no other case has the loop
  At at = At::All;
};

// $n numbers, which are $h · $w; $m is $n - 1, $v is $w - 1. The sum is that of as many as x has.
const Sum kSums[] = {
    {"sum", "y = sum(x)", "x=$n"},
    {"mean", "y = mean(x)", "x=$n", Is::Mean},
    {"nansum", "y = nansum(x) {axis=0}", "x=$n,1"},
    {"norm", "y = norm(x) {ord=1}", "x=$n"},
    {"norm", "y = norm(x)", "x=$n", Is::Root},
    {"moments", "y = moments(x) {axes=(0,)}; heads y", "x=$n", Is::Mean},
    {"_sum_like", "y = _sum_like(x, a)", "x=$n,1; a=1"},
    {"_prelu_gamma_sum", "y = _prelu_gamma_sum(x, a)", "x=$n,1; a=1"},
    {"_np_cumsum", "y = _np_cumsum(x)", "x=$n", Is::Sum, Bits::OwnLoop, true, At::Last},
    {"_backward_np_cumsum", "y = _np_cumsum(a); d = _backward_np_cumsum(x) ^y; heads d", "x=$n; a=$n", Is::Sum,
     Bits::OwnLoop, true, At::First},
    {"dot", "y = dot(x, a)", "x=1,$n; a=$n,1", Is::Sum, Bits::Any},
    {"batch_dot", "y = batch_dot(x, a)", "x=1,1,$n; a=1,$n,1", Is::Sum, Bits::Any},
    {"FullyConnected", "y = FullyConnected(x, a) {num_hidden=1, no_bias=True}", "x=1,$n; a=1,$n", Is::Sum, Bits::Any,
     false},
    {"_backward_FullyConnected", "d = _backward_FullyConnected(x, a, b) {num_hidden=1}; heads d:2",
     "x=$n,1; a=$n,1; b=1,1"},
    {"_backward_FullyConnected", "d = _backward_FullyConnected(x, a, b) {num_hidden=1}; heads d:1",
     "x=$n,1; a=$n,1; b=1,1", Is::Sum, Bits::Any},
    {"_backward_Convolution", "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1}; heads d:2",
     "x=1,1,$h,$w; a=1,1,$h,$w; b=1,1,1,1; c=1"},
    {"_backward_Convolution", "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1}; heads d:2",
     "x=$h,1,1,$w; a=$h,1,1,$w; b=1,1,1,1; c=1"},
    {"_backward_Convolution",
     "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1, layout=NHWC}; heads d:2",
     "x=$h,$w,1,1; a=$h,$w,1,1; b=1,1,1,1; c=1"},
    {"_backward_Convolution", "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1}; heads d:1",
     "x=1,1,$h,$w; a=1,1,$h,$w; b=1,1,1,1; c=1", Is::Sum, Bits::Any},
    {"_backward_Convolution", "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1}; heads d:1",
     "x=$h,1,1,$w; a=$h,1,1,$w; b=1,1,1,1; c=1", Is::Sum, Bits::Any},
    {"_backward_Convolution",
     "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1, layout=NHWC}; heads d:1",
     "x=$h,$w,1,1; a=$h,$w,1,1; b=1,1,1,1; c=1", Is::Sum, Bits::Any},
    {"_backward_Convolution", "d = _backward_Convolution(x, a, b, c) {kernel=(1,1,1), num_filter=1}; heads d:1, d:2",
     "x=$h,1,1,1,$w; a=$h,1,1,1,$w; b=1,1,1,1,1; c=1", Is::Sum, Bits::Any, false},
    {"_backward_Deconvolution",
     "d = _backward_Deconvolution(x, a, b, c) {kernel=(1,1), num_filter=1, no_bias=False}; heads d:2",
     "x=$h,1,1,$w; a=$h,1,1,$w; b=1,1,1,1; c=1"},
    {"_backward_Deconvolution",
     "d = _backward_Deconvolution(x, a, b, c) {kernel=(1,1), num_filter=1, no_bias=False}; heads d:1",
     "x=$h,1,1,$w; a=$h,1,1,$w; b=1,1,1,1; c=1", Is::Sum, Bits::Any, false},
    {"_backward_Deconvolution",
     "d = _backward_Deconvolution(x, a, b, c) {kernel=(1,1), num_filter=1, no_bias=False}; heads d:1",
     "x=1,1,$h,$w; a=1,1,$h,$w; b=1,1,1,1; c=1", Is::Sum, Bits::Any},
    {"_backward_Convolution",
     "d = _backward_Convolution(x, a, b, c) {kernel=(1,1), num_filter=1, layout=NHWC}; heads d:1",
     "x=1,$h,$w,1; a=1,$h,$w,1; b=1,1,1,1; c=1", Is::Sum, Bits::Any},
    {"_backward_Convolution",
     "d = _backward_Convolution(x, a, b, c) {kernel=(1,), num_filter=1, layout=NWC}; heads d:1",
     "x=1,$n,1; a=1,$n,1; b=1,1,1; c=1", Is::Sum, Bits::Any},
    {"_backward_Convolution",
     "d = _backward_Convolution(x, a, b, c) {kernel=(1,1,$w), pad=(0,0,$v), num_filter=1}; heads d",
     "x=1,1,1,1,$w; a=1,1,1,1,1; b=1,1,1,1,$w; c=1", Is::Sum, Bits::Any},
    {"Pooling", "y = Pooling(x) {pool_type=avg, global_pool=True, kernel=(1,1)}", "x=1,1,$h,$w", Is::Mean},
    {"Pooling", "y = Pooling(x) {pool_type=sum, kernel=($h,$w)}", "x=1,1,$h,$w"},
    {"_pooling_grad", "y = _pooling_grad(x, a) {pool_type=sum, kernel=($n,), pad=($m,)}", "x=1,1,$n; a=1,1,1"},
    {"_pool_scatter", "y = _pool_scatter(x, a) {pool_type=max, kernel=($n,), pad=($m,)}", "x=1,1,$n; a=1,1,1"},
    {"_contrib_AdaptiveAvgPooling2D", "y = _contrib_AdaptiveAvgPooling2D(x) {output_size=1}", "x=1,1,$h,$w", Is::Mean},
    {"_backward_contrib_AdaptiveAvgPooling2D",
     "y = _contrib_AdaptiveAvgPooling2D(a) {output_size=($h,$w)}; "
     "d = _backward_contrib_AdaptiveAvgPooling2D(x) {output_size=($h,$w)} ^y; heads d",
     "x=1,1,$h,$w; a=1,1,1,1"},
    {"_backward_contrib_BilinearResize2D",
     "y = _contrib_BilinearResize2D(a) {height=$h, width=$w}; "
     "d = _backward_contrib_BilinearResize2D(x) {height=$h, width=$w} ^y; heads d",
     "x=1,1,$h,$w; a=1,1,1,1"},
    {"_backward_Pad",
     "y = Pad(a) {mode=edge, pad_width=(0,0,0,0,0,0,0,$m)}; "
     "d = _backward_Pad(x) {mode=edge, pad_width=(0,0,0,0,0,0,0,$m)} ^y; heads d",
     "x=1,1,1,$n; a=1,1,1,1"},
    {"_scatter_nd", "y = _scatter_nd(a, x, i) {reduction=add}; d = _minus_scalar(y) {scalar=1}; heads d",
     "x=$n; a=1; i=1,$n"},
    {"_backward_take", "y = take(a, i); d = _backward_take(x, i) ^y; heads d", "x=$n; a=1; i=$n"},
    {"_backward_Embedding", "d = _backward_Embedding(x, i) {input_dim=1, output_dim=1}; heads d:1", "x=$n,1; i=$n"},
    {"_backward_gather_nd", "y = gather_nd(a, i); d = _backward_gather_nd(x, i) ^y; heads d", "x=$n; a=1; i=1,$n"},
    // Not with 2^25: positions are float32.
    {"_backward_topk", "y = topk(a) {k=$n, ret_typ=both}; d = _backward_topk(x, a, i) {k=$n, ret_typ=both} ^y; heads d",
     "x=$n; a=$n; i=$n", Is::Sum, Bits::OwnLoop, false, At::First},
    {"_backward_repeat", "y = repeat(a) {repeats=$n}; d = _backward_repeat(x) {repeats=$n} ^y; heads d", "x=$n; a=1"},
    {"_backward_tile", "y = tile(a) {reps=$n}; d = _backward_tile(x) {reps=$n} ^y; heads d", "x=$n; a=1"},
    {"_backward_UpSampling",
     "y = UpSampling(a) {scale=1000, sample_type=nearest, num_args=1}; "
     "d = _backward_UpSampling(x) {scale=1000, sample_type=nearest, num_args=1} ^y; heads d",
     "x=1,1,1000,1000; a=1,1,1,1"},
    {"_scatter_along_axis", "y = _scatter_along_axis(x, i, a) {axis=0}", "x=$n; i=$n; a=1"},
    {"softmax", "y = softmax(x)", "x=$n", Is::Inverse},
    {"LayerNorm", "y = LayerNorm(x, a, b) {output_mean_var=True}; heads y:1", "x=1,$n; a=$n; b=$n", Is::Mean},
    {"_backward_LayerNorm", "d = _backward_LayerNorm(x, a, b, c, e); heads d:2", "x=$n,1; a=$n,1; b=1; c=$n,1; e=$n,1"},
    {"L2Normalization", "y = L2Normalization(x); heads y:1", "x=1,$n", Is::Root},
};

// The other operators that add up, and the loop of theirs that is above, or why their sums are short.
const std::map<StringRef, StringRef> kShared = {
    {"BatchNorm", "mean"},
    {"CTCLoss", "softmax"},
    {"Convolution", "FullyConnected"},
    {"Deconvolution", "_backward_FullyConnected"},
    {"GroupNorm", "mean"},
    {"InstanceNorm", "mean"},
    {"LRN", "Pooling"},
    {"RNN", "_backward_FullyConnected"},
    {"SequenceLast", "sum"},
    {"SoftmaxActivation", "softmax"},
    {"SoftmaxOutput", "softmax"},
    {"UpSampling", "_backward_FullyConnected"},
    {"_LinearRegressionOutput_grad", "sum"},
    {"_LogisticRegressionOutput_grad", "sum"},
    {"_MAERegressionOutput_grad", "sum"},
    {"_RNN_grad", "_backward_FullyConnected"},
    {"_RegressionOutput_weight", "sum"},
    {"_SoftmaxOutput_grad", "softmax"},
    {"_SoftmaxOutput_softmax", "softmax"},
    {"_backward_BatchNorm", "_backward_LayerNorm"},
    {"_backward_GroupNorm", "_backward_LayerNorm"},
    {"_backward_InstanceNorm", "_backward_LayerNorm"},
    {"_backward_L2Normalization", "_backward_LayerNorm"},
    {"_backward_LRN", "Pooling"},
    {"_backward_LeakyReLU", "_prelu_gamma_sum"},
    {"_backward_MakeLoss", "sum"},
    {"_backward_Pooling", "_pool_scatter"},
    {"_backward_RNN", "_backward_FullyConnected"},
    {"_backward_SoftmaxActivation", "softmax"},
    {"_backward_broadcast_add", "_sum_like"},
    {"_backward_broadcast_div", "_sum_like"},
    {"_backward_broadcast_hypot", "_sum_like"},
    {"_backward_broadcast_maximum", "_sum_like"},
    {"_backward_broadcast_minimum", "_sum_like"},
    {"_backward_broadcast_mul", "_sum_like"},
    {"_backward_broadcast_mod", "_sum_like"},
    {"_backward_broadcast_power", "_sum_like"},
    {"_backward_broadcast_sub", "_sum_like"},
    {"_backward_col2im", "_scatter_along_axis"},
    {"_backward_ctc_loss", "softmax"},
    {"_backward_diag", "sum"},
    {"_backward_dot", "dot"},
    {"_backward_im2col", "_pooling_grad"},
    {"_backward_interleaved_matmul_encdec_qk", "dot"},
    {"_backward_interleaved_matmul_encdec_valatt", "dot"},
    {"_backward_interleaved_matmul_selfatt_qk", "dot"},
    {"_backward_interleaved_matmul_selfatt_valatt", "dot"},
    {"_backward_linalg_gemm", "dot"},
    {"_backward_linalg_gemm2", "dot"},
    {"_backward_linear_reg_out", "sum"},
    {"_backward_log_softmax", "softmax"},
    {"_backward_logistic_reg_out", "sum"},
    {"_backward_mae_reg_out", "sum"},
    {"_backward_mean", "sum"},
    {"_backward_moments", "sum"},
    {"_backward_nanprod", "sum"},
    {"_backward_npi_arctan2", "_sum_like"},
    {"_backward_npi_ldexp", "_sum_like"},
    {"_backward_pick", "sum"},
    {"_backward_prod", "sum"},
    {"_backward_softmax", "softmax"},
    {"_backward_softmax_cross_entropy", "softmax"},
    {"_backward_softmin", "softmax"},
    {"_broadcast_backward", "_sum_like"},
    {"_channel_window_sum", "Pooling"},
    {"_contrib_BilinearResize2D", "dot"},
    {"_contrib_backward_index_copy", "_scatter_nd"},
    {"_contrib_div_sqrt_dim", "sum"},
    {"_contrib_index_copy", "_scatter_nd"},
    {"_contrib_interleaved_matmul_encdec_qk", "dot"},
    {"_contrib_interleaved_matmul_encdec_valatt", "dot"},
    {"_contrib_interleaved_matmul_selfatt_qk", "dot"},
    {"_contrib_interleaved_matmul_selfatt_valatt", "dot"},
    {"_convolution_data_grad", "_backward_FullyConnected"},
    {"_convolution_weight_grad", "_backward_Convolution"},
    {"_ctc_loss_grad", "softmax"},
    {"_deconvolution_data_grad", "FullyConnected"},
    {"_deconvolution_weight_grad", "_backward_Convolution"},
    {"_linalg_gemm", "dot"},
    {"_linalg_gemm2", "dot"},
    {"_product_gradient", "sum"},
    {"_scatter_set_nd", "_scatter_nd"},
    {"_shuffle", "sum"},
    {"batch_take", "sum"},
    {"col2im", "_pooling_grad"},
    {"im2col", "_scatter_along_axis"},
    {"log_softmax", "softmax"},
    {"pick", "sum"},
    {"scatter_nd", "_scatter_nd"},
    {"shape_array", "sum"},
    {"size_array", "sum"},
    {"softmax_cross_entropy", "softmax"},
    {"softmin", "softmax"},
    {"take", "sum"},
    {"topk", "sum"},
};

struct Size {
  int64_t h, w;
  int64_t count() const { return h * w; }
};

std::string filled(StringRef text, Size size) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    const char which = text[++i];
    result += std::to_string(which == 'h'   ? size.h
                             : which == 'w' ? size.w
                             : which == 'v' ? size.w - 1
                             : which == 'n' ? size.count()
                                            : size.count() - 1);
  }
  return result;
}

// The numbers of all cases, made once.
struct Numbers {
  std::vector<float> x, ones, zeros;
  Size size;

  Numbers(Size size, bool isMixed) : size(size) {
    const size_t count = static_cast<size_t>(size.count());
    ones.assign(count, 1);
    zeros.assign(count, 0);
    x = ones;
    uint32_t bits = 1;
    for (size_t i = 0; isMixed && i < count; ++i) {
      bits = bits * 1664525 + 1013904223;
      x[i] = std::ldexp(1 + static_cast<float>(bits >> 12) * 0x1p-20f, static_cast<int>(bits >> 8 & 15) - 8);
    }
  }

  // Of the first `number` of them.
  long double expected(Is is, int64_t number) const {
    const auto count = static_cast<long double>(number);
    const long double sum = std::accumulate(x.begin(), x.begin() + number, 0.0L);
    switch (is) {
      case Is::Sum: return sum;
      case Is::Mean: return sum / count;
      case Is::Root: return std::sqrt(count);
      case Is::Inverse: return 1 / count;
    }
    return 0;
  }
};

using Shape = std::vector<int64_t>;

// The shapes of the variables.
std::map<std::string, Shape> shapesOf(const Sum &sum, Size size) {
  std::map<std::string, Shape> shapes;
  const std::string text = filled(sum.shapes, size);
  SmallVector<StringRef, 8> parts;
  StringRef(text).split(parts, "; ");
  for (StringRef part : parts) {
    const auto [name, dims] = part.split('=');
    SmallVector<StringRef, 6> list;
    dims.split(list, ',');
    for (StringRef dim : list) shapes[name.str()].push_back(std::stoll(dim.str()));
  }
  return shapes;
}

std::vector<float> valuesOf(const Sum &sum, TestGraph &g, Numbers &numbers, Backend backend, unsigned threads) {
  SessionOptions options;
  const std::map<std::string, Shape> shapes = shapesOf(sum, numbers.size);
  for (const auto &[name, shape] : shapes) {
    std::vector<float> &values = name == "x" ? numbers.x : name == "i" ? numbers.zeros : numbers.ones;
    options.variableMemory.push_back({nodeNamed(g, name), {values.data(), DType::Float32, shape}});
  }
  options.exec.backend = backend;
  options.exec.threads = threads;
  options.exec.isTraining = true;
  std::vector<float> found;
  Expected<Session> session = Session::create(g.context, g, {}, options);
  if (!session) return ADD_FAILURE() << toString(session.takeError()), found;
  if (Error error = session->run(1)) return ADD_FAILURE() << toString(std::move(error)), found;
  for (size_t h = 0; h < g.graph.heads().size(); ++h) {
    const TensorRef head = session->head(h);
    const float *values = head.as<const float>();
    if (sum.at == At::All) found.insert(found.end(), values, values + std::min<int64_t>(head.size(), 64));
    else found.push_back(values[sum.at == At::First ? 0 : head.size() - 1]);
  }
  return found;
}

// The largest relative error of a pairwise sum of `count` numbers above 0 in float32.
double pairwiseError(int64_t count) { return std::log2(static_cast<double>(count)) * 0x1p-24; }

void check(const Sum &sum, Numbers &numbers, bool isOnes) {
  const std::string text = filled(sum.text, numbers.size);
  SCOPED_TRACE(text + ", " + filled(sum.shapes, numbers.size));
  TestGraph g(text);
  const int64_t count = productOf(shapesOf(sum, numbers.size).at("x")).nearest();
  const long double expected = numbers.expected(sum.is, count);
  const auto relative = [&](float found) { return std::abs(static_cast<double>((found - expected) / expected)); };
  const std::vector<float> reference = valuesOf(sum, g, numbers, Backend::Reference, isOnes ? 1 : 3);
  ASSERT_FALSE(reference.empty());
  // A float64 accumulator, rounded once; a mean's quotient, once more.
  for (float found : reference) EXPECT_LE(relative(found), sum.is == Is::Sum ? 0x1.1p-24 : 0x1.1p-23) << found;
  std::vector<float> alone;
  for (unsigned threads : {1u, 2u, 3u, 4u}) {
    const std::vector<float> fast = valuesOf(sum, g, numbers, Backend::Auto, threads);
    for (float found : fast) EXPECT_LE(relative(found), pairwiseError(count)) << found << ", " << threads;
    if (threads == 1) alone = fast;
    if (sum.bits == Bits::OwnLoop) {
      EXPECT_EQ(fast, alone) << threads;
    }
    if (threads == 3 && !isOnes) {
      EXPECT_EQ(valuesOf(sum, g, numbers, Backend::Auto, 3), fast) << "a second time";
    }
  }
}

TEST(LongSums, RUN_02_ManyOnes) {
  Numbers numbers({8192, 4096}, false);
  for (const Sum &sum : kSums)
    if (sum.isLong) check(sum, numbers, true);
}

TEST(LongSums, RUN_02_NumbersOfMixedSize) {
  Numbers numbers({3200, 3125}, true);
  for (const Sum &sum : kSums)
    if (sum.is == Is::Sum || sum.is == Is::Mean) check(sum, numbers, false);
}

// Whether what the operator finally decomposes into adds up any number of elements.
bool addsUp(const OperatorNeeds &needs) {
  return any_of(needs.operators, [](const OpDef *op) { return op->primitive.c.contains("+="); });
}

TEST(LongSums, RUN_02_EveryOperatorThatAddsUpIsHere) {
  TestContext context;
  std::set<std::string> found, covered;
  for (const Sum &sum : kSums) covered.insert(sum.op);
  for (const auto &[op, loop] : kShared) {
    EXPECT_TRUE(covered.insert(op.str()).second) << op.str() << " is in both tables";
  }
  for (const Sample &sample : allSamples()) {
    const SampleGraph graph(context, sample);
    const Orders orders(context, graph, std::min(sample.orders, 2u));
    auto add = [&](const Graph &g) {
      InferOptions options;
      options.defaultFloat = graph.options.floatAs;
      const Inference known = cantFail(infer(context, g, hintsOf(g, orders.bindings), options));
      for (const auto &[op, needs] : needsOf(context, g, kNoTarget, &known))
        if (addsUp(needs)) found.insert(op->name.str());
    };
    add(graph.graph);
    for (const Graph &g : orders.graphs) add(g);
  }
  std::string missing;
  for (const std::string &op : found)
    if (!covered.count(op)) missing += op + "\n";
  EXPECT_EQ(missing, "") << "add a case, or name the loop that the operator shares";
}

}  // namespace
}  // namespace gradc
