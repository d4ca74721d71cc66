// Elementwise operators: values and gradients as MXNet 1.9.1 computes them in float64, derivatives of higher order
// by central differences.
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/ops/op_harness.h"
#include "tests/support/ops/op_table.h"

#include "passes/inference/infer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<OpRow> &unaryRows() {
  // clang-format off
  static const std::vector<OpRow> rows = {
    {"negative", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {1.5, 0.25, -0, -0.5, -2}, {{0.75, -0.25, -1.25, 0.25,
     -0.75}}},
    {"exp", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0.22313016014842982, 0.7788007830714049, 1,
     1.6487212707001282, 7.38905609893065}, {{-0.16734762011132237, 0.19470019576785122, 1.25, -0.41218031767503205,
     5.541792074197987}}},
    {"square", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {2.25, 0.0625, 0, 0.25, 4}, {{2.25, -0.125, 0, -0.25, 3}}},
    {"abs", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {1.5, 0.25, 0, 0.5, 2}, {{0.75, -0.25, 0, -0.25, 0.75}}},
    {"sign", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-1, -1, 0, 1, 1}, {{-0, 0, 0, -0, 0}}},
    {"relu", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0, 0, 0, 0.5, 2}, {{-0, 0, 0, -0.25, 0.75}}},
    {"sigmoid", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0.18242552380635635, 0.43782349911420193, 0.5,
     0.6224593312018546, 0.8807970779778823}, {{-0.11185983905274965, 0.06153352068439959, 0.3125,
     -0.058750928050398624, 0.07874518905262996}}},
    {"tanh", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-0.9051482536448664, -0.24491866240370913, 0,
     0.46211715726000974, 0.9640275800758169}, {{-0.13552997919273643, 0.2350037122015945, 1.25, -0.19661193324148185,
     0.05298811863987332}}},
    {"softsign", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-0.6, -0.2, 0, 0.3333333333333333, 0.6666666666666666},
     {{-0.12, 0.16, 1.25, -0.1111111111111111, 0.08333333333333333}}},
    {"expm1", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-0.7768698398515702, -0.22119921692859512, 0,
     0.6487212707001282, 6.38905609893065}, {{-0.16734762011132237, 0.19470019576785122, 1.25, -0.41218031767503205,
     5.541792074197987}}},
    {"identity", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-1.5, -0.25, 0, 0.5, 2}, {{-0.75, 0.25, 1.25, -0.25,
     0.75}}},
    {"zeros_like", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0, 0, 0, 0, 0}, {{0, 0, 0, 0, 0}}},
    {"ones_like", {}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {1, 1, 1, 1, 1}, {{0, 0, 0, 0, 0}}},
    {"log", {}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {-2.0794415416798357, -0.2876820724517809, 0,
     0.9162907318741551}, {{-6, 0.3333333333333333, 1.25, -0.1}}},
    {"sqrt", {}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {0.3535533905932738, 0.8660254037844386, 1, 1.5811388300841898},
     {{-1.0606601717798212, 0.14433756729740646, 0.625, -0.07905694150420949}}},
    {"reciprocal", {}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {8, 1.3333333333333333, 1, 0.4}, {{48,
     -0.4444444444444444, -1.25, 0.04}}},
    {"log1p", {}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {0.11778303565638346, 0.5596157879354227, 0.6931471805599453,
     1.252762968495368}, {{-0.6666666666666666, 0.14285714285714285, 0.625, -0.07142857142857142}}},
  };
  // clang-format on
  return rows;
}

