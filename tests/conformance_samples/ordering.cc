// Samples of norms, products, running sums, positions of extrema, sorting and shuffling.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

std::vector<Sample> orderingSamples() {
  std::vector<Sample> list;
  for (const char *attrs : {"", "ord=1", "axis=1", "ord=1, axis=(0,2), keepdims=True", "axis=-1, keepdims=True",
                            "axis=(0,1,2), ord=2, out_dtype=None"})
    list.push_back({"norm", attrs, {{2, 3, 2}}});
  list.push_back({"norm", "axis=1", {{4, 1}}, 3, 0.5, 1.5});
  list.push_back({"norm", "ord=1, axis=0", {{3}}});
  list.push_back({"norm", "axis=1", {{0, 3}}});
  list.push_back({"norm", "axis=1", {{2, 0}}});
  for (const char *op : {"norm", "nansum", "nanprod", "prod", "argmax"}) list.push_back({op, "", {{}}});
  for (const char *op : {"topk", "sort", "argsort"}) list.push_back({op, "axis=None", {{}}, 2});
  for (const char *op : {"nansum", "nanprod"}) {
    list.push_back({op, "", {{2, 3}}});
    list.push_back({op, "axis=1", {{2, 3, 2}}});
    list.push_back({op, "axis=(0,2), keepdims=True", {{2, 2, 2}}});
    list.push_back({op, "axis=1, exclude=True", {{2, 3, 1}}});
    list.push_back({op, "axis=-1", {{4, 1}}});
    list.push_back({op, "axis=1", {{0, 3}}});
  }
  list.push_back({"_product_gradient", "axis=1", {{2, 3}}});
  list.push_back({"_product_gradient", "axis=1, num_args=2", {{2, 3}, {2, 3}}});
  list.push_back({"_product_gradient", "axis=(0,2), num_args=3", {{2, 1, 2}, {2, 1, 2}, {2, 1, 2}}, 1});
  list.push_back({"_product_gradient", "axis=0, num_args=2", {{1, 2}, {1, 2}}, 2});
  list.push_back({"_product_gradient", "axis=1", {{2, 0}}});
  list.push_back({"_product_gradient", "axis=(0,1), num_args=2", {{2, 0}, {2, 0}}});
  list.push_back({"_product_gradient", "axis=(0,2), num_args=2", {{2, 0, 2}, {2, 0, 2}}});
  list.push_back({"_product_gradient", "num_args=2", {{}, {}}});
  for (const char *attrs : {"", "axis=0", "axis=1", "axis=2", "axis=1, dtype=float64", "dtype=float64"})
    list.push_back({"_np_cumsum", attrs, {{2, 3, 2}}});
  list.push_back({"_np_cumsum", "axis=-1", {{2, 3}}});
  list.push_back({"_np_cumsum", "axis=0", {{1}}});
  list.push_back({"_np_cumsum", "", {{}}});
  list.push_back({"_np_cumsum", "axis=1", {{2, 0}}});
  list.push_back({"_np_cumsum", "", {{0, 2}}});
  for (const char *attrs : {"axes=1", "axes=(0,2)", "axes=(0,1,2), keepdims=True", "axes=-1, keepdims=True"})
    list.push_back({"moments", attrs, {{2, 3, 2}}});
  list.push_back({"moments", "axes=0", {{3}}});
  list.push_back({"moments", "axes=1", {{4, 1}}});
  list.push_back({"moments", "axes=0", {{2, 0}}});
  for (const char *op : {"argmax", "argmin"}) {
    for (const char *attrs : {"", "axis=0", "axis=1", "axis=-1, keepdims=True", "keepdims=True"})
      list.push_back({op, attrs, {{2, 3, 2}}});
    list.push_back({op, "axis=0", {{1}}});
    list.push_back({op, "axis=1", {{0, 3}}});
  }
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {2, 3, 2}, {4, 1}, {1, 5}, {0, 3}})
    list.push_back({"argmax_channel", "", {shape}});
  for (const char *attrs : {"ret_typ=value", "ret_typ=value, k=2, axis=1", "ret_typ=value, k=3, axis=0, is_ascend=True",
                            "ret_typ=value, k=4, axis=None", "ret_typ=both, k=2, axis=-2", "ret_typ=both, k=0, axis=2",
                            "ret_typ=both, k=-1, axis=None, is_ascend=True, dtype=int32", "",
                            "k=2, axis=0, dtype=int64", "k=2, axis=None, dtype=float64", "ret_typ=mask, k=2, axis=1",
                            "ret_typ=mask, k=5, axis=None, is_ascend=True", "ret_typ=mask, axis=0"})
    list.push_back({"topk", attrs, {{3, 2, 2}}});
  list.push_back({"topk", "ret_typ=value, axis=0", {{1}}});
  list.push_back({"topk", "ret_typ=both, axis=1", {{0, 2}}});
  list.push_back({"topk", "ret_typ=value, k=0, axis=1", {{2, 0}}});
  for (const char *attrs : {"", "axis=0", "axis=1, is_ascend=False", "axis=None", "axis=-1, is_ascend=0"})
    list.push_back({"sort", attrs, {{2, 3, 2}}});
  list.push_back({"sort", "axis=0", {{1}}});
  list.push_back({"sort", "axis=1", {{0, 3}}});
  for (const char *attrs :
       {"", "axis=0, dtype=int32", "axis=1, is_ascend=False", "axis=None, dtype=float64", "axis=-1, dtype=uint8"})
    list.push_back({"argsort", attrs, {{2, 3, 2}}});
  list.push_back({"argsort", "axis=1", {{0, 3}}});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{4, 3}, {5}, {3, 1, 2}, {1, 2}, {1, 1, 3}, {0, 2}, {2, 0}})
    list.push_back({"_shuffle", "", {shape}});
  list.push_back({"_sort_order", "axis=1, is_ascend=False", {{2, 3, 2}}});
  list.push_back({"_sort_order", "axis=0", {{0, 2}}});
  for (const char *attrs : {"axis=1", "axis=-2"}) {
    list.push_back({"_take_along_axis", attrs, {{2, 3, 2}, {2, 4, 2}}});
    list.push_back({"_scatter_along_axis", attrs, {{2, 4, 2}, {2, 4, 2}, {2, 3, 2}}});
  }
  list.push_back({"_take_along_axis", "axis=0", {{2}, {0}}});
  list.push_back({"_scatter_along_axis", "axis=0", {{0}, {0}, {2}}});
  return list;
}

}  // namespace gradc::testing
