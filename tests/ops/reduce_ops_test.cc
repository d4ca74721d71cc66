// Reductions, repetitions, reshapes, concatenation and dot: values and gradients as MXNet 1.9.1 computes them in
// float64.
#include "tests/support/ops/op_table.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<OpRow> &rows() {
  // clang-format off
  static const std::vector<OpRow> list = {
    {"sum", {}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {1}, {1.75}, {{-0.75, -0.75, -0.75, -0.75, -0.75, -0.75}}},
    {"sum", {{"axis", "(1,)"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {2}, {-0.5, 2.25}, {{-0.75, -0.75, -0.75, 0.25,
     0.25, 0.25}}},
    {"sum", {{"axis", "(0, -1)"}, {"keepdims", "True"}}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25,
     1.5, 0, -1.5, 1.25, -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {1, 3, 1}, {0.25, -1, 2},
     {{-0.75, -0.75, -0.75, -0.75, 0.25, 0.25, 0.25, 0.25, 1.25, 1.25, 1.25, 1.25, -0.75, -0.75, -0.75, -0.75, 0.25,
     0.25, 0.25, 0.25, 1.25, 1.25, 1.25, 1.25}}},
    {"sum", {{"axis", "1"}, {"exclude", "True"}}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5,
     0, -1.5, 1.25, -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {3}, {0.25, -1, 2}, {{-0.75, -0.75,
     -0.75, -0.75, 0.25, 0.25, 0.25, 0.25, 1.25, 1.25, 1.25, 1.25, -0.75, -0.75, -0.75, -0.75, 0.25, 0.25, 0.25, 0.25,
     1.25, 1.25, 1.25, 1.25}}},
    {"mean", {}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {1}, {0.2916666666666667}, {{-0.125, -0.125, -0.125, -0.125,
     -0.125, -0.125}}},
    {"mean", {{"axis", "(1,)"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {2}, {-0.16666666666666666, 0.75}, {{-0.25,
     -0.25, -0.25, 0.08333333333333333, 0.08333333333333333, 0.08333333333333333}}},
    {"mean", {{"axis", "(0, -1)"}, {"keepdims", "True"}}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25,
     -1.25, 1.5, 0, -1.5, 1.25, -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {1, 3, 1}, {0.03125,
     -0.125, 0.25}, {{-0.09375, -0.09375, -0.09375, -0.09375, 0.03125, 0.03125, 0.03125, 0.03125, 0.15625, 0.15625,
     0.15625, 0.15625, -0.09375, -0.09375, -0.09375, -0.09375, 0.03125, 0.03125, 0.03125, 0.03125, 0.15625, 0.15625,
     0.15625, 0.15625}}},
    {"mean", {{"axis", "1"}, {"exclude", "True"}}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5,
     0, -1.5, 1.25, -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {3}, {0.03125, -0.125, 0.25},
     {{-0.09375, -0.09375, -0.09375, -0.09375, 0.03125, 0.03125, 0.03125, 0.03125, 0.15625, 0.15625, 0.15625, 0.15625,
     -0.09375, -0.09375, -0.09375, -0.09375, 0.03125, 0.03125, 0.03125, 0.03125, 0.15625, 0.15625, 0.15625,
     0.15625}}},
    {"sum", {{"axis", "(-2,)"}}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5, 0, -1.5, 1.25,
     -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {2, 4}, {-2.75, 1.25, 1, 0.75, 2.75, -1.75, -2, 2},
     {{-0.75, 0.25, 1.25, -0.25, -0.75, 0.25, 1.25, -0.25, -0.75, 0.25, 1.25, -0.25, 0.75, -0.75, 0.25, 1.25, 0.75,
     -0.75, 0.25, 1.25, 0.75, -0.75, 0.25, 1.25}}},
    {"sum", {{"axis", "()"}, {"keepdims", "True"}}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5,
     0, -1.5, 1.25, -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {1, 1, 1}, {1.25}, {{-0.75, -0.75,
     -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75,
     -0.75, -0.75, -0.75, -0.75, -0.75, -0.75}}},
    {"sum", {{"axis", "(0, 1)"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {1}, {1.75}, {{-0.75, -0.75, -0.75, -0.75,
     -0.75, -0.75}}},
    {"broadcast_like", {}, {{{2, 1}, {1, 2}}, {{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {2, 3}, {1, 1, 1, 2, 2, 2},
     {{0.75, -0.25}, {0, 0, 0, 0, 0, 0}}},
    {"reshape_like", {}, {{{6}, {0, 1, 2, 3, 4, 5}}, {{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {2, 3}, {0, 1, 2, 3, 4, 5},
     {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}, {0, 0, 0, 0, 0, 0}}},
    {"Flatten", {}, {{{2, 3, 4}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5, 0, -1.5, 1.25, -0.25, -1.75, 1,
     -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}}}, {2, 12}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5, 0,
     -1.5, 1.25, -0.25, -1.75, 1, -0.5, -2, 0.75, -0.75, 2, 0.5, -1, 1.75}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75,
     0.25, 1.25, -0.25, 0.75, -0.75, 0.25, 1.25, -0.25, 0.75, -0.75, 0.25, 1.25, -0.25, 0.75, -0.75, 0.25, 1.25,
     -0.25}}},
    {"broadcast_like", {{"lhs_axes", "(0,)"}, {"rhs_axes", "(1,)"}}, {{{1, 2}, {1, 2}}, {{2, 3}, {1, -2, 0.5, 3, 0.25,
     -1}}}, {3, 2}, {1, 2, 1, 2, 1, 2}, {{1.25, -0.75}, {0, 0, 0, 0, 0, 0}}},
    {"reshape_like", {{"lhs_begin", "1"}, {"lhs_end", "2"}, {"rhs_begin", "0"}, {"rhs_end", "2"}}, {{{2, 3}, {1, -2,
     0.5, 3, 0.25, -1}}, {{3, 1, 7}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}, {2, 3, 1}, {1,
     -2, 0.5, 3, 0.25, -1}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
     0, 0, 0, 0, 0}}},
    {"dot", {}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}, {{3}, {0.5, -1, 2}}}, {2}, {3.5, -0.75}, {{-0.375, 0.75, -1.5,
     0.125, -0.25, 0.5}, {0, 1.5625, -0.625}}},
    {"dot", {}, {{{3}, {0.5, -1, 2}}, {{3}, {1.5, 0, 3}}}, {1}, {6.75}, {{-1.125, -0, -2.25}, {-0.375, 0.75, -1.5}}},
    {"dot", {}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}, {{3, 2}, {-2, 0.75, -1.25, 1.5, -0.5, -2}}}, {2, 2}, {0.25,
     -3.25, -5.8125, 4.625}, {{1.6875, 1.3125, -0.125, -2.6875, -1.9375, -0.125}, {3, -0.5, 1.8125, -0.5625, -1.625,
     0.375}}},
    {"dot", {{"transpose_a", "True"}}, {{{3, 2}, {1, 3, -2, 0.25, 0.5, -1}}, {{3, 2}, {-2, 0.75, -1.25, 1.5, -0.5,
     -2}}}, {2, 2}, {0.25, -3.25, -5.8125, 4.625}, {{1.6875, -2.6875, 1.3125, -1.9375, -0.125, -0.125}, {3, -0.5,
     1.8125, -0.5625, -1.625, 0.375}}},
    {"dot", {{"transpose_b", "True"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}, {{2, 3}, {-2, 0.75, -0.75, 2, 0.5, -1}}},
     {2, 2}, {-3.875, 0.5, -5.0625, 7.125}, {{2, -0.4375, 0.3125, -3, 0.8125, -0.6875}, {3, 1.8125, -1.625, -0.5,
     -0.5625, 0.375}}},
    {"dot", {{"transpose_a", "True"}, {"transpose_b", "True"}}, {{{3, 2}, {1, 3, -2, 0.25, 0.5, -1}}, {{2, 3}, {-2,
     0.75, -0.75, 2, 0.5, -1}}}, {2, 2}, {-3.875, 0.5, -5.0625, 7.125}, {{2, -3, -0.4375, 0.8125, 0.3125, -0.6875},
     {3, 1.8125, -1.625, -0.5, -0.5625, 0.375}}},
    {"dot", {}, {{{1, 4, 3}, {-2, 0.75, -0.75, 2, 0.5, -1, 1.75, 0.25, -1.25, 1.5, 0, -1.5}}, {{3, 2, 2}, {-2, 0.75,
     -0.75, 2, -1.25, 1.5, 0, -1.5, -0.5, -2, 0.75, -0.75}}}, {1, 4, 2, 2}, {3.4375, 1.125, 0.9375, -4.5625, -4.125,
     4.25, -2.25, 4, -3.1875, 4.1875, -2.25, 4.0625, -2.25, 4.125, -2.25, 4.125}, {{0.25, 1.6875, 1, 0.25, -3.9375,
     0.375, 2.125, 1.0625, -2.125, -4.75, -0.8125, 1}, {4.4375, -1.0625, -2.1875, 2.3125, -0.25, 0, 0.875, 0.5, -1.75,
     0, -1.375, -0.25}}},
    {"dot", {{"transpose_a", "True"}}, {{{3, 2, 2}, {-2, 0.75, -0.75, 2, -1.25, 1.5, 0, -1.5, -0.5, -2, 0.75, -0.75}},
     {{3, 2, 1}, {0.5, 1.75, 1.25, -1.75, 2, -1}}}, {2, 2, 2, 1}, {-3.5625, -0.8125, -1.75, 0.6875, 1.125, -2.0625,
     -2.375, 6.875}, {{0.0625, 0.1875, -0.9375, 2.3125, -1.375, 2, 2.25, -1.875, -1.75, 2.75, 2.25, -0.75}, {2.375,
     2.375, 2.4375, -2.5625, -1.75, -1.125}}},
    {"dot", {{"transpose_b", "True"}}, {{{2, 1, 3}, {-2, 0.75, -0.75, 1.25, -0.25, -1.75}}, {{1, 2, 3}, {-2, 0.75,
     -0.75, 2, 0.5, -1}}}, {2, 1, 1, 2}, {5.125, -2.875, -1.375, 4.125}, {{2, -0.4375, 0.3125, -3, 0.8125, -0.6875},
     {3.0625, -0.875, -1.625, -0.8125, 0.25, 0.25}}},
    {"Concat", {{"num_args", "2"}, {"dim", "1"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}, {{2, 1}, {1, 3}}}, {2, 4}, {1,
     -2, 0.5, 1, 3, 0.25, -1, 3}, {{-0.75, 0.25, 1.25, 0.75, -0.75, 0.25}, {-0.25, 1.25}}},
    {"Concat", {{"num_args", "3"}, {"dim", "-2"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}, {{1, 3}, {1.5, -1.5, 1}},
     {{1, 3}, {1, -2, 0.5}}}, {4, 3}, {1, -2, 0.5, 3, 0.25, -1, 1.5, -1.5, 1, 1, -2, 0.5}, {{-0.75, 0.25, 1.25, -0.25,
     0.75, -0.75}, {0.25, 1.25, -0.25}, {0.75, -0.75, 0.25}}},
    {"Concat", {{"num_args", "2"}, {"dim", "2"}}, {{{2, 3, 1}, {-2, 0.5, -1.25, 1.25, -0.5, 2}}, {{2, 3, 2}, {-2,
     0.75, 0.5, -1, -1.25, 1.5, 1.25, -0.25, -0.5, -2, 2, 0.5}}}, {2, 3, 3}, {-2, -2, 0.75, 0.5, 0.5, -1, -1.25,
     -1.25, 1.5, 1.25, 1.25, -0.25, -0.5, -0.5, -2, 2, 2, 0.5}, {{-0.75, -0.25, 0.25, 0.75, 1.25, -0.75}, {0.25, 1.25,
     0.75, -0.75, 1.25, -0.25, -0.75, 0.25, -0.25, 0.75, 0.25, 1.25}}},
    {"Concat", {{"num_args", "1"}, {"dim", "0"}}, {{{2, 3}, {1, -2, 0.5, 3, 0.25, -1}}}, {2, 3}, {1, -2, 0.5, 3, 0.25,
     -1}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
  };
  // clang-format on
  return list;
}

TEST(ReduceOps, RUN_02_ValuesAndGradients) {
  for (const OpRow &row : rows()) checkRow(row);
}

// Second operands of the `_like` operators have no gradient but zeros.
TEST(ReduceOps, HO_01_DerivativesOfTwoOrders) {
  for (const OpRow &row : rows()) {
    if (row.op == "dot") checkDerivatives(row, {"x0", "x1"}, 3);
    else checkDerivatives(row, {"x0"}, row.op == "Concat" ? 3 : 2);
  }
}

TEST(ReduceOps, HO_01_DotIsBilinearInEveryTranspose) {
  for (StringRef ta : {"False", "True"})
    for (StringRef tb : {"False", "True"}) {
      OpRow row{"dot", {{"transpose_a", ta.str()}, {"transpose_b", tb.str()}}, {}, {}, {}, {}};
      row.inputs = {
          {ta == "True" ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3}, {1, -2, .5, 3, .25, -1}},
          {tb == "True" ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{3, 2}, {.5, 1, -1.5, 2, -.75, 3}}};
      checkDerivatives(row, {"x0", "x1"}, 3);
    }
}

// The adjoint of repeating is summing, and back.
TEST(ReduceOps, HO_01_OwnRepetitions) {
  checkRow({"_sum_like", {}, {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{3}, {0, 0, 0}}}, {3}, {5, 7, 9}, {}});
  checkRow({"_sum_like", {}, {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 1}, {0, 0}}}, {2, 1}, {6, 15}, {}});
  checkRow({"_broadcast_axis_like",
            {{"axis", "1"}},
            {{{2}, {1, 2}}, {{1, 2, 3}, {0, 0, 0, 0, 0, 0}}},
            {1, 2, 3},
            {1, 1, 1, 2, 2, 2},
            {}});
  checkRow({"broadcast_like", {}, {{{3}, {1, 2, 3}}, {{2, 3}, {0, 0, 0, 0, 0, 0}}}, {2, 3}, {1, 2, 3, 1, 2, 3}, {}});
  checkDerivatives({"_sum_like", {}, {{{2, 2}, {1, 2, 3, 4}}, {{2}, {0, 0}}}, {}, {}, {}}, {"x0"}, 2);
  checkDerivatives(
      {"_broadcast_axis_like", {{"axis", "-2"}}, {{{2}, {1, 2}}, {{1, 2, 3}, {0, 0, 0, 0, 0, 0}}}, {}, {}, {}}, {"x0"},
      2);
}