const std::vector<OpRow> &scalarRows() {
  // clang-format off
  static const std::vector<OpRow> rows = {
    {"_plus_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-1, 0.25, 0.5, 1, 2.5}, {{-0.75,
     0.25, 1.25, -0.25, 0.75}}},
    {"_minus_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-2, -0.75, -0.5, 0, 1.5}, {{-0.75,
     0.25, 1.25, -0.25, 0.75}}},
    {"_rminus_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {2, 0.75, 0.5, 0, -1.5}, {{0.75,
     -0.25, -1.25, 0.25, -0.75}}},
    {"_mul_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-0.75, -0.125, 0, 0.25, 1},
     {{-0.375, 0.125, 0.625, -0.125, 0.375}}},
    {"_div_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-3, -0.5, 0, 1, 4}, {{-1.5, 0.5,
     2.5, -0.5, 1.5}}},
    {"_maximum_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0.5, 0.5, 0.5, 0.5, 2}, {{-0, 0,
     0, -0.25, 0.75}}},
    {"_minimum_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {-1.5, -0.25, 0, 0.5, 0.5},
     {{-0.75, 0.25, 1.25, -0.25, 0}}},
    {"_rdiv_scalar", {{"scalar", "2.5"}}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {20, 3.3333333333333335, 2.5, 1},
     {{120, -1.1111111111111112, -3.125, 0.1}}},
    {"_power_scalar", {{"scalar", "2.5"}}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {0.005524271728019903,
     0.48713928962874675, 1, 9.882117688026186}, {{-0.08286407592029854, 0.4059494080239556, 3.125,
     -2.470529422006546}}},
    {"_rpower_scalar", {{"scalar", "2.5"}}, {{{4}, {0.125, 0.75, 1, 2.5}}}, {4}, {1.1213533919701386,
     1.9881768219176266, 2.5, 9.882117688026186}, {{-0.7706142901634134, 0.45543699881253347, 2.863408537106735,
     -2.263723212207012}}},
    {"_power_scalar", {{"scalar", "2.0"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {2.25, 0.0625, 0, 0.25, 4}, {{2.25,
     -0.125, 0, -0.25, 3}}},
  };
  // clang-format on
  return rows;
}

