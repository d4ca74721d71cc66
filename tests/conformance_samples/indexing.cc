// Samples of operators that index. With a range, indices are drawn from it too, and may be outside the axis.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addTake(std::vector<Sample> &list) {
  list.push_back({"take", "", {{3, 2}, {4}}});
  list.push_back({"take", "axis=1, mode=wrap", {{2, 3, 2}, {2, 2}}, 3, -12, 4});
  list.push_back({"take", "axis=-1", {{2, 3}, {5}}, 3, -8, 6});
  list.push_back({"take", "axis=0, mode=raise", {{3, 1, 2}, {1}}});
  list.push_back({"take", "mode=wrap", {{1}, {3}}, 3, -2, 3});
  list.push_back({"take", "axis=-2, mode=raise", {{2, 3, 2}, {3}}});
  list.push_back({"take", "axis=1", {{2, 3}, {}}});
  list.push_back({"take", "axis=1", {{2, 3}, {0, 2}}});
  list.push_back({"take", "", {{0, 3}, {0}}});
  list.push_back({"take", "axis=1", {{0, 3}, {2}}});
  list.push_back({"batch_take", "", {{4, 3}, {4}}});
  list.push_back({"batch_take", "", {{4, 2}, {4}}, 3, -8, 6});
  list.push_back({"batch_take", "", {{2, 5}, {2}}});
  list.push_back({"batch_take", "", {{1, 1}, {1}}, 3, -1, 2});
  list.push_back({"batch_take", "", {{0, 3}, {0}}});
}

void addPick(std::vector<Sample> &list) {
  list.push_back({"pick", "", {{4, 3}, {4}}});
  list.push_back({"pick", "axis=1, keepdims=True", {{2, 3, 2}, {2, 2}}, 3, -8, 6});
  list.push_back({"pick", "axis=0, mode=wrap", {{3, 2}, {2}}, 3, -12, 4});
  list.push_back({"pick", "axis=1, mode=wrap, keepdims=True", {{2, 3, 2}, {2, 1, 2}}, 3, -12, 4});
  list.push_back({"pick", "axis=-2", {{3, 2}, {1, 2}}});
  list.push_back({"pick", "", {{3}, {1}}});
  list.push_back({"pick", "axis=0, keepdims=True", {{3}, {}}});
  list.push_back({"pick", "", {{1, 1}, {1}}});
  list.push_back({"pick", "", {{0, 3}, {0}}});
  list.push_back({"pick", "axis=0", {{2, 0}, {0}}});
  list.push_back({"one_hot", "depth=3", {{4}}});
  list.push_back({"one_hot", "depth=3, on_value=2.5, off_value=-1, dtype=float64", {{2, 2}}, 1, -2, 5});
  list.push_back({"one_hot", "depth=2, dtype=int32, on_value=7.9", {{3}}, 1, -1, 3});
  list.push_back({"one_hot", "depth=1, dtype=uint8", {{1}}});
  list.push_back({"one_hot", "depth=2", {{}}});
  list.push_back({"one_hot", "depth=2", {{0, 2}}});
}

// Where index tuples repeat, what scatter_nd yields is not differentiable: samples have a single tuple or distinct
// ones.
void addTuples(std::vector<Sample> &list) {
  list.push_back({"gather_nd", "", {{3, 3, 2}, {2, 4}}});
  list.push_back({"gather_nd", "", {{3, 2}, {1, 2, 2}}});
  list.push_back({"gather_nd", "", {{2, 3, 2}, {3, 5}}, 3, -2, 2});
  list.push_back({"gather_nd", "", {{3, 2}, {1}}});
  list.push_back({"gather_nd", "", {{1, 1}, {2, 1}}, 3, -1, 1});
  list.push_back({"gather_nd", "", {{3, 0}, {1, 2}}});
  list.push_back({"gather_nd", "", {{0, 2}, {1, 0}}});
  list.push_back({"scatter_nd", "shape=(3, 3)", {{1}, {2, 1}}});
  list.push_back({"scatter_nd", "shape=(3, 2)", {{1, 2}, {1, 1}}, 3, -3, 3});
  list.push_back({"scatter_nd", "shape=(9, 9, 2)", {{3, 2}, {2, 3}}, 3, 0, 0, 9});
  list.push_back({"scatter_nd", "shape=(90, 2)", {{3, 2}, {1, 3}}, 3, 0, 0, 90});
  list.push_back({"scatter_nd", "shape=(1, 1)", {{1}, {2, 1}}, 3, -1, 1});
  list.push_back({"scatter_nd", "shape=(2, 3)", {{0, 3}, {1, 0}}});
  list.push_back({"_scatter_set_nd", "shape=(3, 3)", {{3, 3}, {1}, {2, 1}}});
  list.push_back({"_scatter_set_nd", "shape=(9, 9)", {{9, 9}, {3}, {2, 3}}, 3, 0, 0, 9});
  list.push_back({"_scatter_set_nd", "shape=(3, 2)", {{3, 2}, {1, 2}, {1, 1}}, 3, -3, 3});
  list.push_back({"_scatter_set_nd", "shape=(1,)", {{1}, {}, {1}}, 3, -1, 1});
  list.push_back({"_scatter_set_nd", "shape=(2, 3)", {{2, 3}, {0, 3}, {1, 0}}});
  list.push_back({"_scatter_nd", "reduction=add", {{3, 3}, {4}, {2, 4}}});
  list.push_back({"_scatter_nd", "reduction=add", {{3, 2}, {2, 2, 2}, {1, 2, 2}}, 3, -3, 3});
  list.push_back({"_scatter_nd", "", {{9, 2}, {3, 2}, {1, 3}}, 3, 0, 0, 9});
  list.push_back({"_scatter_nd", "", {{1}, {}, {1}}, 3, -1, 1});
  list.push_back({"_scatter_nd", "reduction=add", {{2, 3}, {0, 3}, {1, 0}}});
}

