// Losses and metrics read off the heads of a network: the operators' own losses, from outputs instead of inputs.
#include "runtime/training/objective.h"

#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

Score scoreOf(const Graph &graph, std::vector<Array> heads, std::vector<Array> labels, int64_t batch) {
  std::vector<TensorRef> headRefs, labelRefs;
  for (Array &array : heads) headRefs.push_back(array.ref());
  for (Array &array : labels) labelRefs.push_back(array.ref());
  return Objective(graph).score(headRefs, labelRefs, batch);
}

TEST(Objective, CrossEntropyOfSoftmaxOutput) {
  TestGraph g("y = SoftmaxOutput(x, label)");
  Score score = scoreOf(g, {doubles({2, 3}, {0.5, 0.25, 0.25, 0.1, 0.2, 0.7})}, {doubles({2}, {0, 1})}, 2);
  EXPECT_NEAR(score.lossSum, -std::log(0.5) - std::log(0.2), 1e-12);
  EXPECT_EQ(score.rows, 2);
  EXPECT_NEAR(score.loss(), (-std::log(0.5) - std::log(0.2)) / 2, 1e-12) << "a sum over the batch counts per example";
  EXPECT_EQ(score.metric(), 0.5);
  EXPECT_EQ(metricName(Objective(g).metric()), "accuracy");
}

TEST(Objective, MeansStayMeans) {
  TestGraph g("y = SoftmaxOutput(x, label) {normalization=batch}");
  Score score = scoreOf(g, {doubles({2, 2}, {0.5, 0.5, 0.25, 0.75})}, {doubles({2}, {0, 1})}, 2);
  EXPECT_NEAR(score.loss(), (-std::log(0.5) - std::log(0.75)) / 2, 1e-12);
}

TEST(Objective, IgnoredRowsCountNeitherWay) {
  TestGraph g("y = SoftmaxOutput(x, label) {normalization=valid, use_ignore=True, ignore_label=-1}");
  Score score = scoreOf(g, {doubles({3, 2}, {0.5, 0.5, 0.25, 0.75, 0.9, 0.1})}, {doubles({3}, {0, 1, -1})}, 3);
  EXPECT_NEAR(score.loss(), (-std::log(0.5) - std::log(0.75)) / 2, 1e-12);
  EXPECT_EQ(score.metricCount, 2);
}

TEST(Objective, AProbabilityOfZeroIsALargeLoss) {
  TestGraph g("y = SoftmaxOutput(x, label)");
  Score score = scoreOf(g, {doubles({1, 2}, {0, 1})}, {doubles({1}, {0})}, 1);
  EXPECT_TRUE(std::isfinite(score.loss()));
  EXPECT_GT(score.loss(), 80);
}

TEST(Objective, RegressionOutputs) {
  const std::vector<Array> heads = {doubles({2, 1}, {0.25, 2})}, labels = {doubles({2, 1}, {1, 0})};
  TestGraph linear("y = LinearRegressionOutput(x, label)");
  Score score = scoreOf(linear, heads, labels, 2);
  EXPECT_NEAR(score.loss(), (0.5625 + 4) / 2 / 2, 1e-12);
  EXPECT_NEAR(score.metric(), (0.5625 + 4) / 2, 1e-12);
  TestGraph mae("y = MAERegressionOutput(x, label)");
  EXPECT_NEAR(scoreOf(mae, heads, labels, 2).loss(), 2.75 / 2, 1e-12);
  TestGraph logistic("y = LogisticRegressionOutput(x, label)");
  Score binary = scoreOf(logistic, {doubles({2, 1}, {0.25, 0.75})}, {doubles({2, 1}, {1, 1})}, 2);
  EXPECT_NEAR(binary.loss(), (-std::log(0.25) - std::log(0.75)) / 2, 1e-12);
  EXPECT_EQ(binary.metric(), 0.5);
}

TEST(Objective, OtherHeadsCountWithTheirSum) {
  TestGraph rows("y = square(x)");
  EXPECT_EQ(scoreOf(rows, {doubles({2, 1}, {1, 3})}, {}, 2).loss(), 2) << "a sum over the batch";
  TestGraph single("y = mean(x)");
  EXPECT_EQ(scoreOf(single, {doubles({1}, {3})}, {}, 2).loss(), 3) << "one number is a mean already";
  TestGraph made("y = MakeLoss(x) {grad_scale=0.5}");
  EXPECT_EQ(scoreOf(made, {doubles({2}, {1, 3})}, {}, 2).loss(), 1);
  TestGraph held("y = MakeLoss(x); z = BlockGrad(x); heads y, z");
  EXPECT_EQ(scoreOf(held, {doubles({2}, {1, 3}), doubles({2}, {100, 100})}, {}, 2).loss(), 2)
      << "nothing flows into a blocked head";
}

TEST(Objective, LabelsThatAreNoVariablesAreAskedFor) {
  TestGraph g(
      "l = Reshape(label) {shape=(-1,)}; y = SoftmaxOutput(x, l); z = LinearRegressionOutput(w, l); heads y, z");
  ASSERT_EQ(Objective(g).labels().size(), 1u) << "one label, of two losses";
  EXPECT_EQ(Objective(g).labels()[0], g.at("l"));
}

TEST(Objective, E_71_ClassNumbersTheNetworkHasNot) {
  TestGraph g("x = var {__shape__=(2,3)}; y = SoftmaxOutput(x, label)");
  Inference inference = cantFail(infer(g.context, g, {}, {}));
  auto check = [&](std::vector<float> labels) {
    const int64_t rows = static_cast<int64_t>(labels.size());
    Dataset data = cantFail(Dataset::create({{"label", floats({rows}, std::move(labels))}}));
    return errorOf(Objective(g).checkLabels(g, inference, data));
  };
  EXPECT_EQ(check({0, 1, 2}).message, "success");
  EXPECT_EQ(check({0, 3}).message, "'label' is 3 in row 1, expected a class number from 0 to 2");
  EXPECT_EQ(check({0, 3}).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(check({-1}).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(check({0.5}).kind, ErrorKind::BindingMismatch);
}

}  // namespace
}  // namespace gradc