TEST(ReduceOps, INF_04_ReductionsBothWays) {
  EXPECT_EQ(inferShapes("sum", {}, "(2,3) -> ?"), "(2,3) -> (1,)");
  EXPECT_EQ(inferShapes("sum", {{"axis", "1"}}, "(?,3,?) -> (2,4)"), "(2,3,4) -> (2,4)");
  EXPECT_EQ(inferShapes("mean", {{"axis", "(0,-1)"}, {"keepdims", "True"}}, "(2,?,4) -> (1,5,1)"),
            "(2,5,4) -> (1,5,1)");
  EXPECT_EQ(inferShapes("sum", {{"axis", "(1,-1)"}}, "(2,3) -> ?"),
            "axis (1, -1) names an axis twice or one that shape (2,3) does not have");
  EXPECT_EQ(inferShapes("sum", {{"axis", "2"}}, "(2,3) -> ?"),
            "axis (2,) names an axis twice or one that shape (2,3) does not have");
}

TEST(ReduceOps, INF_04_ConcatBothWays) {
  const AttrText attrs[] = {{"num_args", "2"}, {"dim", "1"}};
  EXPECT_EQ(inferShapes("Concat", attrs, "(?,10) (?,5) -> (2,?)"), "(2,10) (2,5) -> (2,15)");
  EXPECT_EQ(inferShapes("Concat", attrs, "(2,?) (?,5) -> (?,15)"), "(2,10) (2,5) -> (2,15)");
  EXPECT_EQ(inferShapes("Concat", attrs, "? (3,5) -> ?"), "(3,?) (3,5) -> (3,?)");
  EXPECT_EQ(inferShapes("Concat", attrs, "(2,5) (3,5) -> ?"),
            "input 1 has shape (3,5), expected (2,?) apart from dim 1");
  EXPECT_EQ(inferShapes("Concat", attrs, "(2,5) (2,5) -> (2,9)"), "the parts do not add up to output 0 of shape (2,9)");
  EXPECT_EQ(inferShapes("Concat", {{"num_args", "1"}, {"dim", "-3"}}, "(2,5) -> ?"), "dim -3 is outside 2 dimensions");
}

