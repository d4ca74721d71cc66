// Operators that index: numbers of every kind as indices, repeated ones, sums of many rows, shapes both ways, refusals.
// Values and gradients at ordinary points are in testdata/conformance/.
#include "passes/lowering/lower_to.h"
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/inference/infer.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = HUGE_VAL;

std::vector<double> valuesOf(const char *text, const Bindings &bindings) {
  return evaluate(TestGraph(text), bindings)[0].values;
}

// What the run ends with.
std::string failureOf(const char *text, const Bindings &bindings) {
  return describeError(NaiveRun::run(TestGraph(text), bindings, NaiveOptions()));
}

const Array kRow({3}, {10, 20, 30});

// In primitives the gradient of a diagonal takes the shape of data, and nothing reads its elements.
TEST(IndexingOps, RC_04_A_17_TheGradientOfADiagonalKeepsNoData) {
  for (StringRef attrs : {"k=0", "k=1", "k=-1", "axis1=1, axis2=0"}) {
    TestGraph g("x = var {__shape__=(3,4)}; y = diag(x) {" + attrs.str() + "}");
    GradientOptions options;
    options.gradientOnly = true;
    options.headPolicy = HeadPolicy::Ones;
    const Graph gradient = cantFail(buildGradient(g.context, g, wrt(g, {"x"}), options)).graph;
    const Inference known = cantFail(infer(g.context, gradient, {}, {}));
    const Graph lowered = cantFail(lowerTo(g.context, gradient, kPrimitivesTarget, &known));
    const NodeId y = nodeNamed(lowered, "y");
    for (uint32_t n = 0; n < lowered.numNodes(); ++n)
      for (size_t i = 0; i < lowered.inputs(NodeId(n)).size(); ++i)
        if (lowered.inputs(NodeId(n))[i].node == nodeNamed(lowered, "x") && NodeId(n) != y) {
          EXPECT_TRUE(lowered.kind(NodeId(n)).isIgnored(i)) << attrs.str() << ": " << lowered.describe(NodeId(n));
        }
  }
}

