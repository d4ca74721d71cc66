// Samples of the layers of networks: dense, convolution, activation, batch normalisation, dropout.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addDense(std::vector<Sample> &list) {
  list.push_back({"FullyConnected", "num_hidden=4", {{2, 3}, {4, 3}, {4}}});
  list.push_back({"FullyConnected", "num_hidden=2, no_bias=True", {{3, 2, 2}, {2, 4}}});
  list.push_back({"FullyConnected", "num_hidden=2, flatten=False", {{2, 3, 2}, {2, 2}, {2}}});
  list.push_back({"FullyConnected", "num_hidden=1", {{1, 1}, {1, 1}, {1}}});
  list.push_back({"FullyConnected", "num_hidden=3, flatten=False, no_bias=True", {{2, 4}, {3, 4}}});
  list.push_back({"FullyConnected", "num_hidden=3", {{2, 0}, {3, 0}, {3}}, 2});
  list.push_back({"FullyConnected", "num_hidden=3", {{0, 2}, {3, 2}, {3}}, 2});
}

void addActivations(std::vector<Sample> &list) {
  for (const char *attrs :
       {"act_type=relu", "act_type=sigmoid", "act_type=tanh", "act_type=softrelu", "act_type=softsign"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 4, 1}, {0, 3}})
      list.push_back({"Activation", attrs, {shape}});
}

void addConvolutions(std::vector<Sample> &list) {
  list.push_back({"Convolution", "kernel=(3,), num_filter=2", {{2, 2, 5}, {2, 2, 3}, {2}}});
  list.push_back({"Convolution", "kernel=(3,3), num_filter=2, pad=(1,1)", {{2, 2, 4, 4}, {2, 2, 3, 3}, {2}}});
  list.push_back(
      {"Convolution", "kernel=(2,3), num_filter=2, stride=(2,1), no_bias=True", {{1, 2, 5, 4}, {2, 2, 2, 3}}});
  list.push_back({"Convolution",
                  "kernel=(2,2), num_filter=4, num_group=2, dilate=(2,1), pad=(0,1)",
                  {{1, 4, 4, 3}, {4, 2, 2, 2}, {4}},
                  2});
  list.push_back({"Convolution", "kernel=(1,1), num_filter=1", {{1, 1, 1, 1}, {1, 1, 1, 1}, {1}}});
  list.push_back({"Convolution",
                  "kernel=(2,1,2), num_filter=2, stride=(1,1,2), pad=(1,0,0)",
                  {{1, 1, 2, 2, 4}, {2, 1, 2, 1, 2}, {2}},
                  2});
  // Without channels, images or pixels there is nothing to add up: the bias, and gradients of 0.
  list.push_back({"Convolution", "kernel=(1,1), num_filter=2", {{1, 0, 2, 2}, {2, 0, 1, 1}, {2}}, 2});
  list.push_back({"Convolution", "kernel=(2,), num_filter=2, num_group=2", {{0, 2, 3}, {2, 1, 2}, {2}}, 2});
  list.push_back({"Convolution", "kernel=(1,), num_filter=1, pad=(1,)", {{1, 1, 0}, {1, 1, 1}, {1}}, 2});
}

void addNormalisations(std::vector<Sample> &list) {
  list.push_back({"BatchNorm", "fix_gamma=False", {{4, 2, 2, 1}, {2}, {2}, {2}, {2}}, 2});
  list.push_back({"BatchNorm", "", {{3, 2, 3}, {2}, {2}, {2}, {2}}, 2});
  list.push_back({"BatchNorm", "fix_gamma=False, axis=-1, eps=0.1", {{3, 2, 2}, {2}, {2}, {2}, {2}}, 3});
  list.push_back({"BatchNorm", "fix_gamma=False, use_global_stats=True", {{3, 2}, {2}, {2}, {2}, {2}}, 3, 0.4, 1.6});
  list.push_back({"BatchNorm", "fix_gamma=False", {{3, 2}, {2}, {2}, {2}, {2}}, 3, 0.4, 1.6, 3, false});
  list.push_back({"BatchNorm", "fix_gamma=False, output_mean_var=True", {{5, 2}, {2}, {2}, {2}, {2}}, 2});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0, 3}})
    list.push_back({"_assign", "", {shape, shape}});
  list.push_back({"Dropout", "p=0.3", {{4, 5}}});
  list.push_back({"Dropout", "p=0.5, axes=(1,)", {{4, 3, 2}}});
  list.push_back({"Dropout", "p=0.5", {{6}}, 2, 0, 0, 3, false});
  list.push_back({"Dropout", "p=0.5, mode=always", {{6}}, 2, 0, 0, 3, false});
  list.push_back({"Dropout", "p=0", {{3}}});
  list.push_back({"Dropout", "axes=(0,)", {{0, 3}}, 2});
  list.push_back({"Dropout", "p=1", {{3, 2}}});
  list.push_back({"Dropout", "p=0.25, axes=(0, 2), mode=always", {{3, 2, 4}}});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0, 3}})
    list.push_back({"_uniform_like", "low=-1, high=3", {shape}});
}

}  // namespace

std::vector<Sample> layerSamples() {
  std::vector<Sample> list;
  addDense(list);
  addActivations(list);
  addConvolutions(list);
  addNormalisations(list);
  return list;
}

}  // namespace gradc::testing
