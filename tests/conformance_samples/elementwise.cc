// Samples of element-by-element operators, constants and copies.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

constexpr const char *kUnary[] = {"negative", "exp",     "log",     "sqrt",    "square",   "reciprocal", "abs",
                                  "sign",     "relu",    "tanh",    "sigmoid", "softsign", "log1p",      "expm1",
                                  "log2",     "log10",   "rsqrt",   "cbrt",    "rcbrt",    "sin",        "cos",
                                  "tan",      "arcsin",  "arccos",  "arctan",  "sinh",     "cosh",       "arcsinh",
                                  "arccosh",  "arctanh", "degrees", "radians", "erfinv"};
constexpr const char *kRounding[] = {"rint", "ceil", "floor", "trunc", "fix", "logical_not"};
constexpr const char *kBinary[] = {"elemwise_add", "_grad_add", "elemwise_sub", "elemwise_mul", "elemwise_div"};
constexpr const char *kScalar[] = {"_plus_scalar",  "_minus_scalar", "_rminus_scalar",  "_mul_scalar",
                                   "_div_scalar",   "_rdiv_scalar",  "_maximum_scalar", "_minimum_scalar",
                                   "_power_scalar", "_rpower_scalar"};

}  // namespace

std::vector<Sample> elementwiseSamples() {
  std::vector<Sample> list;
  for (const char *op : kUnary)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {1, 1, 5}, {2, 0}, {7}})
      list.push_back({op, "", {shape}});
  // Results as small as their inputs: what is lost by way of 1 + x shows only here.
  for (const char *op : {"expm1", "log1p", "tanh"}) list.push_back({op, "", {{6}}, 3, 1e-7, 1e-6});
  list.push_back({"exp", "", {{40}}, 3, -40, -20});
  // Close to the ends of their domains, to 0 and to poles.
  for (const char *op : {"arcsin", "arccos", "arctanh", "erfinv"}) {
    list.push_back({op, "", {{5}}, 3, 0.93, 0.96});
    list.push_back({op, "", {{5}}, 3, -0.96, -0.93});
    list.push_back({op, "", {{5}}, 3, -1e-3, 1e-3});
  }
  for (const char *op : {"arccosh", "log2", "log10"}) list.push_back({op, "", {{5}}, 3, 1.01, 1.03});
  for (const char *op : {"cbrt", "rcbrt"}) list.push_back({op, "", {{5}}, 3, -1.5, -0.5});
  for (const char *op : {"rsqrt", "cbrt", "rcbrt", "log2", "log10"}) list.push_back({op, "", {{5}}, 3, 90, 110});
  for (const char *op : {"sin", "cos", "tan", "sinh", "cosh", "arctan", "arcsinh"})
    list.push_back({op, "", {{9}}, 3, -4, 4});
  for (const char *op : kRounding) {
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {2, 0}, {1, 7}})
      list.push_back({op, "", {shape}, 3, -3, 3});
    list.push_back({op, "", {{9}}, 0, 8388609, 8388613});  // where x + 0.5 is not representable in single precision
  }
  for (const char *op : kBinary)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {1}, {0, 4}, {}, {2, 1, 3}})
      list.push_back({op, "", {shape, shape}});
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
  for (const char *op : {"_hypot", "_mod"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {1}, {0, 4}, {}, {2, 1, 3}})
      list.push_back({op, "", {shape, shape}});
  for (const char *op : {"broadcast_hypot", "broadcast_mod", "_npi_arctan2", "_npi_ldexp"}) {
    list.push_back({op, "", {{2, 3}, {2, 3}}});
    list.push_back({op, "", {{2, 1, 3}, {4, 1}}});
    list.push_back({op, "", {{3}, {2, 3}}, 3, 0.6, 1.7});
    list.push_back({op, "", {{2, 2}, {}}, 3, -1.7, -0.6});
    list.push_back({op, "", {{2, 0}, {1, 0}}});
  }
  for (const char *op : {"_hypot_scalar", "_mod_scalar", "_rmod_scalar", "_npi_arctan2_scalar", "_npi_rarctan2_scalar",
                         "_npi_ldexp_scalar", "_npi_rldexp_scalar"}) {
    list.push_back({op, "scalar=0.7", {{2, 3}}});
    list.push_back({op, "scalar=-1.3", {{5}}});
    list.push_back({op, "scalar=2", {{}}, 3, 0.4, 1.6});
    list.push_back({op, "scalar=3", {{0, 2}}});
    list.push_back({op, "scalar=1", {{2, 1, 3}}, 3, -2.6, -1.4});
  }
  for (const char *op : {"_logical_and", "_logical_or", "_logical_xor", "broadcast_logical_and", "broadcast_logical_or",
                         "broadcast_logical_xor"}) {
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0, 4}, {2, 1, 3}})
      list.push_back({op, "", {shape, shape}});
    list.push_back({op, "", {{4}, {4}}, 3, 0, 1e-30});
  }
  for (const char *op : {"broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor"})
    list.push_back({op, "", {{2, 1, 3}, {4, 1}}});
  for (const char *op : {"_logical_and_scalar", "_logical_or_scalar", "_logical_xor_scalar"}) {
    list.push_back({op, "scalar=0", {{2, 3}}});
    list.push_back({op, "scalar=2", {{2, 3}}});
    list.push_back({op, "scalar=-0.5", {{}}});
    list.push_back({op, "scalar=0", {{0, 2}}});
    list.push_back({op, "scalar=1", {{1, 3, 2}}});
  }
  for (const double from : {0.3, 1.2, 30.0, -1.8, -2.7}) list.push_back({"digamma", "", {{5}}, 3, from, from + 0.4});
  list.push_back({"digamma", "", {{0, 2}}});
  for (const char *op : {"log_sigmoid", "silu", "mish", "gelu", "hard_swish"}) {
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {2, 0}}) list.push_back({op, "", {shape}});
    list.push_back({op, "", {{2, 8}}, 3, -5, 5});
    list.push_back({op, "", {{6}}, 3, 20, 60});
  }
  for (const char *op : {"log_sigmoid", "silu", "mish", "gelu"}) list.push_back({op, "", {{6}}, 2, -60, -20});
  for (const char *op : {"log_sigmoid", "mish", "silu", "gelu"}) list.push_back({op, "", {{3}}, 3, -1e-4, 1e-4});
  list.push_back({"add_n", "num_args=1", {{2, 3}}});
  list.push_back({"add_n", "num_args=3", {{2}, {2}, {2}}});
  list.push_back({"add_n", "num_args=9", {{}, {}, {}, {}, {}, {}, {}, {}, {}}});
  list.push_back({"add_n", "num_args=2", {{2, 1, 3}, {2, 1, 3}}});
  list.push_back({"add_n", "num_args=4", {{0, 2}, {0, 2}, {0, 2}, {0, 2}}});
  for (const char *op : {"zeros_like", "ones_like", "_copy", "_gradient_tap"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0}, {1, 4, 1}, {5}})
      list.push_back({op, "", {shape}});
  for (const char *shape :
       {"shape=(2,3)", "shape=(1,)", "shape=(4,1,2)", "shape=(3,1)", "shape=(2,2), dtype=float64"}) {
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