TEST(IndexingOps, NumbersOutsideTheAxisFollowTheMode) {
  const Bindings bindings{{"a", kRow}, {"i", Array({8}, {-1e300, -1, -0.5, 1.9, 3, 1e300, kNaN, kInfinity})}};
  EXPECT_EQ(valuesOf("y = take(a, i)", bindings), (std::vector<double>{10, 10, 10, 20, 30, 30, 10, 30}));
  // −2^63 and 2^63 − 1 modulo 3 are 1.
  EXPECT_EQ(valuesOf("y = take(a, i) {mode=wrap}", bindings), (std::vector<double>{20, 30, 10, 20, 10, 20, 10, 20}));
  const Bindings rows{{"x", Array({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, {"i", Array({4}, {-1, 5, kNaN, 1.5})}};
  EXPECT_EQ(valuesOf("y = pick(x, i)", rows), (std::vector<double>{1, 4, 5, 8}));
  EXPECT_EQ(valuesOf("y = pick(x, i) {mode=wrap}", rows), (std::vector<double>{2, 4, 5, 8}));
  EXPECT_EQ(valuesOf("y = batch_take(x, i)", rows), (std::vector<double>{1, 4, 5, 8}));
  EXPECT_EQ(valuesOf("y = one_hot(i) {depth=2}", {{"i", Array({4}, {-1, 2, kNaN, 1.5})}}),
            (std::vector<double>{0, 0, 0, 0, 1, 0, 0, 1}));
}

TEST(IndexingOps, LargeUnsignedNumbersAreBeyondTheEnd) {
  TestGraph g("y = take(a, i)");
  NaiveOptions options;
  options.types = {{"i", DType::UInt64}};
  const Bindings bindings{{"a", kRow}, {"i", Array({2}, {0x1p63, 1})}};
  const NaiveRun run = cantFail(NaiveRun::run(g, bindings, options));
  EXPECT_EQ(run.value(g.at("y")).values, (std::vector<double>{30, 20}));
}

TEST(IndexingOps, NumbersThatAreRefusedEndTheRun) {
  const Bindings taken{{"a", kRow}, {"i", Array({2}, {0, 3})}}, negative{{"a", kRow}, {"i", Array({1}, {-1})}};
  EXPECT_EQ(failureOf("y = take(a, i) {mode=raise}", taken), "[binding] index 3 is out of range for axis 0 of size 3");
  EXPECT_EQ(failureOf("y = take(a, i) {mode=raise}", negative),
            "[binding] index -1 is out of range for axis 0 of size 3");
  const Bindings tuples{{"x", Array({2, 3}, {1, 2, 3, 4, 5, 6})}, {"i", Array({2, 2}, {0, 1, -3, -4})}};
  EXPECT_EQ(failureOf("y = gather_nd(x, i)", tuples), "[binding] index -4 is out of range for axis 1 of size 3");
  const Bindings put{{"v", Array({1}, {5})}, {"i", Array({1, 1}, {2})}};
  EXPECT_EQ(failureOf("y = scatter_nd(v, i) {shape=(2,)}", put),
            "[binding] index 2 is out of range for axis 0 of size 2");
  const Bindings copied{{"x", kRow}, {"i", Array({1}, {-1})}, {"v", Array({1}, {5})}};
  EXPECT_EQ(failureOf("y = _contrib_index_copy(x, i, v)", copied),
            "[binding] index -1 is out of range for axis 0 of size 3");
}

TEST(IndexingOps, OfRepeatedIndicesTheLastIsKept) {
  const Bindings bindings{{"x", kRow}, {"i", Array({1, 3}, {1, 2, 1})}, {"v", Array({3}, {1, 2, 3})}};
  EXPECT_EQ(valuesOf("y = scatter_nd(v, i) {shape=(3,)}", bindings), (std::vector<double>{0, 3, 2}));
  EXPECT_EQ(valuesOf("y = _scatter_set_nd(x, v, i) {shape=(3,)}", bindings), (std::vector<double>{10, 3, 2}));
  EXPECT_EQ(valuesOf("y = _scatter_nd(x, v, i)", bindings), (std::vector<double>{10, 3, 2}));
  EXPECT_EQ(valuesOf("y = _scatter_nd(x, v, i) {reduction=add}", bindings), (std::vector<double>{10, 24, 32}));
}

// Also of those that are overwritten, as in MXNet: gradients take the indices as distinct.
TEST(IndexingOps, EveryPutRowHasTheGradientOfItsPlace) {
  const AttrText shape{"shape", "(3,)"};
  for (auto [op, hasBase, attrs] : {std::tuple("_scatter_nd", true, SmallVector<AttrText, 1>()),
                                    std::tuple("_scatter_set_nd", true, SmallVector<AttrText, 1>{shape}),
                                    std::tuple("scatter_nd", false, SmallVector<AttrText, 1>{shape})}) {
    SCOPED_TRACE(op);
    OpHarness h;
    const Value x = h.variable({3}, {10, 20, 30}), i = h.variable({1, 3}, {1, 2, 1}), v = h.variable({3}, {1, 2, 3});
    const Value y = hasBase ? h.apply(op, {x, v, i}, attrs) : h.apply(op, {v, i}, attrs);
    const Value seed = h.variable({3}, {5, 7, 11});
    EXPECT_EQ(h.values(h.gradients(y, seed, {v})[0]), (std::vector<double>{7, 11, 7}));
    if (hasBase) {
      EXPECT_EQ(h.values(h.gradients(y, seed, {x})[0]), (std::vector<double>{5, 0, 0}));
    }
  }
}

// MXNet gives row 0 of v the gradient of row 1 of the result, which comes from row 1 of v.
TEST(IndexingOps, RowsThatAreOverwrittenAgainHaveNoGradient) {
  OpHarness h;
  const Value x = h.variable({2, 1}, {1, 2}), i = h.variable({2}, {1, 1}), v = h.variable({2, 1}, {3, 4});
  const Value y = h.apply("_contrib_index_copy", {x, i, v}, {});
  const Value seed = h.variable({2, 1}, {5, 7});
  const std::vector<Value> gradients = h.gradients(y, seed, {x, v});
  EXPECT_EQ(h.values(gradients[0]), (std::vector<double>{5, 0}));
  EXPECT_EQ(h.values(gradients[1]), (std::vector<double>{0, 7}));
}

// 2^24 + 1 + 1 in float32, where sums in float32 would stay at 2^24; rows longer than what is summed at once.
TEST(IndexingOps, RowsAreSummedInDoublePrecisionAndInOrder) {
  const int64_t columns = 300;
  std::vector<double> rows(static_cast<size_t>(3 * columns), 1);
  std::fill_n(rows.begin(), columns, 0x1p24);
  NaiveOptions options;
  options.floatAs = DType::Float32;
  for (const char *text : {"y = take(a, i); d = _backward_take(v, i) ^y; heads d",
                           "y = Embedding(i, a) {input_dim=2, output_dim=300}; e = _backward_Embedding(v, i) "
                           "{input_dim=2, output_dim=300} ^y; d = _copy(e:1); heads d"}) {
    TestGraph g(text);
    const Bindings bindings{{"a", Array({2, columns}, std::vector<double>(static_cast<size_t>(2 * columns)))},
                            {"i", Array({3}, {1, 1, 1})},
                            {"v", Array({3, columns}, rows)}};
    const NaiveRun run = cantFail(NaiveRun::run(g, bindings, options));
    const std::vector<double> sums = run.value(g.at("d")).values;
    for (int64_t k = 0; k < columns; ++k) {
      EXPECT_EQ(sums[static_cast<size_t>(k)], 0);
      EXPECT_EQ(sums[static_cast<size_t>(columns + k)], 0x1p24 + 2);
    }
  }
}

TEST(IndexingOps, INF_04_BothWays) {
  EXPECT_EQ(inferShapes("take", {{"axis", "1"}}, "(2,?,4) (5,?) -> (?,5,6,?)"), "(2,?,4) (5,6) -> (2,5,6,4)");
  EXPECT_EQ(inferShapes("take", {}, "? (5,) -> (5,2,3)"), "(?,2,3) (5,) -> (5,2,3)");
  EXPECT_EQ(inferShapes("take", {{"axis", "-1"}}, "(2,3) ? -> (2,7,8)"), "(2,3) (7,8) -> (2,7,8)");
  EXPECT_EQ(inferShapes("pick", {{"axis", "1"}}, "(?,3,?) (2,4) -> ?"), "(2,3,4) (2,4) -> (2,4)");
  EXPECT_EQ(inferShapes("pick", {{"axis", "0"}, {"keepdims", "True"}}, "(3,?) (2,) -> ?"), "(3,2) (2,) -> (1,2)");
  EXPECT_EQ(inferShapes("pick", {}, "(4,) ? -> ?"), "(4,) ? -> (1,)");
  EXPECT_EQ(inferShapes("batch_take", {}, "? ? -> (4,)"), "(4,?) (4,) -> (4,)");
  EXPECT_EQ(inferShapes("gather_nd", {}, "(2,3,4) (2,5) -> ?"), "(2,3,4) (2,5) -> (5,4)");
  EXPECT_EQ(inferShapes("gather_nd", {}, "(2,?,?) (?,?) -> (5,4)"), "(2,?,4) (2,5) -> (5,4)");
  EXPECT_EQ(inferShapes("scatter_nd", {{"shape", "(2,3,4)"}}, "? (2,5) -> ?"), "(5,4) (2,5) -> (2,3,4)");
  EXPECT_EQ(inferShapes("_scatter_set_nd", {{"shape", "(2,3)"}}, "? ? (1,4) -> ?"), "(2,3) (4,3) (1,4) -> (2,3)");
  EXPECT_EQ(inferShapes("one_hot", {{"depth", "3"}}, "? -> (4,?)"), "(4,) -> (4,3)");
  EXPECT_EQ(inferShapes("_contrib_index_copy", {}, "(3,2) ? (2,?) -> ?"), "(3,2) (2,) (2,2) -> (3,2)");
  EXPECT_EQ(inferShapes("_contrib_index_copy", {}, "? (4,) ? -> (3,2)"), "(3,2) (4,) (4,2) -> (3,2)");
  EXPECT_EQ(inferShapes("_slice_assign", {{"begin", "(0,1)"}, {"end", "(2,3)"}}, "? ? -> (2,3)"),
            "(2,3) (2,2) -> (2,3)");
  EXPECT_EQ(inferShapes("diag", {{"k", "-1"}}, "(5,3) -> ?"), "(5,3) -> (3,)");
  EXPECT_EQ(inferShapes("diag", {{"k", "2"}}, "(?,) -> (5,?)"), "(3,) -> (5,5)");
  EXPECT_EQ(inferShapes("diag", {{"axis1", "2"}, {"axis2", "0"}}, "(3,?,2) -> (7,?)"), "(3,7,2) -> (7,2)");
  EXPECT_EQ(inferShapes("shape_array", {}, "(2,?) -> ?"), "(2,?) -> (2,)");
  EXPECT_EQ(inferShapes("_ravel_multi_index", {{"shape", "(3,4)"}}, "(?,5) -> (?,)"), "(2,5) -> (5,)");
  EXPECT_EQ(inferShapes("_unravel_index", {{"shape", "(3,4)"}}, "(?,) -> (?,5)"), "(5,) -> (2,5)");
  EXPECT_EQ(inferShapes("size_array", {}, "? -> ?"), "? -> (1,)");
}

TEST(IndexingOps, E_50_ShapesThatDoNotFit) {
  struct Row {
    const char *op;
    std::vector<AttrText> attrs;
    const char *shapes, *message;
  };
  const Row rows[] = {
      {"take", {{"axis", "2"}}, "(2,3) (4,) -> ?", "axis 2 is out of range for data of shape (2,3)"},
      {"take", {}, "() (4,) -> ?", "axis 0 is out of range for data of shape ()"},
      {"take", {}, "(0,3) (4,) -> ?", "axis 0 of shape (0,3) has no elements, but indices of shape (4,) pick from it"},
      {"pick", {{"axis", "-3"}}, "(2,3) (2,) -> ?", "axis -3 is out of range for data of shape (2,3)"},
      {"pick", {}, "(2,3,4) (2,) -> ?", "an index of shape (2,) cannot pick from data of shape (2,3,4) along axis -1"},
      {"pick", {}, "(2,0) (2,) -> ?", "axis 1 of shape (2,0) has no elements, but indices of shape (2,) pick from it"},
      {"gather_nd", {}, "(2,3) () -> ?", "indices have no axes, expected (M, …) with one number per axis of the data"},
      {"gather_nd",
       {},
       "(2,3) (3,4) -> ?",
       "indices of shape (3,4) name 3 axes of data of shape (2,3), expected 1 to 2"},
      {"gather_nd",
       {},
       "(2,3) (0,4) -> ?",
       "indices of shape (0,4) name 0 axes of data of shape (2,3), expected 1 to 2"},
      {"gather_nd",
       {},
       "(2,0) (2,4) -> ?",
       "axis 1 of shape (2,0) has no elements, but indices of shape (2,4) pick from it"},
      {"one_hot", {{"depth", "3"}}, "? -> ()", "the result has no axes, expected one of classes at least"},
      {"_contrib_index_copy", {}, "() (1,) ? -> ?", "tensors of no axes have no rows to copy"},
      {"_contrib_index_copy",
       {},
       "(0,2) (1,) ? -> ?",
       "axis 0 of shape (0,2) has no elements, but indices of shape (1,) pick from it"},
      {"_slice_assign_scalar",
       {{"begin", "(0,0)"}, {"end", "(1,1)"}},
       "(3,) -> ?",
       "begin has 2 elements, but the input has shape (3,)"},
      {"diag", {}, "() -> ?", "data has no axes, expected at least one"},
      {"diag", {{"k", "-3"}}, "(2,3) -> ?", "there is no diagonal -3 in matrices of 2 by 3"},
      {"diag", {{"axis1", "-1"}}, "(2,3) -> ?", "axes -1 and 1 are not two axes of data of shape (2,3)"},
      {"diag", {{"axis2", "2"}}, "(2,3) -> ?", "axes 0 and 2 are not two axes of data of shape (2,3)"},
  };
  for (const Row &row : rows) EXPECT_EQ(inferShapes(row.op, row.attrs, row.shapes), row.message) << row.op;
}

TEST(IndexingOps, REG_19_AttributesThatAreRefused) {
  EXPECT_EQ(refusalOf("pick", {{"axis", "None"}}),
            "attribute 'axis' is None, expected an axis to pick from [bad_attribute]");
  EXPECT_EQ(refusalOf("one_hot", {{"depth", "2"}, {"dtype", "bool"}}),
            "attribute 'dtype' is bool, expected a type of numbers [bad_attribute]");
  EXPECT_EQ(refusalOf("one_hot", {{"depth", "2"}, {"dtype", "None"}}),
            "attribute 'dtype' is \"None\", expected an element type [bad_attribute]");
  EXPECT_EQ(refusalOf("one_hot", {{"depth", "2"}, {"dtype", " -1"}}),
            "attribute 'dtype' is \" -1\", expected an element type [bad_attribute]");
  EXPECT_EQ(refusalOf("_slice_assign", {{"begin", "(0,)"}, {"end", "(1,2)"}}),
            "attribute 'end' has 2 elements, expected as many as 'begin': 1 [bad_attribute]");
  EXPECT_EQ(refusalOf("_slice_assign_scalar", {{"begin", "(0,)"}, {"end", "(1,)"}, {"step", "(0,)"}}),
            "attribute 'step' has an element 0, expected any other number [bad_attribute]");
  EXPECT_NE(refusalOf("pick", {{"mode", "raise"}}), "") << "take alone checks";
  EXPECT_NE(refusalOf("one_hot", {{"depth", "-1"}}), "");
  EXPECT_NE(refusalOf("scatter_nd", {{"shape", "(2,-1)"}}), "");
  EXPECT_NE(refusalOf("scatter_nd", {}), "");
}

}  // namespace
}  // namespace gradc
