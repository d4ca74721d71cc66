// Samples of operators that broadcast, reduce, reshape, join and contract.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

std::vector<Sample> shapeSamples() {
  std::vector<Sample> list;
  list.push_back({"_index_like", "", {{3, 2}}});
  list.push_back({"_index_like", "axis=1", {{2, 3, 2}}});
  list.push_back({"_index_like", "axis=-1", {{2, 0}}});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0, 3}})
    list.push_back({"_cast_like", "", {shape, {2}}});
  for (const char *op : {"broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"}) {
    list.push_back({op, "", {{2, 3}, {2, 3}}});
    list.push_back({op, "", {{3, 1}, {1, 4}}});
    list.push_back({op, "", {{2, 1, 3}, {2, 4, 1}}, 2});
    list.push_back({op, "", {{1}, {5}}});
    list.push_back({op, "", {{0, 2}, {1, 2}}});
  }
  for (const char *op : {"sum", "mean"}) {
    list.push_back({op, "", {{2, 3}}});
    list.push_back({op, "axis=1", {{2, 3, 2}}});
    list.push_back({op, "axis=(0,2), keepdims=True", {{2, 3, 2}}});
    list.push_back({op, "axis=1, exclude=True", {{2, 3, 2}}});
    list.push_back({op, "axis=-1", {{4, 1}}});
    list.push_back({op, "axis=(), keepdims=True", {{1}}});
  }
  list.push_back({"sum", "axis=0", {{0, 3}}});
  list.push_back({"sum", "", {{2, 0}}});
  list.push_back({"_sum_like", "", {{2, 3}, {2, 1}}});
  list.push_back({"_sum_like", "", {{4, 2, 3}, {4, 2, 3}}});
  list.push_back({"_sum_like", "", {{2, 3}, {1, 1}}});
  list.push_back({"_sum_like", "", {{2, 0}, {2, 1}}});
  list.push_back({"broadcast_like", "", {{2, 1}, {2, 3}}});
  list.push_back({"broadcast_like", "", {{1, 1, 1}, {2, 3, 2}}});
  list.push_back({"broadcast_like", "", {{2, 3}, {2, 3}}});
  list.push_back({"broadcast_like", "", {{1, 4}, {3, 4}}});
  list.push_back({"broadcast_like", "", {{1, 2}, {0, 2}}});
  list.push_back({"_broadcast_axis_like", "axis=1", {{3}, {2, 3, 2}}});
  list.push_back({"_broadcast_axis_like", "axis=-1", {{2}, {2, 3, 2}}});
  list.push_back({"_broadcast_axis_like", "axis=0", {{1}, {1}}});
  list.push_back({"reshape_like", "", {{2, 3}, {3, 2}}});
  list.push_back({"reshape_like", "", {{4}, {2, 1, 2}}});
  list.push_back({"reshape_like", "", {{2, 0}, {0, 5}}});
  list.push_back({"reshape_like", "", {{1}, {1, 1, 1}}});
  list.push_back({"reshape_like", "", {{2, 6}, {3, 4}}});
  list.push_back({"Flatten", "", {{2, 3, 2}}});
  list.push_back({"Flatten", "", {{2, 3}}});
  list.push_back({"Flatten", "", {{1, 1, 1, 1}}});
  list.push_back({"Flatten", "", {{2, 0, 3}}});
  list.push_back({"Flatten", "", {{3, 2, 1, 2}}});
  list.push_back({"dot", "", {{2, 3}, {3, 4}}});
  list.push_back({"dot", "transpose_a=True", {{3, 2}, {3, 4}}});
  list.push_back({"dot", "transpose_b=True", {{2, 3}, {4, 3}}});
  list.push_back({"dot", "transpose_a=True, transpose_b=True", {{3, 2}, {4, 3}}});
  list.push_back({"dot", "", {{1, 1}, {1, 1}}});
  list.push_back({"dot", "", {{4}, {4}}});
  list.push_back({"dot", "transpose_a=True, transpose_b=True", {{4}, {4}}});
  list.push_back({"dot", "", {{3, 4}, {4}}});
  list.push_back({"dot", "transpose_a=True", {{4, 3}, {4}}});
  list.push_back({"dot", "", {{4}, {4, 3}}});
  list.push_back({"dot", "transpose_b=True", {{4}, {3, 4}}});
  list.push_back({"dot", "", {{2, 3, 4}, {4, 5}}});
  list.push_back({"dot", "", {{3, 4}, {4, 2, 3, 2}}});
  list.push_back({"dot", "transpose_a=True, transpose_b=True", {{4, 2, 3}, {2, 2, 4}}});
  list.push_back({"dot", "", {{3, 0}, {0, 2}}});
  list.push_back({"dot", "", {{0, 3}, {3, 2}}});
  // Parts of one length, which is what inference assumes of those that are unknown.
  list.push_back({"_rnn_param_concat", "num_args=3, dim=0", {{4}, {4}, {4}}});
  list.push_back({"_rnn_param_concat", "num_args=1, dim=0", {{3}}});
  list.push_back({"_rnn_param_concat", "num_args=2, dim=1", {{2, 3}, {2, 3}}});
  list.push_back({"_rnn_param_concat", "num_args=2, dim=-1", {{2, 1, 2}, {2, 1, 2}}});
  list.push_back({"_rnn_param_concat", "num_args=2, dim=0", {{0}, {0}}});
  list.push_back({"Concat", "num_args=1, dim=1", {{2, 3}}});
  list.push_back({"Concat", "num_args=2, dim=1", {{2, 3}, {2, 1}}});
  list.push_back({"Concat", "num_args=3, dim=0", {{1, 2}, {3, 2}, {2, 2}}});
  list.push_back({"Concat", "num_args=2, dim=-1", {{2, 2, 1}, {2, 2, 3}}});
  list.push_back({"Concat", "num_args=2, dim=0", {{0, 2}, {3, 2}}});
  list.push_back({"_constant", "dtype=float64, shape=(2,3), values=(1,-2,0.5,3,4,-0.25)", {}});
  list.push_back({"_constant", "dtype=float32, shape=(2,), values=(0.1,-3)", {}});
  list.push_back({"_constant", "dtype=float64, shape=(), values=2.5", {}});
  list.push_back({"_constant", "dtype=int64, shape=(1,2), values=(9223372036854775807,-4)", {}});
  list.push_back({"_constant", "dtype=float64, shape=(0,3), values=()", {}});
  list.push_back({"_concat_part", "num_args=2, dim=1, index=1", {{2, 4}, {2, 3}, {2, 1}}});
  list.push_back({"_concat_part", "num_args=1, dim=0, index=0", {{3}, {3}}});
  list.push_back({"_concat_part", "num_args=3, dim=0, index=1", {{6, 2}, {1, 2}, {3, 2}, {2, 2}}});
  return list;
}

}  // namespace gradc::testing
