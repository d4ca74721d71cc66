// Samples of bilinear resizing, InstanceNorm, the gamma functions, SequenceMask and scaled attention scores.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addResize(std::vector<Sample> &list) {
  const char *op = "_contrib_BilinearResize2D";
  for (const char *attrs :
       {"height=3, width=5", "height=3, width=5, align_corners=False", "height=1, width=1",
        "height=1, width=7, align_corners=False", "scale_height=1.5, scale_width=0.5",
        "mode=odd_scale, scale_height=2, scale_width=0.5", "mode=to_even_up", "mode=to_odd_down", "height=7, width=6"})
    list.push_back({op, attrs, {{2, 1, 3, 4}}});
  list.push_back({op, "mode=like", {{1, 2, 2, 3}, {2, 1, 4, 2}}});
  list.push_back({op, "height=2, width=2", {{1, 1, 1, 1}}});
  list.push_back({op, "height=2, width=2", {{0, 2, 3, 3}}});
}

void addInstanceNorm(std::vector<Sample> &list) {
  list.push_back({"InstanceNorm", "eps=0.1", {{2, 3, 4}, {3}, {3}}, 2});
  list.push_back({"InstanceNorm", "eps=0.5", {{2, 2, 2, 2}, {2}, {2}}, 2});
  list.push_back({"InstanceNorm", "eps=0.5", {{1, 2, 3}, {2}, {2}}});
  list.push_back({"InstanceNorm", "", {{2, 3}, {3}, {3}}, 2});
  list.push_back({"InstanceNorm", "eps=1", {{1, 1, 1}, {1}, {1}}});
  list.push_back({"InstanceNorm", "", {{0, 3, 2}, {3}, {3}}});
}

void addGamma(std::vector<Sample> &list) {
  for (const char *op : {"gamma", "gammaln"}) {
    list.push_back({op, "", {{2, 3}}, 3, 0.5, 4});
    list.push_back({op, "", {{4}}, 3, -0.7, -0.3});
    list.push_back({op, "", {{2, 2}}, 3, -2.6, -2.3});
    list.push_back({op, "", {{}}, 3, 5, 6});
    list.push_back({op, "", {{0, 2}}});
  }
  for (const char *attrs : {"", "order=1", "order=2", "order=5"})
    list.push_back({"_polygamma", attrs, {{3}}, 3, 0.6, 3});
  list.push_back({"_polygamma", "order=3", {{3}}, 2, -1.6, -1.4});
}

void addSequences(std::vector<Sample> &list) {
  list.push_back({"SequenceMask", "", {{3, 2}}});
  list.push_back({"SequenceMask", "use_sequence_length=True", {{3, 2, 2}, {2}}, 3, 1, 3});
  list.push_back({"SequenceMask", "use_sequence_length=True, axis=1, value=-0.3", {{2, 4}, {2}}, 3, 0, 4});
  list.push_back({"SequenceMask", "use_sequence_length=True, value=2", {{1, 1, 1}, {1}}, 3, 0, 1});
  list.push_back({"SequenceMask", "use_sequence_length=True", {{3, 0, 2}, {0}}});
  list.push_back({"SequenceMask", "use_sequence_length=True", {{3, 2}, {2}}, 3, -1, 5});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {5}, {2, 0}, {1, 2, 2}})
    list.push_back({"_contrib_div_sqrt_dim", "", {shape}});
}

void addRanges(std::vector<Sample> &list) {
  for (const char *attrs : {"start=0, stop=5", "start=1, stop=2, step=0.25", "start=3, stop=0, step=-1, repeat=2",
                            "start=-1, stop=1, step=0.5, dtype=float64", "start=0, stop=3, dtype=int32"})
    list.push_back({"_arange", attrs, {}});
  for (const char *attrs : {"start=0.6, stop=7.9, step=1.7, dtype=int64", "start=300, stop=0, step=-100, dtype=uint8",
                            "start=2, stop=4, repeat=3, dtype=int32", "start=1, stop=3.5, infer_range=True"})
    list.push_back({"_arange", attrs, {}});
}

}  // namespace

std::vector<Sample> sequenceSamples() {
  std::vector<Sample> list;
  addResize(list);
  addInstanceNorm(list);
  addGamma(list);
  addSequences(list);
  addRanges(list);
  return list;
}

}  // namespace gradc::testing