TEST(ReduceOps, INF_04_ReshapesBothWays) {
  EXPECT_EQ(inferShapes("Flatten", {}, "(2,3,4) -> ?"), "(2,3,4) -> (2,12)");
  EXPECT_EQ(inferShapes("Flatten", {}, "(?,3,4) -> (5,?)"), "(5,3,4) -> (5,12)");
  EXPECT_EQ(inferShapes("Flatten", {}, "(2,?) -> (?,7)"), "(2,7) -> (2,7)");
  EXPECT_EQ(inferShapes("Flatten", {}, "(2,) -> ?"), "(2,) -> (2,1)");
  EXPECT_EQ(inferShapes("reshape_like", {}, "(6,) (2,3) -> ?"), "(6,) (2,3) -> (2,3)");
  EXPECT_EQ(inferShapes("reshape_like", {}, "(5,) (2,3) -> ?"),
            "shape (5,) cannot be reshaped to (2,3): the numbers of elements differ");
}

TEST(ReduceOps, INF_03_DotBothWays) {
  EXPECT_EQ(inferShapes("dot", {}, "(?,3,4) (4,5) -> ?"), "(?,3,4) (4,5) -> (?,3,5)");
  EXPECT_EQ(inferShapes("dot", {}, "(2,?) (?,5) -> ?"), "(2,?) (?,5) -> (2,5)");
  EXPECT_EQ(inferShapes("dot", {}, "(?,4) (?,?) -> (2,5)"), "(2,4) (4,5) -> (2,5)");
  EXPECT_EQ(inferShapes("dot", {{"transpose_b", "True"}}, "(2,3) (4,3) -> ?"), "(2,3) (4,3) -> (2,4)");
  EXPECT_EQ(inferShapes("dot", {}, "(2,3) (4,5) -> ?"),
            "shapes (2,3) and (4,5) differ in the axis summed over: 3 and 4");
}