void addCopies(std::vector<Sample> &list) {
  list.push_back({"_contrib_index_copy", "", {{3, 2}, {1}, {1, 2}}});
  list.push_back({"_contrib_index_copy", "", {{9, 2}, {3}, {3, 2}}, 2, 0, 0, 9});
  list.push_back({"_contrib_index_copy", "", {{3, 1, 2}, {5}, {5, 1, 2}}});
  list.push_back({"_contrib_index_copy", "", {{3}, {4}, {4}}});
  list.push_back({"_contrib_index_copy", "", {{1, 1}, {1}, {1, 1}}, 3, 0, 0, 1});
  list.push_back({"_contrib_index_copy", "", {{3, 2}, {0}, {0, 2}}});
  list.push_back({"_slice_assign", "begin=(0, 1), end=(2, 3)", {{2, 3}, {2, 2}}});
  list.push_back({"_slice_assign", "begin=(None, 2), end=(None, None), step=(1, -2)", {{2, 3}, {2, 2}}});
  list.push_back({"_slice_assign", "begin=(-2,), end=(9,)", {{3, 2}, {2, 2}}});
  list.push_back({"_slice_assign", "begin=(0, 1), end=(4, 2), step=(3, 2)", {{4, 2, 2}, {2, 1, 2}}});
  list.push_back({"_slice_assign", "begin=(0,), end=(1,)", {{1, 1}, {1, 1}}});
  list.push_back({"_slice_assign", "begin=(2,), end=(2,)", {{3, 2}, {0, 2}}});
  list.push_back({"_slice_assign", "begin=(0,), end=(1,)", {{0, 2}, {0, 2}}});
  list.push_back({"_slice_assign_scalar", "begin=(0, 1), end=(2, 3), scalar=1.5", {{2, 3}}});
  list.push_back({"_slice_assign_scalar", "begin=(1,), end=(None,), scalar=-2", {{3, 2, 2}}});
  list.push_back({"_slice_assign_scalar", "begin=(3,), end=(0,), step=(-2,)", {{4, 1}}});
  list.push_back({"_slice_assign_scalar", "begin=(0, None), end=(1, None), scalar=3", {{1, 1}}});
  list.push_back({"_slice_assign_scalar", "begin=(0,), end=(0,), scalar=3", {{2}}});
  list.push_back({"_slice_assign_scalar", "begin=(0,), end=(1,), scalar=3", {{0, 2}}});
}

void addShapes(std::vector<Sample> &list) {
  list.push_back({"diag", "", {{3, 3}}});
  list.push_back({"diag", "k=1", {{3, 2}}});
  list.push_back({"diag", "k=-1", {{4, 2}}});
  list.push_back({"diag", "k=-1", {{2}}});
  list.push_back({"diag", "k=2, axis1=5", {{3}}});
  list.push_back({"diag", "axis1=0, axis2=2", {{2, 2, 3}}});
  list.push_back({"diag", "axis1=2, axis2=0, k=1", {{3, 1, 2}}});
  list.push_back({"diag", "axis1=-1, axis2=-2, k=-1", {{1, 3, 2, 2}}});
  list.push_back({"diag", "", {{1, 1}}});
  list.push_back({"diag", "k=2", {{2, 2}}});
  list.push_back({"diag", "", {{0, 3}}});
  list.push_back({"diag", "k=1", {{0}}});
  for (const char *attrs : {"shape=(3,4)", "shape=(-1,4)", "shape=(2,1)", "shape=(1,5)"}) {
    list.push_back({"_ravel_multi_index", attrs, {{2, 4}}});
    list.push_back({"_unravel_index", attrs, {{5}}, 3, -9, 30});
  }
  list.push_back({"_ravel_multi_index", "shape=(3,4,5)", {{3, 1}}, 3, -4, 9});
  list.push_back({"_ravel_multi_index", "shape=(7,)", {{1, 3}}});
  list.push_back({"_unravel_index", "shape=(3,4,5)", {{6}}, 3, 0, 59});
  list.push_back({"_unravel_index", "shape=(7,)", {{0}}});
  for (const char *attrs :
       {"", "axis=1", "axis=-3, start=1.5, step=-2", "start=-1, step=0.25, repeat=2", "axis=2, repeat=3"})
    list.push_back({"_contrib_arange_like", attrs, {{2, 3, 4}}});
  list.push_back({"_contrib_arange_like", "axis=0", {{0, 2}}});
  for (const char *attrs : {"", "axes=(1,)", "axes=(-1,0,-1)", "axes=(2,0)"})
    list.push_back({"_contrib_index_array", attrs, {{2, 3, 2}}});
  list.push_back({"_contrib_index_array", "", {{2, 0}}});
  for (const char *op : {"shape_array", "size_array"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {4}, {1, 1, 1}, {2, 0, 3}, {1}, {}})
      list.push_back({op, "", {shape}});
}

}  // namespace

std::vector<Sample> indexingSamples() {
  std::vector<Sample> list;
  addTake(list);
  addPick(list);
  addTuples(list);
  addCopies(list);
  addShapes(list);
  return list;
}

}  // namespace gradc::testing
