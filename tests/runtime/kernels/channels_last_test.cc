// Layers between others that want channels-last images: values and gradients against the reference kernels, and how
// many entries are channels-last.
#include "tests/support/ops/derivative.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

namespace gradc {
namespace {

using namespace gradc::testing;

/// A layer from `a`, 32 channels-last images, to `y`.
struct Layer {
  const char *what, *text;
  bool hasBias;
  /// The layer's input and output, what the relu beside each of them reads or writes, and their gradients: 8 entries.
  uint32_t numChannelsLast;
};

const Layer kLayers[] = {
    {"depthwise", "Convolution(a, w, b) {kernel=(3,3), pad=(1,1), num_filter=32, num_group=32}", true, 8},
    {"depthwise, strided and dilated",
     "Convolution(a, w) {kernel=(3,2), stride=(2,1), dilate=(1,2), pad=(2,1), num_filter=32, num_group=32, "
     "no_bias=True}",
     false, 8},
    {"depthwise of one pixel", "Convolution(a, w, b) {kernel=(1,1), num_filter=32, num_group=32}", true, 8},
    {"depthwise of 32 taps", "Convolution(a, w, b) {kernel=(4,8), num_filter=32, num_group=32}", true, 8},
    {"two filters a channel", "Convolution(a, w) {kernel=(3,3), num_filter=64, num_group=32, no_bias=True}", false, 8},
    {"two groups", "Convolution(a, w, b) {kernel=(3,3), num_filter=48, num_group=2}", true, 8},
    {"deconvolution", "Deconvolution(a, w, b) {kernel=(2,2), stride=(2,2), num_filter=16, no_bias=False}", true, 8},
    {"padded deconvolution",
     "Deconvolution(a, w, b) {kernel=(4,3), stride=(2,1), pad=(1,1), adj=(1,0), num_filter=48, no_bias=False}", true,
     8},
    {"deconvolution in groups", "Deconvolution(a, w) {kernel=(3,3), num_filter=32, num_group=2, no_bias=True}", false,
     8},
    {"depthwise deconvolution",
     "Deconvolution(a, w, b) {kernel=(4,4), stride=(2,2), pad=(1,1), num_filter=32, num_group=32, no_bias=False}", true,
     8},
    {"deconvolution to few channels",
     "Deconvolution(a, w, b) {kernel=(3,3), stride=(2,2), num_filter=3, no_bias=False}", true, 4},
};

/// Runs the gradients of the network's only head toward `data` and `parameters`.
void expectAgreement(const std::string &text, std::vector<std::string> parameters, DimsBuffer data,
                     uint32_t numChannelsLast) {
  for (unsigned threads : {1u, 3u}) {
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, text));
    Bindings bindings = drawBindings(graph, {{"data", data}});
    Array head = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    std::vector<std::string> variables = parameters;
    variables.push_back("data");
    const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
    FastOptions options;
    options.run.floatAs = DType::Float32;
    options.threads = threads;
    const FastResult found = runFast(gradient, bindings, options);
    EXPECT_EQ(found.surprises, "");
    EXPECT_EQ(found.numChannelsLast, numChannelsLast);
    const NaiveRun expected = cantFail(NaiveRun::run(gradient, bindings, options.run));
    EXPECT_EQ(difference(found.heads, expected, gradient, fastTolerance(DType::Float32)), "");
  }
}

TEST(ChannelsLast, RUN_02_LayersAgreeWithReference) {
  for (const Layer &layer : kLayers) {
    SCOPED_TRACE(layer.what);
    std::vector<std::string> parameters = {"v1", "w", "v2"};
    if (layer.hasBias) parameters.push_back("b");
    expectAgreement("c1 = Convolution(data, v1) {kernel=(1,1), num_filter=32, no_bias=True}; a = relu(c1); y = " +
                        std::string(layer.text) +
                        "; r = relu(y); c2 = Convolution(r, v2) {kernel=(1,1), num_filter=16, no_bias=True}; heads c2",
                    parameters, {2, 4, 16, 17}, layer.numChannelsLast);
  }
}

// Lines (n, c, w) have the channels last too.
TEST(ChannelsLast, RUN_02_LinesAgreeWithReference) {
  const Layer layers[] = {
      {"strided", "y = Convolution(a, w, b) {kernel=(5), stride=(2), pad=(1), num_filter=48}", true, 8},
      {"depthwise", "y = Convolution(a, w) {kernel=(3), dilate=(2), num_filter=32, num_group=32, no_bias=True}", false,
       8},
      {"deconvolution", "y = Deconvolution(a, w, b) {kernel=(4), stride=(2), pad=(1), num_filter=16, no_bias=False}",
       true, 8},
      {"norm", "y = BatchNorm(a, w, b, mean, var) {fix_gamma=False}", true, 8},
      {"slopes", "y = LeakyReLU(a, w) {act_type=prelu}", false, 8},
      {"maximum",
       "p = Pooling(a) {kernel=(3), stride=(2), pad=(1), pool_type=max}; y = LeakyReLU(p, w) {act_type=prelu}", false,
       10},
      {"mean", "p = Pooling(a) {kernel=(2), pool_type=avg}; y = LeakyReLU(p, w) {act_type=prelu}", false, 10},
      {"scaling", "m = mean(a) {axis=2, keepdims=True}; p = broadcast_mul(a, m); y = Concat(a, p) {dim=1, num_args=2}",
       false, 13},
  };
  for (const Layer &layer : layers) {
    SCOPED_TRACE(layer.what);
    std::vector<std::string> parameters = {"v1", "v2"};
    if (llvm::StringRef(layer.what) != "scaling") parameters.push_back("w");
    if (layer.hasBias) parameters.push_back("b");
    expectAgreement("c1 = Convolution(data, v1) {kernel=(1), num_filter=32, no_bias=True}; a = relu(c1); " +
                        std::string(layer.text) +
                        "; r = relu(y); c2 = Convolution(r, v2) {kernel=(1), num_filter=16, no_bias=True}; heads c2",
                    parameters, {2, 4, 37}, layer.numChannelsLast);
  }
}

// Images of colours are row-major, what is computed from them is channels-last.
TEST(ChannelsLast, RUN_02_FirstLayersAgreeWithReference) {
  for (int64_t colours : {1, 2, 3, 4, 5})
    for (const char *window : {"kernel=(3,3), pad=(1,1)", "kernel=(7,5), stride=(2,2), pad=(3,2)", "kernel=(1,1)"}) {
      SCOPED_TRACE(::testing::Message() << colours << " colours, " << window);
      expectAgreement("y = Convolution(data, w, b) {num_filter=32, " + std::string(window) +
                          "}; r = relu(y); c = Convolution(r, v) {kernel=(1,1), num_filter=16, no_bias=True}; heads c",
                      {"w", "b", "v"}, {2, colours, 12, 13}, 4);
    }
}

}  // namespace
}  // namespace gradc
