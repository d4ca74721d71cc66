// Norms, products, running sums, moments, positions of extrema, sorting and shuffling: values and gradients where
// samples do not reach (zeros, ties, NaN, numbers out of range), shapes both ways, refusals.
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/ops/op_harness.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// Names of heads are MXNet's: operators of several outputs, hidden ones included, that list no names number them.
TEST(OrderingOps, IR_16_NumberedOutputs) {
  const std::pair<const char *, const char *> cases[] = {
      {"topk(x)", "y_output"},
      {"topk(x) {ret_typ=value}", "y_output0"},
      {"topk(x) {ret_typ=both}", "y_output0"},
      {"topk(x) {ret_typ=mask}", "y_output"},
      {"sort(x)", "y_output0"},
      {"argsort(x)", "y_output"},
      {"moments(x) {axes=(0,)}", "y_output0"},
      {"CTCLoss(x, l)", "y_output0"},
      {"_split_v2(x) {indices=(0,1)}", "y_output0"},
      {"_rnn_param_concat(x, l) {num_args=2}", "y_output"},
  };
  for (const auto &[text, name] : cases) {
    TestGraph g(std::string("x = var; l = var; y = ") + text);
    EXPECT_EQ(g.graph.listedName(g.graph.heads()[0]), name) << text;
  }
  TestGraph both("x = var; y = topk(x) {ret_typ=both}; heads y, y:1");
  EXPECT_EQ(both.graph.listedName(both.graph.heads()[1]), "y_output1");
}

// The head gradient of checkRow is -0.75 for the first element and 0.25 for the second.
TEST(OrderingOps, RUN_02_GradientOfNormAtZero) {
  checkRow({"norm", {{"axis", "1"}}, {{{2, 2}, {0, 0, 3, -4}}}, {2}, {0, 5}, {{0, 0, 0.15, -0.2}}});
  checkRow({"norm", {{"axis", "1"}, {"ord", "1"}}, {{{2, 2}, {0, 0, 3, -4}}}, {2}, {0, 7}, {{0, 0, 0.25, -0.25}}});
  OpHarness h;
  const Value x = h.variable({2}, std::vector<double>{0, 0}), y = h.apply("norm", x, {});
  const Value dx = h.gradients(y, h.variable({1}, std::vector<double>{1}), x)[0];
  EXPECT_EQ(h.values(h.decomposed(dx)), (std::vector<double>{0, 0}));
}

// Squares that overflow or vanish, as in MXNet.
TEST(OrderingOps, RUN_02_NormsOutOfRange) {
  const double root = std::sqrt(2.0);
  checkRow({"norm",
            {{"axis", "1"}},
            {{{2, 2}, {1e200, 1e200, 1e-200, 0}}},
            {2},
            {root * 1e200, 1e-200},
            {{-0.75 / root, -0.75 / root, 0.25, 0}}});
  checkRow({"norm", {}, {{{2}, {HUGE_VAL, 1}}}, {1}, {HUGE_VAL}, {}});
  checkRow({"norm", {}, {{{2}, {NAN, 1}}}, {1}, {NAN}, {}});
  checkRow({"norm", {}, {{{2}, {NAN, HUGE_VAL}}}, {1}, {NAN}, {}});
  checkRow({"norm", {{"ord", "1"}}, {{{2}, {NAN, 1}}}, {1}, {NAN}, {}});
}

TEST(OrderingOps, RUN_02_SumsAndProductsWithoutNaN) {
  const OpTensor x{{2, 3}, {NAN, 2, 3, NAN, NAN, NAN}};
  checkRow({"nansum", {{"axis", "1"}}, {x}, {2}, {5, 0}, {{0, -0.75, -0.75, 0, 0, 0}}});
  checkRow({"nanprod", {{"axis", "1"}}, {x}, {2}, {6, 1}, {{0, -2.25, -1.5, 0, 0, 0}}});
  checkRow({"nanprod", {}, {{{3}, {0, NAN, 3}}}, {1}, {0}, {{-2.25, 0, 0}}});
}