// Without gradients: none flows through a comparison.
const std::vector<OpRow> &comparisonRows() {
  // clang-format off
  static const std::vector<OpRow> rows = {
    {"_greater_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0, 0, 0, 0, 1}, {}},
    {"_greater_equal_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0, 0, 0, 1, 1}, {}},
    {"_lesser_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {1, 1, 1, 0, 0}, {}},
    {"_lesser_equal_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {1, 1, 1, 1, 0}, {}},
    {"_equal_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {0, 0, 0, 1, 0}, {}},
    {"_not_equal_scalar", {{"scalar", "0.5"}}, {{{5}, {-1.5, -0.25, 0, 0.5, 2}}}, {5}, {1, 1, 1, 0, 1}, {}},
  };
  // clang-format on
  return rows;
}

const std::vector<OpRow> &binaryRows() {
  // clang-format off
  static const std::vector<OpRow> rows = {
    {"elemwise_add", {}, {{{4}, {-1.5, 0.5, 2, 3}}, {{4}, {2, -0.5, 4, 0.25}}}, {4}, {0.5, 0, 6, 3.25}, {{-0.75, 0.25,
     1.25, -0.25}, {-0.75, 0.25, 1.25, -0.25}}},
    {"elemwise_sub", {}, {{{4}, {-1.5, 0.5, 2, 3}}, {{4}, {2, -0.5, 4, 0.25}}}, {4}, {-3.5, 1, -2, 2.75}, {{-0.75,
     0.25, 1.25, -0.25}, {0.75, -0.25, -1.25, 0.25}}},
    {"elemwise_mul", {}, {{{4}, {-1.5, 0.5, 2, 3}}, {{4}, {2, -0.5, 4, 0.25}}}, {4}, {-3, -0.25, 8, 0.75}, {{-1.5,
     -0.125, 5, -0.0625}, {1.125, 0.125, 2.5, -0.75}}},
    {"elemwise_div", {}, {{{4}, {-1.5, 0.5, 2, 3}}, {{4}, {2, -0.5, 4, 0.25}}}, {4}, {-0.75, -1, 0.5, 12}, {{-0.375,
     -0.5, 0.3125, -1}, {-0.28125, -0.5, -0.15625, 12}}},
  };
  // clang-format on
  return rows;
}

const std::vector<OpRow> &broadcastRows() {
  // clang-format off
  static const std::vector<OpRow> rows = {
    {"broadcast_add", {}, {{{2, 1}, {1, -2}}, {{3}, {0.5, 2, -4}}}, {2, 3}, {1.5, 3, -3, -1.5, 0, -6}, {{0.75, -0.25},
     {-1, 1, 0.5}}},
    {"broadcast_sub", {}, {{{2, 1}, {1, -2}}, {{3}, {0.5, 2, -4}}}, {2, 3}, {0.5, -1, 5, -2.5, -4, 2}, {{0.75, -0.25},
     {1, -1, -0.5}}},
    {"broadcast_mul", {}, {{{2, 1}, {1, -2}}, {{3}, {0.5, 2, -4}}}, {2, 3}, {0.5, 2, -4, -1, -4, 8}, {{-4.875, 4.375},
     {-0.25, -1.25, 2.75}}},
    {"broadcast_div", {}, {{{2, 1}, {1, -2}}, {{3}, {0.5, 2, -4}}}, {2, 3}, {2, 0.5, -0.25, -4, -1, 0.5}, {{-1.6875,
     0.0625}, {1, 0.3125, -0.171875}}},
    {"broadcast_mul", {}, {{{2, 1, 2}, {1, 2, -3, 0.5}}, {{1, 3, 1}, {2, 4, -1}}}, {2, 3, 2}, {2, 4, 4, 8, -1, -2, -6,
     1, -12, 2, 3, -0.5}, {{2.75, 0.25, 0.25, 5.25}, {-0.375, 1.875, 1.625}}},
    {"broadcast_div", {}, {{{2, 1, 2}, {1, 2, -3, 0.5}}, {{1, 3, 1}, {2, 4, -1}}}, {2, 3, 2}, {0.5, 1, 0.25, 0.5, -1,
     -2, -1.5, 0.25, -0.75, 0.125, 3, -0.5}, {{-0.8125, 0.8125, 0.8125, 0.5625}, {0.09375, -0.1171875, -1.625}}},
  };
  // clang-format on
  return rows;
}

TEST(ElementwiseOps, RUN_02_UnaryValuesAndGradients) {
  for (const OpRow &row : unaryRows()) checkRow(row);
}

TEST(ElementwiseOps, RUN_02_ScalarValuesAndGradients) {
  for (const OpRow &row : scalarRows()) checkRow(row);
}

TEST(ElementwiseOps, RUN_02_ComparisonValues) {
  for (const OpRow &row : comparisonRows()) checkRow(row);
}

TEST(ElementwiseOps, RUN_02_BinaryValuesAndGradients) {
  for (const OpRow &row : binaryRows()) checkRow(row);
}

TEST(ElementwiseOps, RUN_02_BroadcastValuesAndGradients) {
  for (const OpRow &row : broadcastRows()) checkRow(row);
}

OpRow at(StringRef op, std::vector<OpTensor> inputs, StringRef scalar) {
  OpRow row{op.str(), {}, std::move(inputs), {}, {}, {}};
  if (!scalar.empty()) row.attrs.push_back({"scalar", scalar.str()});
  return row;
}

TEST(ElementwiseOps, HO_01_UnaryDerivativesOfThreeOrders) {
  for (StringRef op : {"negative", "exp", "square", "abs", "sign", "relu", "sigmoid", "tanh", "softsign", "expm1",
                       "_copy", "reciprocal"})
    checkDerivatives(at(op, {{{4}, {-1.5, -0.25, 0.75, 1.25}}}, ""), {"x0"}, 3);
  for (StringRef op : {"log", "sqrt", "log1p"}) checkDerivatives(at(op, {{{3}, {0.75, 1.5, 2.5}}}, ""), {"x0"}, 3);
}

TEST(ElementwiseOps, HO_01_ScalarDerivativesOfThreeOrders) {
  for (StringRef op : {"_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_rdiv_scalar",
                       "_power_scalar", "_rpower_scalar", "_maximum_scalar", "_minimum_scalar"})
    checkDerivatives(at(op, {{{3}, {0.75, 1.5, 2.5}}}, "1.75"), {"x0"}, 3);
}

// x^2 has the second derivative 2 and the third 0 at 0 too, where x^-1 has no value.
TEST(ElementwiseOps, HO_01_PowerEndsAtZero) {
  checkDerivatives(at("_power_scalar", {{{3}, {-0.5, 0, 2}}}, "2"), {"x0"}, 4);
}

// x^0 is 1 for every x, and 0^x is 0 for every positive x.
TEST(ElementwiseOps, RUN_02_PowersAtZeroAreConstant) {
  checkRow({"_power_scalar", {{"scalar", "0"}}, {{{4}, {-1.5, 0, 1, 2}}}, {4}, {1, 1, 1, 1}, {{0, 0, 0, 0}}});
  checkRow({"_rpower_scalar", {{"scalar", "0"}}, {{{3}, {0.5, 1, 2}}}, {3}, {0, 0, 0}, {{0, 0, 0}}});
}

// At 0 and for negative bases too, where some of the numbers are infinite or NaN.
TEST(ElementwiseOps, HO_01_GradientsOfPowersAtZeroAreThoseOfTheirDecompositions) {
  const std::vector<double> dy{-0.75, 0.5, 1.25, 2, -1, 0.25, 1, 3, -2}, a{0, 0, 0, 0, 1.5, 1.5, -2, -2, 2};
  auto compare = [](OpHarness &h, Value fused) { expectClose(h.values(fused), h.values(h.decomposed(fused)), 1e-14); };
  for (StringRef scalar : {"-1", "0", "0.5", "1", "2", "3", "-0.5"})
    for (StringRef op : {"_backward_power_scalar", "_backward_rpower_scalar"}) {
      SCOPED_TRACE((op + " " + scalar).str());
      OpHarness h;
      compare(h, h.apply(op, {h.variable({9}, dy), h.variable({9}, a)}, {{"scalar", scalar}}));
    }
  OpHarness h;
  const Value exponents = h.variable({9}, {0, 1, 2, -1, 0, 2, 3, 0.5, 0});
  const Value both = h.apply("_backward_power", {h.variable({9}, dy), h.variable({9}, a), exponents}, {});
  compare(h, both);
  compare(h, OpHarness::at(both, 1));
}

TEST(ElementwiseOps, HO_01_BinaryDerivativesOfThreeOrders) {
  for (StringRef op : {"elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_grad_add"})
    checkDerivatives(at(op, {{{2}, {-1.5, 0.5}}, {{2}, {2, -0.75}}}, ""), {"x0", "x1"}, 3);
}

TEST(ElementwiseOps, HO_01_BroadcastDerivativesOfThreeOrders) {
  for (StringRef op : {"broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"}) {
    checkDerivatives(at(op, {{{2, 1}, {-1.5, 0.5}}, {{3}, {2, -0.75, 1.5}}}, ""), {"x0", "x1"}, 3);
    checkDerivatives(at(op, {{{2}, {-1.5, 0.5}}, {{2, 1, 2}, {2, -0.75, 1.5, 3}}}, ""), {"x0", "x1"}, 2);
  }
}

TEST(ElementwiseOps, AGG_01_SumOfThreeOperands) {
  OpRow row{
      "ElementWiseSum", {{"num_args", "3"}}, {{{2}, {1, 2}}, {{2}, {10, 20}}, {{2}, {100, 200}}}, {2}, {111, 222}, {}};
  row.gradients = {{-0.75, 0.25}, {-0.75, 0.25}, {-0.75, 0.25}};
  checkRow(row);
}

TEST(ElementwiseOps, INF_04_BroadcastBothWays) {
  EXPECT_EQ(inferShapes("broadcast_add", {}, "(2,1) (3,) -> ?"), "(2,1) (3,) -> (2,3)");
  EXPECT_EQ(inferShapes("broadcast_add", {}, "(1,?) (?,4) -> (?,4)"), "(1,?) (?,4) -> (?,4)");
  EXPECT_EQ(inferShapes("broadcast_add", {}, "(2,1) (2,?) -> (2,5)"), "(2,1) (2,5) -> (2,5)");
  EXPECT_EQ(inferShapes("broadcast_mul", {}, "(?,3) (?,3) -> (1,3)"), "(1,3) (1,3) -> (1,3)");
  EXPECT_EQ(inferShapes("broadcast_mul", {}, "(3,) ? -> ?"), "(3,) ? -> ?");
  EXPECT_EQ(inferShapes("broadcast_mul", {}, "(2,3) (4,) -> ?"), "operands of shapes (2,3) and (4,) do not broadcast");
}

TEST(ElementwiseOps, INF_04_EqualShapesUnify) {
  EXPECT_EQ(inferShapes("elemwise_add", {}, "(?,10) (12,?) -> ?"), "(12,10) (12,10) -> (12,10)");
  EXPECT_EQ(inferShapes("_zeros", {{"shape", "(0, 3)"}}, " -> ?"), " -> (?,3)");
  EXPECT_EQ(inferShapes("_zeros", {}, " -> ?"), " -> ?");
}

TEST(ElementwiseOps, REG_19_NumArgsIsChecked) {
  TestContext context;
  const OpDef &op = *context.ops.find("add_n");
  EXPECT_EQ(describeError(context.kind(op, Attrs()).takeError()),
            "[bad_attribute] required attribute 'num_args' is missing");
  EXPECT_EQ(describeError(context.kind(op, context.attrs({AttrText{"num_args", "-1"}})).takeError()),
            "[bad_attribute] attribute 'num_args' is \"-1\", expected int from 0 to 1048576");
}

// 2^53 + 1 is no float64.
TEST(ElementwiseOps, RUN_02_IntegersAreNotRounded) {
  TestGraph g("a = _full {shape=(2,), value=9007199254740992, dtype=int64}; b = _plus_scalar(a) {scalar=1};"
              "y = _minus_scalar(b) {scalar=9007199254740992}");
  EXPECT_EQ(evaluate(g, {})[0].values, std::vector<double>(2, 1.0));
}

// Equal or one of them 1, whichever comes first; 0 is a number of elements like another.
TEST(ElementwiseOps, INF_04_EmptyAxesBroadcastAsOthers) {
  for (StringRef op : {"broadcast_add", "broadcast_greater", "broadcast_maximum"}) {
    EXPECT_EQ(inferShapes(op, {}, "(2,3) (0,3) -> ?"), "operands of shapes (2,3) and (0,3) do not broadcast");
    EXPECT_EQ(inferShapes(op, {}, "(0,3) (2,3) -> ?"), "operands of shapes (0,3) and (2,3) do not broadcast");
    EXPECT_EQ(inferShapes(op, {}, "(1,3) (0,3) -> ?"), "(1,3) (0,3) -> (0,3)");
    EXPECT_EQ(inferShapes(op, {}, "(0,1) (3,) -> ?"), "(0,1) (3,) -> (0,3)");
    EXPECT_EQ(inferShapes(op, {}, "(?,3) (0,3) -> ?"), "(?,3) (0,3) -> (0,3)");
  }
}

// Integers are added, multiplied and negated modulo 2^bits.
TEST(ElementwiseOps, RUN_02_IntegersWrapAround) {
  TestGraph g("a = _full {shape=(1,), value=2147483647, dtype=int32}; least = _full {shape=(1,), value=-2147483648, "
              "dtype=int32}; up = _plus_scalar(a) {scalar=1}; sum = elemwise_add(a, a); spread = broadcast_add(a, a);"
              "terms = add_n(a, a, a) {num_args=3}; difference = elemwise_sub(least, a); product = elemwise_mul(a, a);"
              "twice = _mul_scalar(a) {scalar=2}; down = _minus_scalar(least) {scalar=1}; minus = negative(least);"
              "magnitude = abs(least); square = square(a); rest = _rminus_scalar(least) {scalar=0};"
              "list = Concat(a, a) {num_args=2, dim=0}; total = _sum_like(list, a);"
              "heads up, sum, spread, terms, difference, product, twice, down, minus, magnitude, square, rest, total");
  std::vector<double> found;
  for (const Array &head : evaluate(g, {})) found.push_back(head.values[0]);
  const double least = -2147483648;
  EXPECT_EQ(found, (std::vector<double>{least, -2, -2, 2147483645, 1, 1, -2, 2147483647, least, least, 1, least, -2}));
}

// MXNet 1.9.1: rint takes the lower of two equally near integers, round the one farther from 0.
TEST(ElementwiseOps, RUN_02_HalfWayBetweenIntegers) {
  TestGraph g(
      "a = _constant {shape=(6,), dtype=float32, values=(-1.5,-0.5,0.5,1.5,2.5,-1.9)}; r = rint(a); o = round(a);"
      "t = fix(a); heads r, o, t");
  const std::vector<Array> heads = evaluate(g, {});
  EXPECT_EQ(heads[0].values, (std::vector<double>{-2, -1, 0, 1, 2, -2}));
  EXPECT_EQ(heads[1].values, (std::vector<double>{-2, -1, 1, 2, 3, -2}));
  EXPECT_EQ(heads[2].values, (std::vector<double>{-1, 0, 0, 1, 2, -1}));
}

// Comparisons, remainders, powers and extrema of integers: the values of MXNet 1.9.1.
TEST(ElementwiseOps, RUN_02_FunctionsOfIntegers) {
  auto valuesOf = [](const char *call) {
    TestGraph g(std::string("a = _constant {shape=(6,), dtype=int32, values=(-7,-1,0,2,3,7)};"
                            "b = _constant {shape=(6,), dtype=int32, values=(3,-2,5,-4,0,7)}; y = ") +
                call + "; heads y");
    return evaluate(g, {})[0].values;
  };
  using Values = std::vector<double>;
  EXPECT_EQ(valuesOf("_greater_scalar(a) {scalar=2}"), (Values{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(valuesOf("_lesser_scalar(a) {scalar=2}"), (Values{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(valuesOf("_equal_scalar(a) {scalar=2}"), (Values{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(valuesOf("_lesser_equal_scalar(a) {scalar=2}"), (Values{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(valuesOf("_logical_and_scalar(a) {scalar=2}"), (Values{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(valuesOf("_mod_scalar(a) {scalar=2}"), (Values{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(valuesOf("_rmod_scalar(a) {scalar=2}"), (Values{-5, 0, 0, 0, 2, 2}));
  EXPECT_EQ(valuesOf("_mod(a, b)"), (Values{2, -1, 0, -2, 0, 0}));
  EXPECT_EQ(valuesOf("broadcast_mod(a, b)"), (Values{2, -1, 0, -2, 0, 0}));
  EXPECT_EQ(valuesOf("_power_scalar(a) {scalar=2}"), (Values{49, 1, 0, 4, 9, 49}));
  EXPECT_EQ(valuesOf("_rpower_scalar(a) {scalar=2}"), (Values{0, 0, 1, 4, 8, 128}));
  EXPECT_EQ(valuesOf("_power(a, b)"), (Values{-343, 1, 0, 0, 1, 823543}));
  EXPECT_EQ(valuesOf("broadcast_power(a, b)"), (Values{-343, 1, 0, 0, 1, 823543}));
  EXPECT_EQ(valuesOf("_maximum(a, b)"), (Values{3, -1, 5, 2, 3, 7}));
  EXPECT_EQ(valuesOf("broadcast_minimum(a, b)"), (Values{-7, -2, 0, -4, 0, 7}));
}

// Where C++ leaves the result open: the least number by -1, 0 to a negative power.
TEST(ElementwiseOps, RUN_02_IntegersAtTheEdge) {
  TestGraph g(
      "least = _full {shape=(1,), value=-2147483648, dtype=int32}; minus = _full {shape=(1,), value=-1, dtype=int32};"
      "zero = _full {shape=(1,), value=0, dtype=int32}; rest = _mod(least, minus); square = _power_scalar(least) "
      "{scalar=2}; infinite = _power(zero, minus); odd = _power(minus, least); one = _power_scalar(minus) {scalar=-3};"
      "small = _full {shape=(1,), value=3, dtype=uint8}; below = _lesser_scalar(small) {scalar=5};"
      "heads rest, square, infinite, odd, one, below");
  std::vector<double> found;
  for (const Array &head : evaluate(g, {})) found.push_back(head.values[0]);
  EXPECT_EQ(found, (std::vector<double>{0, 0, 2147483647, 1, -1, 1}));
}

// A number that the type does not hold is the nearest one it does.
TEST(ElementwiseOps, RUN_02_ScalarsBeyondIntegers) {
  TestGraph g(
      "a = _full {shape=(1,), value=7, dtype=int32}; b = _full {shape=(1,), value=7, dtype=uint8};"
      "most = _maximum_scalar(a) {scalar=1e300}; least = _minimum_scalar(a) {scalar=-1e300};"
      "none = _maximum_scalar(b) {scalar=-5}; all = _plus_scalar(b) {scalar=300}; heads most, least, none, all");
  std::vector<double> found;
  for (const Array &head : evaluate(g, {})) found.push_back(head.values[0]);
  EXPECT_EQ(found, (std::vector<double>{2147483647, -2147483648, 7, 6}));
}

// Pieces of operators that compute in integers do, too.
TEST(ElementwiseOps, RUN_03_PiecesOfIntegers) {
  TestContext context;
  auto piece = [&](StringRef op, ArrayRef<AttrText> attrs, int32_t value, int32_t base) {
    const int64_t shape[] = {1};
    int32_t found = 0;
    const TensorRef in[] = {{&value, DType::Int32, shape}}, at[] = {{&base, DType::Int32, shape}};
    const TensorRef out[] = {{&found, DType::Int32, shape}};
    const Request request[] = {Request::Write};
    PieceCall call;
    const KindRef kind = cantFail(context.kind(*context.ops.find(op), context.attrs(attrs)));
    call.kind = kind.get();
    call.in = in;
    call.out = out;
    call.base = at;
    call.requests = request;
    call.kind->op->piece(call);
    return found;
  };
  EXPECT_EQ(piece("abs", {}, 5, -1), -5);
  EXPECT_EQ(piece("sign", {}, 5, -1), -1);
  EXPECT_EQ(piece("relu", {}, 5, -1), 0);
  EXPECT_EQ(piece("_maximum_scalar", {{"scalar", "3"}}, 1, 4), 1);
  EXPECT_EQ(piece("_minimum_scalar", {{"scalar", "3"}}, 1, 4), 3);
}

// A number that the type cannot hold becomes the nearest one that it can; of a bool all but 0 is true.
TEST(ElementwiseOps, RUN_02_FillValuesOutOfRange) {
  auto filled = [](const std::string &attrs) {
    return evaluate(TestGraph("y = _full {shape=(1,), " + attrs + "}"), {})[0].values;
  };
  EXPECT_EQ(filled("value=1e300, dtype=int8"), std::vector<double>{127});
  EXPECT_EQ(filled("value=-1, dtype=uint32"), std::vector<double>{0});
  EXPECT_EQ(filled("value=-inf, dtype=int16"), std::vector<double>{-32768});
  EXPECT_EQ(filled("value=0.5, dtype=bool"), std::vector<double>{1});
  EXPECT_EQ(filled("value=7, dtype=bool"), std::vector<double>{1});
}

TEST(ElementwiseOps, REG_22_NumbersWrittenAsFloatsDoNotMeetIntegers) {
  for (const char *op : {"_plus_scalar", "_greater_scalar", "_hypot_scalar"}) {
    TestGraph g(std::string("a = var {__shape__=(2,), __dtype__=int32}; y = ") + op + "(a) {scalar=1.5, is_int=False}");
    Expected<Inference> inference = infer(g.context, g, {}, {});
    ASSERT_FALSE(!!inference);
    EXPECT_NE(toString(inference.takeError())
                  .find("node 'y' (" + std::string(op) +
                        "): is_int is False and data is int32; cast the data to a "
                        "floating type first"),
              std::string::npos);
  }
  TestGraph g("a = var; y = _plus_scalar(a) {scalar=1.5, is_int=False}");
  EXPECT_EQ(evaluate(g, {{"a", Array({1}, {1})}})[0].values, std::vector<double>{2.5});
}

TEST(ElementwiseOps, REG_19_NegativeDimensions) {
  EXPECT_EQ(refusalOf("_zeros", {{"shape", "(2,-5)"}}),
            "attribute 'shape' is \"(2,-5)\", expected tuple of int from -1 [bad_attribute]");
}

}  // namespace
}  // namespace gradc
