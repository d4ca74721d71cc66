// Samples of leaky activations, softmaxes, normalisations, layers that enlarge or shrink images, and parts of
// transformers.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addLeaky(std::vector<Sample> &list) {
  for (const char *attrs : {"act_type=leaky, slope=0.1", "act_type=elu, slope=0.7", "act_type=selu", "act_type=gelu",
                            "act_type=rrelu, lower_bound=0.1, upper_bound=0.3"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 4, 1}, {0, 3}})
      list.push_back({"LeakyReLU", attrs, {shape}});
  list.push_back({"LeakyReLU", "act_type=prelu", {{2, 3, 2}, {3}}});
  list.push_back({"LeakyReLU", "act_type=prelu", {{4, 2}, {2}}});
  list.push_back({"LeakyReLU", "act_type=prelu", {{2, 1, 3}, {1}}});
  list.push_back({"LeakyReLU", "act_type=prelu", {{3}, {3}}});
  list.push_back({"LeakyReLU", "act_type=prelu", {{0, 2}, {2}}});
  list.push_back({"LeakyReLU", "act_type=rrelu", {{2, 3}}, 2, 0, 0, 3, false});
}

void addFunctions(std::vector<Sample> &list) {
  for (const char *op : {"erf", "round", "smooth_l1", "hard_sigmoid"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 1, 5}, {2, 0}, {7}})
      list.push_back({op, "", {shape}});
  list.push_back({"erf", "", {{6}}, 3, 1e-4, 1e-3});
  list.push_back({"smooth_l1", "scalar=3", {{3, 3}}});
  list.push_back({"smooth_l1", "scalar=0.5", {{3}}});
  list.push_back({"smooth_l1", "scalar=0", {{3}}});
  list.push_back({"hard_sigmoid", "alpha=1.1, beta=0.3", {{3, 3}}});
  for (const char *attrs : {"a=0.5, b=-2, c=3", "a=-1.25", "b=3, c=1", ""})
    list.push_back({"_contrib_quadratic", attrs, {{2, 3}}});
  list.push_back({"_contrib_quadratic", "a=2, b=1", {{}}});
  list.push_back({"_contrib_quadratic", "a=2, b=1", {{0, 2}}});
}

// Their gradient is not that of their values: gradcheck_test checks it on its piece, and MXNet's is recorded.
void addDeclaredGradients(std::vector<Sample> &list) {
  for (const char *op : {"_contrib_round_ste", "_contrib_sign_ste", "_contrib_gradientmultiplier"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 1, 5}, {2, 0}, {7}})
      list.push_back({op, "", {shape}, 0});
  list.push_back({"_contrib_gradientmultiplier", "scalar=1", {{2, 3}}});
  list.push_back({"_contrib_gradientmultiplier", "scalar=-0.75", {{2, 3}}, 0});
  list.push_back({"_contrib_gradientmultiplier", "scalar=0", {{3}}, 0});
}

void addSoftmaxes(std::vector<Sample> &list) {
  for (const char *op : {"softmax", "softmin", "log_softmax"}) {
    list.push_back({op, "", {{2, 3}}});
    list.push_back({op, "axis=1, temperature=0.7", {{2, 3, 2}}});
    list.push_back({op, "axis=0", {{3}}});
    list.push_back({op, "axis=-2, temperature=3", {{2, 2, 1}}});
    list.push_back({op, "dtype=float64", {{2, 3}}});
    list.push_back({op, "", {{1, 1}}});
    list.push_back({op, "", {{0, 3}}});
  }
  list.push_back({"softmax", "use_length=True", {{2, 4}, {2}}, 3, 1, 4});
  list.push_back({"softmax", "use_length=True, axis=1, temperature=2", {{2, 3, 2}, {2, 2}}, 3, 1, 4});
  list.push_back({"softmax", "use_length=True, axis=-2", {{2, 3, 2}, {2, 2}}, 3, -1, 5});
  list.push_back({"softmax", "use_length=True", {{}, {}}, 3, 0, 2});
  list.push_back({"softmax", "use_length=True", {{3, 2}, {3}}, 3, -2, 0.9});
  for (const char *attrs : {"mode=instance", "mode=channel"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3, 2}, {1, 4, 1}, {2, 2, 1, 2}, {1, 1, 1}, {0, 3, 2}})
      list.push_back({"SoftmaxActivation", attrs, {shape}});
  list.push_back({"SoftmaxActivation", "", {{4}}});
}