// MXNet divides by the factors and has NaN there.
TEST(OrderingOps, HO_02_ProductsOfZeros) {
  checkRow({"prod", {{"axis", "1"}}, {{{2, 3}, {0, 2, 3, 0, 0, 3}}}, {2}, {0, 0}, {{-4.5, 0, 0, 0, 0, 0}}});
  const std::vector<std::pair<std::string, std::string>> axis = {{"axis", "1"}};
  for (const char *op : {"prod", "nanprod"})
    for (std::vector<double> x : {std::vector<double>{0, 2, 3, -1}, {0, 0, 3, 0.5}, {0, 0, 0, 2}, {0, 0, 0, 0}})
      checkDerivatives({op, axis, {{{1, 4}, x}}, {}, {}, {}}, {"x0"}, 3);
}

// In operators of a host: right where factors are 0, and no tensor is larger than x, whatever the order.
TEST(OrderingOps, A_17_HO_02_ProductsOfOtherFactorsAreLoops) {
  auto secondOrder = [](const char *shape, const Target &target, const Bindings &bindings) {
    TestGraph g(std::string("x = var {__shape__=") + shape + "}; y = prod(x) {axis=(0,2)}");
    const Graph graph = gradientOf(g.context, g, {"x"}, 2).graph;
    const Inference known = cantFail(infer(g.context, graph, {}, InferOptions()));
    const Graph lowered = cantFail(lowerTo(g.context, graph, target, &known));
    const Inference sizes = cantFail(infer(g.context, lowered, {}, InferOptions()));
    int64_t largest = 0;
    for (uint32_t e = 0; e < lowered.numEntries(); ++e) largest = std::max(largest, sizes.elements(EntryId(e)));
    EXPECT_EQ(countOps(lowered, "_product_gradient"), 0u);
    EXPECT_EQ(largest, sizes.elements(lowered.entry(Value{nodeNamed(lowered, "x")})));
    if (bindings.empty()) return;
    const std::vector<Array> before = evaluate(graph, bindings), after = evaluate(lowered, bindings);
    for (size_t head = 0; head < before.size(); ++head) EXPECT_EQ(before[head].values, after[head].values);
  };
  for (const Target *target : {&kPrimitivesTarget, &kMxnetTarget}) {
    secondOrder("(500,2,2)", *target, {});
    secondOrder("(2,2,2)", *target, {{"x", Array(std::vector<int64_t>{2, 2, 2}, {0, 2, 0.5, 3, 0, 4, -1, 2})}});
  }
}

TEST(OrderingOps, RUN_02_RunningSums) {
  checkRow({"_np_cumsum", {}, {{{2, 2}, {1, 2, 3, 4}}}, {4}, {1, 3, 6, 10}, {{0.5, 1.25, 1, -0.25}}});
  auto sums = [](const std::string &type, const std::string &value) {
    return evaluate(TestGraph("x = _full {shape=(3,), value=" + value + ", dtype=" + type + "}; y = cumsum(x)"), {})[0]
        .values;
  };
  EXPECT_EQ(sums("uint8", "100"), (std::vector<double>{100, 200, 44})) << "modulo 2^8";
  EXPECT_EQ(sums("int32", "2000000000"), (std::vector<double>{2000000000, -294967296, 1705032704}));
  TestGraph narrow("x = _full {shape=(2,), value=300, dtype=int32}; y = cumsum(x) {dtype=float64}");
  EXPECT_EQ(evaluate(narrow, {})[0].values, (std::vector<double>{300, 600}));
  EXPECT_EQ(
      describeError(
          infer(testContext(), TestGraph("x = _full {shape=(2,), value=1, dtype=bool}; y = cumsum(x)"), {}, {})),
      "[infer_conflict] operator '_np_cumsum', node 'y' (cumsum): sums have type bool, expected a type of numbers "
      "as attribute dtype");
}

