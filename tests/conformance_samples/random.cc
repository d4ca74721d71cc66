// Samples of operators that draw, and of tensors made of indices. Draws are the same at every point, so parameters have
// derivatives.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addDraws(std::vector<Sample> &list) {
  for (const char *attrs : {"shape=(2,3)", "shape=(2,3), low=-1, high=3, dtype=float64", "shape=(1,)",
                            "shape=(4,1,2), low=2, high=2", "shape=(5,), low=-0.5, high=-0.25", "shape=(2,1)"})
    list.push_back({"_random_uniform", attrs, {}, 0});
  for (const char *attrs : {"shape=(2,3)", "shape=(2,3), loc=-1, scale=3, dtype=float64", "shape=(1,)",
                            "shape=(4,1,2), scale=0.25", "shape=(5,), loc=100", "shape=(2,1)"})
    list.push_back({"_random_normal", attrs, {}, 0});
  for (const std::vector<int64_t> &shape : std::vector<std::vector<int64_t>>{{2, 3}, {1}, {4, 1, 2}, {7}, {0, 2}}) {
    list.push_back({"_random_uniform_like", "low=-1, high=3", {shape}, 1});
    list.push_back({"_random_normal_like", "loc=-1, scale=3", {shape}, 1});
  }
}

void addParameters(std::vector<Sample> &list) {
  for (const char *op : {"_sample_uniform", "_sample_normal"}) {
    list.push_back({op, "dtype=float64", {{3}, {3}}});
    list.push_back({op, "shape=(4,), dtype=float64", {{3}, {3}}});
    list.push_back({op, "shape=(2,3), dtype=float64", {{2, 1}, {2, 1}}});
    list.push_back({op, "shape=(1,1)", {{1}, {1}}, 2});
    list.push_back({op, "shape=5, dtype=float64", {{1, 2, 1}, {1, 2, 1}}});
    list.push_back({op, "shape=(2,2), dtype=float32", {{2}, {2}}, 1});
    list.push_back({op, "shape=(3,), dtype=float64", {{0, 2}, {0, 2}}});
    list.push_back({op, "shape=(0,), dtype=float64", {{2}, {2}}});
  }
}

void addRanges(std::vector<Sample> &list) {
  for (const char *attrs : {"N=3", "N=2, M=4, k=1", "N=3, M=2, k=-1, dtype=int32", "N=2, M=3, k=9", "N=4, M=3, k=-3",
                            "N=1", "N=0, M=2", "N=3, k=-2, dtype=float64"})
    list.push_back({"_eye", attrs, {}, 0});
  for (const char *attrs : {"start=0, stop=1, num=5", "start=3, stop=-2, num=4, endpoint=False",
                            "start=2, stop=7, num=1", "start=0, stop=10, num=4, dtype=int32",
                            "start=0, stop=-10, num=4, dtype=int64", "start=0.5, stop=0.5, num=3, dtype=float64",
                            "start=1, stop=2, num=0", "start=2, stop=7, num=1, endpoint=False"})
    list.push_back({"_linspace", attrs, {}, 0});
}

}  // namespace

std::vector<Sample> randomSamples() {
  std::vector<Sample> list;
  addDraws(list);
  addParameters(list);
  addRanges(list);
  return list;
}

}  // namespace gradc::testing