void addLrn(std::vector<Sample> &list) {
  list.push_back({"LRN", "nsize=3, alpha=0.5, knorm=1.5", {{1, 4, 2, 1}}});
  list.push_back({"LRN", "nsize=5, alpha=2, beta=0.5, knorm=1", {{2, 3, 2}}});
  list.push_back({"LRN", "nsize=1, alpha=1, beta=1", {{2, 2}}});
  list.push_back({"LRN", "nsize=7, alpha=1, beta=0.25", {{1, 2, 1, 1, 2}}});
  list.push_back({"LRN", "nsize=3", {{1, 1}}});
  list.push_back({"LRN", "nsize=3", {{0, 2, 2}}});
  list.push_back({"LRN", "nsize=3", {{2, 3, 0, 4}}});
  list.push_back({"LRN", "nsize=71, alpha=1, beta=0.5", {{1, 3, 2}}, 2});
  list.push_back({"_channel_window_sum", "nsize=3", {{2, 4, 2}}});
}

void addL2Normalization(std::vector<Sample> &list) {
  for (const char *attrs : {"mode=instance, eps=0.1", "mode=channel, eps=0.1", "mode=spatial, eps=0.1"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3, 2}, {1, 2, 2, 2}, {1, 1, 1}, {0, 2, 2}})
      list.push_back({"L2Normalization", attrs, {shape}});
  list.push_back({"L2Normalization", "eps=0.5", {{2, 2}}});
  list.push_back({"L2Normalization", "mode=channel", {{2, 0, 3}}, 2});
}

void addDeconvolutions(std::vector<Sample> &list) {
  list.push_back({"Deconvolution", "kernel=(3,), num_filter=2", {{2, 2, 4}, {2, 2, 3}}});
  list.push_back({"Deconvolution",
                  "kernel=(3,3), num_filter=2, stride=(2,2), pad=(1,1), adj=(1,0), no_bias=False",
                  {{1, 2, 2, 3}, {2, 2, 3, 3}, {2}}});
  list.push_back(
      {"Deconvolution", "kernel=(2,2), num_filter=4, num_group=2, dilate=(2,1)", {{1, 4, 2, 2}, {4, 2, 2, 2}}, 2});
  list.push_back(
      {"Deconvolution", "kernel=(3,2), num_filter=2, stride=(2,2), target_shape=(4,3)", {{1, 2, 2, 2}, {2, 2, 3, 2}}});
  list.push_back({"Deconvolution",
                  "kernel=(2,2), num_filter=2, stride=(1,2), layout=NHWC, no_bias=False",
                  {{1, 2, 2, 3}, {3, 2, 2, 2}, {2}},
                  2});
  list.push_back(
      {"Deconvolution", "kernel=(2,1,2), num_filter=1, stride=(1,1,2)", {{1, 1, 2, 1, 2}, {1, 1, 2, 1, 2}}, 2});
  // The padding of the first axis cuts off all images but one.
  list.push_back({"Deconvolution", "kernel=(1,3,1), num_filter=1, pad=(2,1,0)", {{1, 2, 5, 3, 2}, {2, 1, 1, 3, 1}}, 2});
  list.push_back({"Deconvolution", "kernel=(1,1), num_filter=1", {{1, 1, 1, 1}, {1, 1, 1, 1}}});
  list.push_back({"Deconvolution", "kernel=(2,), num_filter=2, no_bias=False", {{0, 1, 2}, {1, 2, 2}, {2}}, 2});
  list.push_back({"Deconvolution", "kernel=(2,), num_filter=2, no_bias=False", {{1, 0, 2}, {0, 2, 2}, {2}}, 2});
}