// The first of equal ones; a NaN is the extremum, as in max and min.
TEST(OrderingOps, RUN_02_PositionsOfExtrema) {
  const OpTensor x{{2, 5}, {1, NAN, 3, NAN, 2, NAN, 5, 5, 1, NAN}}, ties{{2, 3}, {3, 1, 3, 2, 2, 2}};
  checkRow({"argmax", {{"axis", "1"}}, {x}, {2}, {1, 0}, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}});
  checkRow({"argmin", {{"axis", "0"}}, {x}, {5}, {1, 0, 0, 0, 1}, {}});
  checkRow({"argmax", {}, {x}, {1}, {1}, {}});
  checkRow({"argmax", {{"axis", "1"}}, {ties}, {2}, {0, 0}, {}});
  checkRow({"argmin", {{"axis", "-1"}, {"keepdims", "True"}}, {ties}, {2, 1}, {1, 0}, {}});
  checkRow({"argmax_channel", {}, {ties}, {2}, {0, 0}, {}});
  checkRow({"argmax", {}, {{{2}, {-HUGE_VAL, -HUGE_VAL}}}, {1}, {0}, {}});
  for (const char *op : {"argmax", "argmin"}) {
    OpHarness h;
    const Value v = h.variable({2, 5}, x.values), y = h.apply(op, v, {{"axis", "1"}});
    EXPECT_EQ(h.values(h.decomposed(y)), h.values(y)) << op;
  }
}

TEST(OrderingOps, RUN_02_NaNComesLast) {
  const OpTensor x{{1, 5}, {NAN, 2, -HUGE_VAL, NAN, HUGE_VAL}};
  checkRow({"argsort", {}, {x}, {1, 5}, {2, 1, 4, 0, 3}, {}});
  checkRow({"argsort", {{"is_ascend", "False"}}, {x}, {1, 5}, {4, 1, 2, 0, 3}, {}});
  checkRow({"sort", {{"axis", "None"}}, {x}, {5}, {-HUGE_VAL, 2, HUGE_VAL, NAN, NAN}, {}});
  checkRow({"topk", {{"k", "2"}, {"ret_typ", "value"}}, {x}, {1, 2}, {HUGE_VAL, 2}, {{0, 0.25, 0, 0, -0.75}}});
}

// Of equal elements the first comes first, also where few of many are taken. -0 equals 0.
TEST(OrderingOps, RUN_02_EqualElementsKeepTheirOrder) {
  checkRow({"argsort", {}, {{{6}, {2, 0, 2, -0.0, 0, 2}}}, {6}, {1, 3, 4, 0, 2, 5}, {}});
  checkRow({"argsort", {{"is_ascend", "False"}}, {{{6}, {2, 0, 2, -0.0, 0, 2}}}, {6}, {0, 2, 5, 1, 3, 4}, {}});
  checkRow({"topk", {{"k", "2"}}, {{{2, 3}, {3, 1, 3, 2, 2, 2}}}, {2, 2}, {0, 2, 0, 1}, {}});
  checkRow({"topk",
            {{"k", "2"}, {"ret_typ", "mask"}, {"axis", "None"}},
            {{{2, 3}, {3, 1, 3, 2, 2, 2}}},
            {2, 3},
            {1, 0, 1, 0, 0, 0},
            {}});
  checkRow({"topk", {{"k", "3"}}, {{{64}, std::vector<double>(64, 7)}}, {3}, {0, 1, 2}, {}});
}

TEST(OrderingOps, RUN_02_PositionsOutOfRange) {
  OpHarness h;
  const Value x = h.variable({3}, std::vector<double>{1, 2, 3});
  const Value at = h.variable({6}, std::vector<double>{-1, 7, NAN, 1.9, HUGE_VAL, -1e300});
  EXPECT_EQ(h.values(h.apply("_take_along_axis", {x, at}, {{"axis", "0"}})), (std::vector<double>{1, 3, 1, 2, 3, 1}));
  const Value v = h.variable({6}, std::vector<double>{1, 2, 4, 8, 16, 32});
  EXPECT_EQ(h.values(h.apply("_scatter_along_axis", {v, at, x}, {{"axis", "0"}})), (std::vector<double>{37, 8, 18}));
  TestGraph g("n = _full {shape=(1,), value=18446744073709549568, dtype=uint64}; y = _take_along_axis(x, n) {axis=0}");
  EXPECT_EQ(evaluate(g, {{"x", Array({2}, {5, 6})}})[0].values, (std::vector<double>{6})) << "2^64 - 2048";
}