TEST(ReduceOps, INF_08_E_50_BackwardDotRelatesAllOfItsOperands) {
  EXPECT_EQ(inferShapes("_backward_dot", {}, "? ? ? -> (2,3) (3,5)"), "(2,5) (2,3) (3,5) -> (2,3) (3,5)");
  EXPECT_EQ(inferShapes("_backward_dot", {}, "(2,5) (2,?) (3,?) -> ? ?"), "(2,5) (2,3) (3,5) -> (2,3) (3,5)");
  EXPECT_EQ(inferShapes("_backward_dot", {}, "? (4,) (4,) -> ? ?"), "(1,) (4,) (4,) -> (4,) (4,)");
  EXPECT_EQ(inferShapes("_backward_dot", {}, "(2,5) (2,3) (3,4) -> ? ?"), "input 0 has shape (2,5), expected (2,4)");
  EXPECT_EQ(inferShapes("_backward_dot", {}, "(2,5) (2,3) (4,5) -> ? ?"),
            "shapes (2,3) and (4,5) differ in the axis summed over: 3 and 4");
  EXPECT_EQ(inferShapes("_backward_dot", {}, "? (2,3) (3,5) -> (2,4) ?"),
            "input 1 has shape (2,3), but output 0 has shape (2,4)");
}

// Written, that is, whatever was in the memory before.
TEST(ReduceOps, RUN_02_DotOverAnEmptyAxisIsZero) {
  const OpRow row{"dot",
                  {},
                  {{{2, 0}, {}}, {{0, 3}, {}}},
                  {2, 3},
                  {0, 0, 0, 0, 0, 0},
                  {std::vector<double>(), std::vector<double>()}};
  checkRow(row);
  OpCase c(row);
  NaiveRun run = cantFail(NaiveRun::run(c.graph, c.bindings, {}));
  const Value y = c.graph.heads()[0];
  NaiveRun::Call call;
  run.prepare(y.node, call);
  std::memset(call.out[0].data, 0x7f, call.out[0].bytes());
  c.graph.op(y.node)->kernel(call.call);
  EXPECT_EQ(run.value(y).values, row.values);
}