void addResizing(std::vector<Sample> &list) {
  list.push_back({"UpSampling", "scale=2, sample_type=nearest, num_args=1", {{2, 2, 2, 3}}});
  list.push_back({"UpSampling", "scale=2, sample_type=nearest, num_args=2", {{1, 1, 2, 2}, {1, 2, 1, 1}}});
  list.push_back({"UpSampling",
                  "scale=2, sample_type=nearest, num_args=3, multi_input_mode=sum",
                  {{1, 2, 2, 2}, {1, 2, 4, 4}, {1, 2, 1, 1}}});
  list.push_back({"UpSampling", "scale=1, sample_type=nearest, num_args=1", {{1, 1, 1, 1}}});
  list.push_back({"UpSampling", "scale=3, sample_type=nearest, num_args=1", {{0, 2, 2, 1}}});
  list.push_back(
      {"UpSampling", "scale=2, sample_type=bilinear, num_args=1, num_filter=2", {{1, 2, 2, 2}, {2, 1, 4, 4}}});
  list.push_back(
      {"UpSampling", "scale=3, sample_type=bilinear, num_args=2, num_filter=1", {{1, 1, 1, 2}, {1, 1, 5, 5}}, 2});
  list.push_back(
      {"UpSampling", "scale=2, sample_type=bilinear, num_args=2, num_filter=3", {{2, 3, 0, 4}, {3, 1, 4, 4}}, 2});
  for (const char *attrs : {"", "output_size=1", "output_size=(2,3)", "output_size=(3,1)", "output_size=(5,)"})
    list.push_back({"_contrib_AdaptiveAvgPooling2D", attrs, {{2, 2, 3, 4}}});
  list.push_back({"_contrib_AdaptiveAvgPooling2D", "output_size=2", {{1, 1, 1, 1}}});
  list.push_back({"_contrib_AdaptiveAvgPooling2D", "output_size=2", {{0, 1, 3, 2}}});
}

void addTransformers(std::vector<Sample> &list) {
  list.push_back({"LayerNorm", "", {{3, 4}, {4}, {4}}, 2});
  list.push_back({"LayerNorm", "axis=1, eps=0.1", {{2, 3, 2}, {3}, {3}}, 2});
  list.push_back({"LayerNorm", "axis=0, eps=0.5", {{4, 2}, {4}, {4}}, 3});
  list.push_back({"LayerNorm", "eps=0.1, output_mean_var=True", {{2, 3}, {3}, {3}}, 2});
  list.push_back({"LayerNorm", "eps=1", {{1, 1}, {1}, {1}}});
  list.push_back({"LayerNorm", "", {{0, 3}, {3}, {3}}});
  list.push_back({"LayerNorm", "", {{2, 0}, {0}, {0}}, 2});
  list.push_back({"Embedding", "input_dim=3, output_dim=2", {{4}, {3, 2}}});
  list.push_back({"Embedding", "input_dim=3, output_dim=1", {{2, 3}, {3, 1}}});
  list.push_back({"Embedding", "input_dim=2, output_dim=3, sparse_grad=True", {{5}, {2, 3}}});
  list.push_back({"Embedding", "input_dim=1, output_dim=1", {{1}, {1, 1}}});
  list.push_back({"Embedding", "input_dim=2, output_dim=2", {{0, 3}, {2, 2}}});
  list.push_back({"batch_dot", "", {{2, 2, 3}, {2, 3, 2}}});
  list.push_back({"batch_dot", "transpose_a=True", {{2, 3, 2}, {2, 3, 1}}});
  list.push_back({"batch_dot", "transpose_b=True", {{1, 2, 3}, {1, 4, 3}}});
  list.push_back({"batch_dot", "transpose_a=True, transpose_b=True", {{2, 3, 2}, {2, 1, 3}}});
  list.push_back({"batch_dot", "", {{1, 1, 1}, {1, 1, 1}}});
  list.push_back({"batch_dot", "", {{0, 2, 3}, {0, 3, 2}}});
  list.push_back({"batch_dot", "", {{2, 2, 0}, {2, 0, 3}}});
}

}  // namespace

std::vector<Sample> visionSamples() {
  std::vector<Sample> list;
  addLeaky(list);
  addFunctions(list);
  addDeclaredGradients(list);
  addSoftmaxes(list);
  addLrn(list);
  addL2Normalization(list);
  addDeconvolutions(list);
  addResizing(list);
  addTransformers(list);
  return list;
}

}  // namespace gradc::testing