// The gradient puts every row back where it came from; draws depend on the seed alone.
TEST(OrderingOps, RUN_02_Shuffle) {
  constexpr int64_t kRows = 50;
  std::vector<double> numbers(kRows * 2);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  OpHarness h;
  const Value x = h.variable({kRows, 2}, numbers), y = h.apply("_shuffle", x, {});
  const std::vector<double> shuffled = h.values(y), order = h.values(OpHarness::at(y, 1));
  EXPECT_EQ(h.values(y), shuffled);
  size_t numMoved = 0;
  std::vector<bool> isSeen(kRows, false);
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(shuffled[2 * i], 2 * order[i]);
    EXPECT_EQ(shuffled[2 * i + 1], 2 * order[i] + 1);
    isSeen[static_cast<size_t>(order[i])] = true;
    numMoved += order[i] != static_cast<double>(i);
  }
  EXPECT_FALSE(is_contained(isSeen, false));
  EXPECT_GT(numMoved, 40u);
  const Value seed = h.variable({kRows, 2}, shuffled);
  EXPECT_EQ(h.values(h.gradients(y, seed, x)[0]), numbers);
  // Which of three rows comes first is a fair draw.
  size_t first[3] = {};
  TestGraph g("y = _shuffle(x)");
  for (uint64_t run = 0; run < 600; ++run) {
    NaiveOptions options;
    options.seed = run;
    const NaiveRun naive = cantFail(NaiveRun::run(g, {{"x", Array({3}, {0, 1, 2})}}, options));
    ++first[static_cast<size_t>(naive.value(g.at("y")).values[0])];
  }
  for (size_t count : first) EXPECT_NEAR(static_cast<double>(count), 200, 50);
}

// As with `mean`, and as its decomposition computes it.
TEST(OrderingOps, RUN_02_MomentsOfNoElementsAreNaN) {
  OpHarness h;
  const Value x = h.variable({2, 0}, {});
  const Value moments = h.apply("moments", x, {{"axes", "1"}});
  for (Value y : {moments, h.decomposed(moments), OpHarness::at(moments, 1), h.apply("mean", x, {{"axis", "1"}})}) {
    const std::vector<double> values = h.values(y);
    ASSERT_EQ(values.size(), 2u);
    for (double value : values) EXPECT_TRUE(std::isnan(value)) << value;
  }
}

TEST(OrderingOps, INF_04_ShapesBothWays) {
  EXPECT_EQ(inferShapes("norm", {{"axis", "1"}}, "(?,3,?) -> (2,4)"), "(2,3,4) -> (2,4)");
  EXPECT_EQ(inferShapes("moments", {{"axes", "0"}, {"keepdims", "True"}}, "(2,?) -> ? (1,3)"), "(2,3) -> (1,3) (1,3)");
  EXPECT_EQ(inferShapes("_np_cumsum", {{"axis", "0"}}, "(2,?) -> (?,3)"), "(2,3) -> (2,3)");
  EXPECT_EQ(inferShapes("_np_cumsum", {}, "(2,3) -> ?"), "(2,3) -> (6,)");
  EXPECT_EQ(inferShapes("argmax", {{"axis", "1"}}, "(2,3,4) -> ?"), "(2,3,4) -> (2,4)");
  EXPECT_EQ(inferShapes("argmax", {{"keepdims", "True"}}, "(2,3) -> ?"), "(2,3) -> (1,1)");
  EXPECT_EQ(inferShapes("argmax_channel", {}, "(2,3,4) -> ?"), "(2,3,4) -> (2,4)");
  const std::vector<AttrText> two = {{"k", "2"}, {"ret_typ", "both"}, {"axis", "1"}};
  EXPECT_EQ(inferShapes("topk", two, "(?,5,4) -> (3,?,?) ?"), "(3,5,4) -> (3,2,4) (3,2,4)");
  EXPECT_EQ(inferShapes("topk", {{"ret_typ", "mask"}}, "? -> (3,2)"), "(3,2) -> (3,2)");
  EXPECT_EQ(inferShapes("topk", {{"k", "2"}, {"axis", "None"}}, "(3,2) -> ?"), "(3,2) -> (2,)");
  EXPECT_EQ(inferShapes("sort", {}, "(?,5) -> ? (3,?)"), "(3,5) -> (3,5) (3,5)");
  EXPECT_EQ(inferShapes("sort", {{"axis", "None"}}, "(3,5) -> ? ?"), "(3,5) -> (15,) (15,)");
  EXPECT_EQ(inferShapes("_shuffle", {}, "(?,5) -> ? (3,)"), "(3,5) -> (3,5) (3,)");
  EXPECT_EQ(inferShapes("_take_along_axis", {{"axis", "1"}}, "(?,5) (3,2) -> ?"), "(3,5) (3,2) -> (3,2)");
}

