// Operators that other families are decomposed to: indices along an axis, types taken from a value, draws.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::vector<double> valuesOf(const TestGraph &g, const Bindings &bindings) { return evaluate(g, bindings)[0].values; }

TEST(IndexOps, IndexAlongAnAxis) {
  const Bindings bindings{{"x", Array({2, 3}, {9, 9, 9, 9, 9, 9})}};
  EXPECT_EQ(valuesOf(TestGraph("y = _index_like(x)"), bindings), (std::vector<double>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(valuesOf(TestGraph("y = _index_like(x) {axis=-1}"), bindings), (std::vector<double>{0, 1, 2, 0, 1, 2}));
}

TEST(IndexOps, IndicesAreWholeNumbersOfAnyInput) {
  TestGraph g("x = var {__shape__=(2,3), __dtype__=2}; y = _index_like(x)");
  Inference types = cantFail(infer(g.context, g, {}, InferOptions()));
  EXPECT_EQ(types.dtype[g.graph.entry(g.at("y"))], DType::Int64);
  EXPECT_EQ(types.dtype[g.graph.entry(g.at("x"))], DType::Float16);
}

TEST(IndexOps, AxisOutsideTheShapeIsRefused) {
  TestGraph g("x = var {__shape__=(2,3)}; y = _index_like(x) {axis=2}");
  EXPECT_EQ(describeError(infer(g.context, g, {}, InferOptions())),
            "[infer_conflict] operator '_index_like', node 'y' (_index_like): axis 2 is outside data of shape (2,3)");
}

TEST(IndexOps, TypeIsThatOfTheSecondOperandAndTheShapeItsOwn) {
  TestGraph g("x = var {__shape__=(2,3), __dtype__=0}; t = var {__shape__=(5), __dtype__=1}; y = _cast_like(x, t)");
  Inference types = cantFail(infer(g.context, g, {}, InferOptions()));
  EXPECT_EQ(types.dtype[g.graph.entry(g.at("y"))], DType::Float64);
  EXPECT_EQ(toString(types.shapeOf(g.graph.entry(g.at("y")))), "(2,3)");
}

// Class 0 of whole numbers is also what NaN is cast to. A row of weight 0 has a target like any other.
TEST(IndexOps, REG_21_NaNIsNoClassInOtherWordsEither) {
  TestGraph g("t = _SoftmaxOutput_target(x, label) {use_ignore=True, ignore_label=0}; "
              "w = _SoftmaxOutput_weight(x, label) {use_ignore=True, ignore_label=0}; heads t, w");
  const Bindings bindings{{"x", Array({3, 2}, {1, 2, 3, 4, 5, 6})}, {"label", Array({3}, {std::nan(""), 0.5, 1})}};
  const Inference known = cantFail(infer(g.context, g, hintsOf(g, bindings), InferOptions()));
  for (const Graph &graph : {g.graph, cantFail(lowerTo(g.context, g, kPrimitivesTarget, &known)),
                             cantFail(lowerTo(g.context, g, kMxnetTarget, &known))}) {
    const std::vector<Array> heads = evaluate(graph, bindings);
    EXPECT_EQ(heads[0].values, (std::vector<double>{0, 0, 1, 0, 0, 1}));
    EXPECT_EQ(heads[1].values, (std::vector<double>{1, 1, 0, 0, 1, 1}));
  }
}

// Under multi_output a label of the data's rank holds probabilities where it has as many classes, else class numbers.
TEST(IndexOps, REG_21_ProbabilitiesAreTheirOwnTarget) {
  TestGraph g("t = _SoftmaxOutput_target(x, label) {multi_output=True}");
  const Bindings bindings{{"x", Array({1, 2, 2}, {1, 2, 3, 4})}, {"label", Array({1, 2, 2}, {0.25, 1, 0.75, 0})}};
  const Inference known = cantFail(infer(g.context, g, hintsOf(g, bindings), InferOptions()));
  const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, &known));
  EXPECT_EQ(evaluate(lowered, bindings)[0].values, (std::vector<double>{0.25, 1, 0.75, 0}));
}

TEST(IndexOps, DrawsFillTheRange) {
  TestGraph g("y = _uniform_like(x) {low=-3, high=5}");
  const std::vector<double> drawn = valuesOf(g, {{"x", Array({4000}, std::vector<double>(4000))}});
  const auto [least, largest] = std::minmax_element(drawn.begin(), drawn.end());
  EXPECT_GE(*least, -3);
  EXPECT_LT(*least, -2.95);
  EXPECT_GT(*largest, 4.95);
  EXPECT_LT(*largest, 5);
  double sum = 0;
  for (double value : drawn) sum += value;
  EXPECT_NEAR(sum / 4000, 1, 0.15);  // four standard deviations of the mean
}

}  // namespace
}  // namespace gradc
