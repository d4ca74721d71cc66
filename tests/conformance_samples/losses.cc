// Samples of operators that carry their own loss, and of BlockGrad.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

namespace {

// Rows over all axes but the first, probabilities, labels of other ranks, every way to count, one class and none.
void addLabelLayouts(std::vector<Sample> &list) {
  const char *op = "SoftmaxOutput";
  list.push_back({op, "", {{2, 3, 2}, {2, 3}}});
  list.push_back({op, "smooth_alpha=0.2", {{2, 2, 2}, {2, 2}}});
  list.push_back({op, "smooth_alpha=0.2, preserve_shape=True, normalization=batch", {{2, 3, 3}, {2, 3}}});
  list.push_back({op, "smooth_alpha=0.2", {{3, 1}, {3}}, 3, 0, 0, 1});
  list.push_back({op, "normalization=batch", {{4, 3}, {4, 3}}});
  list.push_back({op, "", {{3}, {3}}});
  list.push_back({op, "multi_output=True, normalization=batch", {{2, 3, 2, 2}, {2, 2, 2}}});
  list.push_back({op, "multi_output=True, normalization=valid, grad_scale=3", {{2, 3, 2, 2}, {2, 1, 2, 2}}});
  list.push_back({op, "multi_output=True", {{3, 2}, {3, 1}}, 3, 0, 0, 2});
  list.push_back({op, "multi_output=True, use_ignore=True, ignore_label=0", {{2, 3, 2}, {2, 2}}});
  list.push_back({op, "normalization=valid, use_ignore=True, ignore_label=0.7", {{5, 3}, {5}}});
  list.push_back({op, "preserve_shape=True, normalization=valid, ignore_label=2", {{2, 2, 3}, {2, 2}}});
  list.push_back({op, "", {{0, 3}, {0}}});
}

}  // namespace

std::vector<Sample> lossSamples() {
  std::vector<Sample> list;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0, 2}, {1, 1}, {3, 1, 2}}) {
    list.push_back({"BlockGrad", "", {shape}});
    list.push_back({"make_loss", "", {shape}});
    list.push_back({"MakeLoss", "grad_scale=0.5", {shape}});
  }
  list.push_back({"MakeLoss", "normalization=batch", {{4, 2}}});
  list.push_back({"MakeLoss", "normalization=batch", {{}}});
  list.push_back({"MakeLoss", "normalization=batch", {{3}}});
  list.push_back({"MakeLoss", "normalization=batch", {{2, 3, 2}}});
  list.push_back({"MakeLoss", "normalization=valid, valid_thresh=100", {{2, 2}}});
  list.push_back({"MakeLoss", "normalization=valid, valid_thresh=0.3", {{3, 5}}});
  list.push_back({"SoftmaxOutput", "", {{4, 3}, {4}}});
  list.push_back({"SoftmaxOutput", "normalization=batch, grad_scale=2", {{4, 3}, {4}}});
  list.push_back({"SoftmaxOutput", "normalization=valid, use_ignore=True, ignore_label=1", {{5, 3}, {5}}});
  list.push_back({"SoftmaxOutput", "multi_output=True, use_ignore=True, ignore_label=2", {{2, 3, 4}, {2, 4}}});
  list.push_back({"SoftmaxOutput", "preserve_shape=True", {{2, 2, 3}, {2, 2}}});
  list.push_back({"SoftmaxOutput", "smooth_alpha=0.1", {{4, 3}, {4}}});
  list.push_back({"SoftmaxOutput", "", {{1, 1}, {1}}, 3, 0, 0, 1});
  addLabelLayouts(list);
  for (const char *op : {"LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"}) {
    list.push_back({op, "grad_scale=0.5", {{2, 2, 2}, {2, 2, 2}}});
    list.push_back({op, "grad_scale=2", {{0, 2}, {0, 2}}});
  }
  list.push_back({"LinearRegressionOutput", "", {{3, 2}, {3, 2}}});
  list.push_back({"LinearRegressionOutput", "grad_scale=0.25", {{3, 1}, {3}}});
  list.push_back({"LinearRegressionOutput", "", {{1}, {1}}});
  list.push_back({"LinearRegressionOutput", "", {{}, {}}});
  list.push_back({"LinearRegressionOutput", "", {{2, 3}, {2, 3, 1}}});
  list.push_back({"LogisticRegressionOutput", "", {{3, 2}, {3, 2}}});
  list.push_back({"LogisticRegressionOutput", "grad_scale=3", {{4, 1}, {4}}});
  list.push_back({"LogisticRegressionOutput", "", {{1, 1}, {1, 1}}});
  list.push_back({"MAERegressionOutput", "", {{3, 2}, {3, 2}}});
  list.push_back({"MAERegressionOutput", "grad_scale=2", {{4}, {4}}});
  list.push_back({"MAERegressionOutput", "", {{1, 1}, {1, 1}}});
  return list;
}

std::vector<Sample> allSamples() {
  std::vector<Sample> list;
  for (std::vector<Sample> part :
       {elementwiseSamples(), shapeSamples(), layerSamples(), poolingSamples(), lossSamples(), visionSamples(),
        movementSamples(), extremaSamples(), sequenceSamples(), optimizerSamples(), orderingSamples(),
        indexingSamples(), networkSamples(), rnnSamples(), ctcSamples(), randomSamples()})
    list.insert(list.end(), part.begin(), part.end());
  return list;
}

}  // namespace gradc::testing
