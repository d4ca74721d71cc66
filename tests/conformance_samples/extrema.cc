// Samples of extrema, clipping, powers and comparisons.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

constexpr const char *kSameShape[] = {"_maximum", "_minimum",       "_equal",  "_not_equal",
                                      "_greater", "_greater_equal", "_lesser", "_lesser_equal"};
constexpr const char *kBroadcasting[] = {"broadcast_maximum",   "broadcast_minimum",     "broadcast_equal",
                                         "broadcast_not_equal", "broadcast_greater",     "broadcast_greater_equal",
                                         "broadcast_lesser",    "broadcast_lesser_equal"};

}  // namespace

std::vector<Sample> extremaSamples() {
  std::vector<Sample> list;
  for (const char *op : kSameShape)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 1}, {7}, {0, 2}})
      list.push_back({op, "", {shape, shape}});
  for (const char *op : kBroadcasting) {
    list.push_back({op, "", {{2, 3}, {2, 3}}});
    list.push_back({op, "", {{3, 1}, {1, 4}}});
    list.push_back({op, "", {{2, 1, 3}, {4, 1}}, 2});
    list.push_back({op, "", {{1}, {5}}});
    list.push_back({op, "", {{0, 2}, {1, 2}}});
  }
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 1}, {4}, {0, 2}})
    list.push_back({"_power", "", {shape, shape}, 3, 0.4, 1.6});
  list.push_back({"broadcast_power", "", {{2, 3}, {2, 3}}, 2, 0.4, 1.6});
  list.push_back({"broadcast_power", "", {{3, 1}, {1, 2}}, 3, 0.4, 1.6});
  list.push_back({"broadcast_power", "", {{2, 2}, {1}}, 3, 0.4, 1.6});
  list.push_back({"broadcast_power", "", {{1}, {4}}, 3, 0.4, 1.6});
  list.push_back({"broadcast_power", "", {{0, 2}, {1, 2}}, 3, 0.4, 1.6});
  for (const char *attrs : {"a_min=-0.5, a_max=0.5", "a_min=0, a_max=6", "a_min=-9, a_max=9", "a_min=0.5, a_max=-0.5"})
    list.push_back({"clip", attrs, {{3, 4}}});
  list.push_back({"clip", "a_min=-0.5, a_max=0.5", {{}}});
  list.push_back({"clip", "a_min=0, a_max=1", {{0, 2}}});
  for (const char *op : {"max", "min", "prod"}) {
    list.push_back({op, "", {{2, 3}}});
    list.push_back({op, "axis=1", {{2, 3, 2}}});
    list.push_back({op, "axis=(0,2), keepdims=True", {{2, 3, 2}}});
    list.push_back({op, "axis=1, exclude=True", {{2, 3, 2}}});
    list.push_back({op, "axis=-1", {{4, 1}}});
    list.push_back({op, "axis=(), keepdims=True", {{1}}});
    list.push_back({op, "axis=1", {{0, 3}}});
  }
  list.push_back({"prod", "axis=0", {{0, 2}}});
  list.push_back({"_repeat_axes_like", "axis=1", {{2, 2}, {2, 3, 2}}});
  list.push_back({"_repeat_axes_like", "axis=(0,2), keepdims=True", {{1, 3, 1}, {2, 3, 2}}});
  list.push_back({"_repeat_axes_like", "", {{1}, {2, 3}}});
  list.push_back({"_repeat_axes_like", "axis=0, exclude=True", {{2}, {2, 3}}});
  list.push_back({"_repeat_axes_like", "axis=0", {{0}, {2, 0}}});
  list.push_back({"_repeat_axes_like", "axis=0", {{2}, {0, 2}}});
  return list;
}

}  // namespace gradc::testing
