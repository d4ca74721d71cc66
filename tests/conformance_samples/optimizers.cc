// Samples of optimizer steps. Nothing flows through them, so they are not differentiated; their values are in
// tests/optimizer_ops_test.cc.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

std::vector<Sample> optimizerSamples() {
  std::vector<Sample> list;
  for (const char *attrs : {"lr=0.1", "lr=0.1, wd=0.01, rescale_grad=0.5, clip_gradient=0.25"}) {
    list.push_back({"sgd_update", attrs, {{2, 3}, {2, 3}}, 0});
    list.push_back({"sgd_mom_update", attrs, {{2, 3}, {2, 3}, {2, 3}}, 0});
    list.push_back({"adam_update", attrs, {{2, 3}, {2, 3}, {2, 3}, {2, 3}}, 0});
  }
  for (std::vector<int64_t> shape : {std::vector<int64_t>{1, 4, 1}, {7}}) {
    list.push_back({"sgd_update", "lr=0.5, wd=0.1", {shape, shape}, 0});
    list.push_back({"sgd_mom_update", "lr=0.5, momentum=0.5, wd=0.1", {shape, shape, shape}, 0});
    list.push_back({"adam_update", "lr=0.01, wd=0.1", {shape, shape, shape, shape}, 0});
  }
  list.push_back({"sgd_mom_update", "lr=0.1, momentum=0.9", {{1}, {1}, {1}}, 0});
  list.push_back({"adam_update", "lr=0.1, beta1=0.5, beta2=0.75, epsilon=0.01", {{1}, {1}, {1}, {1}}, 0});
  for (const char *attrs : {"", "rate_factor=0.5, wd=0.01, rescale_grad=0.5, clip_gradient=0.25"}) {
    list.push_back({"_scheduled_sgd_update", attrs, {{2, 3}, {2, 3}, {1}}, 0});
    list.push_back({"_scheduled_sgd_mom_update", attrs, {{2, 3}, {2, 3}, {2, 3}, {1}}, 0});
    list.push_back({"_scheduled_adam_update", attrs, {{2, 3}, {2, 3}, {2, 3}, {2, 3}, {1}}, 0});
  }
  list.push_back({"sgd_update", "lr=1", {{0, 2}, {0, 2}}, 0});
  list.push_back({"_scheduled_sgd_update", "", {{0, 2}, {0, 2}, {1}}, 0});
  return list;
}

}  // namespace gradc::testing