TEST(OrderingOps, INF_04_RefusedShapes) {
  const struct {
    StringRef op;
    std::vector<AttrText> attrs;
    StringRef shapes, message;
  } rows[] = {
      {"norm", {{"axis", "2"}}, "(2,3) -> ?", "axis (2,) names an axis twice or one that shape (2,3) does not have"},
      {"nansum",
       {{"axis", "(0,-2)"}},
       "(2,3) -> ?",
       "axis (0, -2) names an axis twice or one that shape (2,3) does not have"},
      {"moments",
       {{"axes", "-3"}},
       "(2,3) -> ? ?",
       "axis (-3,) names an axis twice or one that shape (2,3) does not have"},
      {"_np_cumsum", {{"axis", "-3"}}, "(2,3) -> ?", "axis -3 is out of range for an input of shape (2,3)"},
      {"_np_cumsum", {}, "(2,3) -> (5,)", "output 0 has shape (5,), expected (6,)"},
      {"argmax", {{"axis", "2"}}, "(2,3) -> ?", "axis (2,) names an axis twice or one that shape (2,3) does not have"},
      {"argmax", {{"axis", "1"}}, "(2,0) -> ?", "data of shape (2,0) has no element to find along axis 1"},
      {"argmin", {}, "(2,0) -> ?", "data of shape (2,0) has no element to find along its axes"},
      {"argmax_channel", {}, "(4,) -> ?", "axis (1,) names an axis twice or one that shape (4,) does not have"},
      {"topk", {{"k", "4"}}, "(2,3) -> ?", "k is 4, the axis has 3 elements"},
      {"topk", {{"k", "7"}, {"axis", "None"}}, "(2,3) -> ?", "k is 7, the axis has 6 elements"},
      {"topk", {}, "(2,0) -> ?", "k is 1, the axis has 0 elements"},
      {"topk", {{"axis", "2"}}, "(2,3) -> ?", "axis 2 is out of range for an input of shape (2,3)"},
      {"topk", {}, "() -> ?", "axis -1 is out of range for an input of shape ()"},
      {"topk",
       {{"dtype", "uint8"}},
       "(300,) -> ?",
       "the axis has 300 elements, but type uint8 represents positions only up to 255"},
      {"argsort",
       {},
       "(16777217,) -> ?",
       "the axis has 16777217 elements, but type float32 represents positions only up to 16777216"},
      {"sort",
       {},
       "(2147483648,) -> ? ?",
       "the axis has 2147483648 elements, but type int32 represents positions only up to 2147483647"},
      {"sort", {{"axis", "-3"}}, "(2,3) -> ? ?", "axis -3 is out of range for an input of shape (2,3)"},
      {"_shuffle", {}, "() -> ? ?", "data has shape (), expected an axis to permute along"},
      {"_sort_order", {{"axis", "2"}}, "(2,3) -> ?", "axis 2 is out of range for an input of shape (2,3)"},
      {"_take_along_axis",
       {{"axis", "0"}},
       "(0,) (2,) -> ?",
       "positions of shape (2,) on axis 0 of shape (0,), which has no elements"},
      {"_take_along_axis", {{"axis", "1"}}, "(2,3) (3,3) -> ?", "input 0 has shape (2,3), expected (3,?)"},
      {"_product_gradient", {{"axis", "2"}}, "(2,3) -> ?", "axis (2,) does not fit the shape (2,3)"},
      {"_backward_topk",
       {{"axis", "1"}},
       "(2,3) (2,3) (2,2) -> ?",
       "input 0 has shape (2,3), but input 2 has shape (2,2)"},
      {"_backward_topk", {{"axis", "1"}}, "(2,3) (2,3) (2,3) -> (4,5)", "output 0 has shape (4,5), expected (2,?)"},
      {"_backward_prod", {{"axis", "1"}}, "(3,) (2,3) ? -> ?", "input 0 has shape (3,), expected (2,)"},
  };
  for (const auto &row : rows) EXPECT_EQ(inferShapes(row.op, row.attrs, row.shapes), row.message) << row.op.str();
}

