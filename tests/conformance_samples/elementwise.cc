// Samples of element-by-element operators, constants and copies.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

constexpr const char *kUnary[] = {"negative", "exp",  "log",  "sqrt",     "square", "reciprocal", "abs",
                                  "sign",     "relu", "tanh", "sigmoid",  "softsign", "log1p",    "expm1"};
constexpr const char *kBinary[] = {"elemwise_add", "_grad_add", "elemwise_sub", "elemwise_mul", "elemwise_div"};
constexpr const char *kScalar[] = {"_plus_scalar",  "_minus_scalar", "_rminus_scalar",  "_mul_scalar",
                                   "_div_scalar",   "_rdiv_scalar",  "_maximum_scalar", "_minimum_scalar",
                                   "_power_scalar", "_rpower_scalar"};

}  // namespace

std::vector<Sample> elementwiseSamples() {
  std::vector<Sample> list;
  for (const char *op : kUnary)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 1, 5}, {2, 0}, {7}}) list.push_back({op, "", {shape}});
  // Results as small as their inputs: what is lost by way of 1 + x shows only here.
  for (const char *op : {"expm1", "log1p", "tanh"}) list.push_back({op, "", {{6}}, 3, 1e-7, 1e-6});
  list.push_back({"exp", "", {{40}}, 3, -40, -20});
  for (const char *op : kBinary)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {1}, {0, 4}, {}, {2, 1, 3}}) list.push_back({op, "", {shape, shape}});
  for (const char *op : kScalar) {
    list.push_back({op, "scalar=0.7", {{2, 3}}, 3, 0.4, 1.6});
    list.push_back({op, "scalar=2", {{}}, 3, 0.4, 1.6});
    list.push_back({op, "scalar=1", {{7}}, 3, 0.4, 1.6});
    list.push_back({op, "scalar=3", {{0, 2}}, 3, 0.4, 1.6});
    list.push_back({op, "scalar=1.3", {{2, 1, 3}}, 3, 0.4, 1.6});
  }
  list.push_back({"_power_scalar", "scalar=3", {{4}}});
  list.push_back({"_power_scalar", "scalar=2", {{4}}});
  list.push_back({"_power_scalar", "scalar=0", {{4}}});
  list.push_back({"_rpower_scalar", "scalar=0", {{4}}, 3, 0.4, 1.6});
  list.push_back({"_maximum_scalar", "scalar=-0.5", {{9}}});
  list.push_back({"_minimum_scalar", "scalar=-0.5", {{9}}});
  for (const char *op : {"_greater_scalar", "_greater_equal_scalar", "_lesser_scalar", "_lesser_equal_scalar",
                         "_equal_scalar", "_not_equal_scalar"}) {
    list.push_back({op, "scalar=0.2", {{2, 3}}});
    list.push_back({op, "scalar=-3", {{}}});
    list.push_back({op, "scalar=0", {{0, 2}}});
    list.push_back({op, "scalar=2", {{6}}, 3, 2, 2.0001});
    list.push_back({op, "scalar=-0.5", {{2, 1, 2}}});
  }
  list.push_back({"_backward_sign", "", {{3}, {3}}});
  list.push_back({"add_n", "num_args=1", {{2, 3}}});
  list.push_back({"add_n", "num_args=3", {{2}, {2}, {2}}});
  list.push_back({"add_n", "num_args=9", {{}, {}, {}, {}, {}, {}, {}, {}, {}}});
  list.push_back({"add_n", "num_args=2", {{2, 1, 3}, {2, 1, 3}}});
  list.push_back({"add_n", "num_args=4", {{0, 2}, {0, 2}, {0, 2}, {0, 2}}});
  for (const char *op : {"zeros_like", "ones_like", "_copy"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0}, {1, 4, 1}, {5}}) list.push_back({op, "", {shape}});
  for (const char *shape : {"shape=(2,3)", "shape=(1,)", "shape=(4,1,2)", "shape=(3,1)", "shape=(2,2), dtype=float64"}) {
    list.push_back({"_zeros", shape, {}});
    list.push_back({"_ones", shape, {}});
  }
  list.push_back({"_full", "shape=(2,3), value=0.75", {}});
  list.push_back({"_full", "shape=(3,), value=-2", {}});
  list.push_back({"_full", "shape=(1,1), value=0", {}});
  list.push_back({"_full", "shape=(2,4), value=3", {}});
  list.push_back({"_full", "shape=(2,1,2), value=1e-3, dtype=float64", {}});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0}, {1, 4, 1}, {5}})
    list.push_back({"_identity_with_attr_like_rhs", "", {shape, shape}});
  return list;
}

}  // namespace gradc::testing