TEST(ReduceOps, E_50_ConcatThatDoesNotAddUp) {
  const std::vector<AttrText> three = {{"num_args", "3"}, {"dim", "0"}};
  EXPECT_EQ(inferShapes("Concat", three, "(281474976710656,1) (281474976710656,1) (5,1) -> ?"),
            "output 0 would have the shape (out of range,1), expected dimensions from 0 and at most 2^48 elements");
  EXPECT_EQ(inferShapes("Concat", three, "(2,5) ? ? -> (1,5)"), "the parts do not add up to output 0 of shape (1,5)");
  EXPECT_EQ(inferShapes("Concat", three, "(2,5) ? (0,5) -> (2,5)"), "(2,5) (0,5) (0,5) -> (2,5)");
  EXPECT_EQ(inferShapes("Concat", three, "() () () -> ?"), "dim 0 is outside 0 dimensions");
}

// As MXNet's: gluon leaves the sizes of the first layer's weights open, one per direction.
TEST(ReduceOps, INF_04_PartsOfRnnParametersShareTheRestEqually) {
  const std::vector<AttrText> three = {{"num_args", "3"}, {"dim", "0"}};
  EXPECT_EQ(inferShapes("_rnn_param_concat", three, "? (4,) ? -> (10,)"), "(3,) (4,) (3,) -> (10,)");
  EXPECT_EQ(inferShapes("_rnn_param_concat", three, "(2,) (4,) ? -> (10,)"), "(2,) (4,) (4,) -> (10,)");
  EXPECT_EQ(inferShapes("_rnn_param_concat", three, "(2,) (4,) (4,) -> ?"), "(2,) (4,) (4,) -> (10,)");
  EXPECT_EQ(inferShapes("_rnn_param_concat", three, "? (5,) ? -> (10,)"),
            "the 2 parts of unknown length cannot share the 5 elements left of output 0 of shape (10,) equally");
  EXPECT_EQ(inferShapes("Concat", three, "? (4,) ? -> (10,)"), "(?,) (4,) (?,) -> (10,)");
}