TEST(OrderingOps, RefusedAttributes) {
  EXPECT_EQ(refusalOf("norm", {{"ord", "3"}}), "attribute 'ord' is \"3\", expected int from 1 to 2 [bad_attribute]");
  EXPECT_EQ(refusalOf("moments", {}), "attribute 'axes' names no axis, expected at least one [bad_attribute]");
  EXPECT_EQ(refusalOf("topk", {{"dtype", "int8"}}),
            "attribute 'dtype' is int8, expected uint8, int32, int64, float16, float32 or float64 [bad_attribute]");
  EXPECT_EQ(refusalOf("topk", {{"ret_typ", "values"}}),
            "attribute 'ret_typ' is \"values\", expected one of 'value', 'indices', 'mask', 'both' [bad_attribute]");
  EXPECT_EQ(refusalOf("argmax", {{"axis", "(0,1)"}}),
            "attribute 'axis' is \"(0,1)\", expected int or None from -64 to 64 [bad_attribute]");
  EXPECT_EQ(refusalOf("_product_gradient", {{"num_args", "13"}}),
            "attribute 'num_args' is \"13\", expected int from 1 to 12 [bad_attribute]");
}

TEST(OrderingOps, INF_06_OutDtypeIsThatOfTheData) {
  TestGraph g("x = var {__dtype__=float32, __shape__=(2,)}; y = norm(x) {out_dtype=float64}");
  EXPECT_EQ(
      describeError(infer(g.context, g, {}, {})),
      "[infer_conflict] operator 'norm', node 'y' (norm): out_dtype is float64 and data is float32, expected the same "
      "type");
}

TEST(Cumsum, HO_01_IsALoop) {
  std::set<uint32_t> numNodes;
  for (const char *shape : {"(10,2)", "(1000,2)"}) {
    TestGraph g(std::string("x = var {__shape__=") + shape + "}; y = cumsum(x) {axis=0}");
    GradientResult gradient = gradientOf(g.context, g, {"x"}, 1);
    const Inference known = cantFail(infer(g.context, gradient.graph, {}, InferOptions()));
    const Graph lowered = cantFail(lowerTo(g.context, gradient.graph, kPrimitivesTarget, &known));
    EXPECT_EQ(countOps(lowered, "_scan"), 2u);
    numNodes.insert(lowered.numNodes());
  }
  EXPECT_EQ(numNodes.size(), 1u);
}

// The loop adds in the type of the sums, and whole numbers wrap.
TEST(Cumsum, A_17_TypesOfTheLoop) {
  for (const char *attrs : {"dtype=uint8", "dtype=int32", "dtype=float64"}) {
    TestGraph g(std::string("x = _full {shape=(2,2), value=100, dtype=int32}; y = cumsum(x) {") + attrs + "}");
    const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr));
    EXPECT_EQ(evaluate(lowered, {})[0].values, evaluate(g, {})[0].values) << attrs;
  }
}

}  // namespace
}  // namespace gradc