// What is cut out of v has to be inside it: v is as long as the parts together.
TEST(ReduceOps, INF_04_ConcatPartIsAPartOfTheWhole) {
  const std::vector<AttrText> second = {{"num_args", "2"}, {"dim", "0"}, {"index", "1"}};
  EXPECT_EQ(inferShapes("_concat_part", second, "(8,3) (3,3) (5,3) -> ?"), "(8,3) (3,3) (5,3) -> (5,3)");
  EXPECT_EQ(inferShapes("_concat_part", second, "(8,3) (3,?) ? -> ?"), "(8,3) (3,3) (5,3) -> (5,3)");
  EXPECT_EQ(inferShapes("_concat_part", second, "? (3,3) ? -> (5,3)"), "(8,3) (3,3) (5,3) -> (5,3)");
  EXPECT_EQ(inferShapes("_concat_part", second, "(4,3) (3,3) (5,3) -> ?"),
            "the parts do not add up to input 0 of shape (4,3)");
  EXPECT_EQ(inferShapes("_concat_part", second, "(8,4) (3,3) (5,3) -> ?"),
            "input 0 has shape (8,4), expected (?,3) apart from dim 0");
  EXPECT_EQ(inferShapes("_concat_part", second, "(8,) (3,3) (5,3) -> ?"),
            "input 1 has shape (3,3), expected (?,) apart from dim 0");
  EXPECT_EQ(inferShapes("_concat_part", {{"num_args", "1"}, {"index", "0"}}, "(3,) (3,) -> ?"),
            "dim 1 is outside 1 dimension");
  const std::vector<AttrText> two = {{"num_args", "2"}, {"dim", "1"}};
  EXPECT_EQ(inferShapes("_backward_Concat", two, "(2,5) (2,3) ? -> ? (2,?)"), "(2,5) (2,3) (2,2) -> (2,3) (2,2)");
  EXPECT_EQ(inferShapes("_backward_Concat", two, "(2,5) (2,3) (2,3) -> ? ?"),
            "the parts do not add up to input 0 of shape (2,5)");
}

// Σ over nothing is 0 and the mean of nothing NaN, in as many steps as there are sums.
TEST(ReduceOps, RUN_02_ReductionsOfNothing) {
  const OpTensor empty{{0, 3}, {}}, long_{{int64_t{1} << 40, 0, 2}, {}};
  checkRow({"sum", {{"axis", "0"}}, {empty}, {3}, {0, 0, 0}, {{}}});
  checkRow({"sum", {}, {empty}, {1}, {0}, {{}}});
  checkRow({"sum", {{"axis", "(0,1)"}}, {long_}, {2}, {0, 0}, {{}}});
  checkRow({"mean", {{"axis", "0"}, {"keepdims", "True"}}, {empty}, {1, 3}, {NAN, NAN, NAN}, {{}}});
  checkRow({"_sum_like", {}, {long_, {{2}, {5, 5}}}, {2}, {0, 0}, {}});
}

TEST(ReduceOps, INF_04_BroadcastLikeNamesAnAxisOnce) {
  EXPECT_EQ(inferShapes("broadcast_like", {{"lhs_axes", "(0,-2)"}, {"rhs_axes", "(0,1)"}}, "(1,3) (2,3) -> ?"),
            "lhs_axes name axis -2 of the shape (1,3) twice");
  EXPECT_EQ(inferShapes("broadcast_like", {{"lhs_axes", "(0,1)"}, {"rhs_axes", "(1,1)"}}, "(1,1) (2,3) -> ?"),
            "(1,1) (2,3) -> (3,3)");
}

}  // namespace
}  // namespace gradc
