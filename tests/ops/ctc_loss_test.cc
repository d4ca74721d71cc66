// CTCLoss: shapes both ways, refusals, sequences that no path spells, labels and lengths out of range.
//
// What MXNet 1.9.1 computes is in testdata/conformance/CTCLoss.json. MXNet does not write the gradient of a sequence
// with too few steps, and reads in front of its buffers where a row has no labels.
#include "tests/support/ops/derivative.h"
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

TEST(CtcLoss, INF_04_ShapesBothWays) {
  EXPECT_EQ(inferShapes("CTCLoss", {}, "(5,?,4) (3,2) -> ? ?"), "(5,3,4) (3,2) -> (3,) (5,3,4)");
  EXPECT_EQ(inferShapes("CTCLoss", {}, "? (?,2) -> (3,) (5,?,4)"), "(5,3,4) (3,2) -> (3,) (5,3,4)");
  EXPECT_EQ(inferShapes("CTCLoss", {{"use_data_lengths", "True"}}, "(5,?,4) ? (3,) -> ? ?"),
            "(5,3,4) (3,?) (3,) -> (3,) (5,3,4)");
}

TEST(CtcLoss, E_50_RefusedShapes) {
  EXPECT_EQ(inferShapes("CTCLoss", {}, "(5,3) ? -> ? ?"), "input 0 has shape (5,3), expected (?,?,?)");
  EXPECT_EQ(inferShapes("CTCLoss", {}, "(5,3,4) (2,2) -> ? ?"), "input 1 has shape (2,2), expected (3,?)");
  EXPECT_EQ(inferShapes("CTCLoss", {}, "(5,3,0) ? -> ? ?"),
            "data of shape (5,3,0) has no classes, expected at least the blank");
  EXPECT_EQ(inferShapes("CTCLoss", {}, "(1,3,4) (3,2) -> ? ?"),
            "labels of shape (3,2) are more than the steps of data of shape (1,3,4)");
  EXPECT_NE(refusalOf("CTCLoss", {{"blank_label", "middle"}}), "");
}

struct Result {
  Numbers losses, gradient;
};
Result run(const std::string &attrs, const Bindings &bindings) {
  std::string operands = "x, label";
  for (const char *name : {"steps", "count"})
    if (bindings.count(name)) operands += std::string(", ") + name;
  TestGraph g("y = CTCLoss(" + operands + ") {" + attrs + "}; heads y, y:1");
  const std::vector<Array> values = evaluate(g, bindings);
  return {values[0].values, values[1].values};
}

// Two classes of the probabilities 1/4 and 3/4 at each step.
Array steps(int64_t count) {
  Numbers logits;
  for (int64_t t = 0; t < count; ++t) logits.insert(logits.end(), {0, std::log(3)});
  return Array({count, 1, 2}, logits);
}

TEST(CtcLoss, RUN_02_SumsOverPaths) {
  // The label 1 at one step; at two: 11, 01 and 10.
  expectClose(run("", {{"x", steps(1)}, {"label", Array({1, 1}, {1})}}).losses, {-std::log(0.75)}, 1e-14);
  expectClose(run("", {{"x", steps(2)}, {"label", Array({1, 1}, {1})}}).losses, {-std::log(9.0 / 16 + 6.0 / 16)},
              1e-14);
  // Twice the label 1 takes a blank between: 101 alone.
  expectClose(run("", {{"x", steps(3)}, {"label", Array({1, 2}, {1, 1})}}).losses, {-std::log(9.0 / 64)}, 1e-14);
  // No label: blanks alone.
  const Result empty = run("", {{"x", steps(2)}, {"label", Array({1, 1}, {0})}});
  expectClose(empty.losses, {-std::log(1.0 / 16)}, 1e-14);
  expectClose(empty.gradient, {-0.75, 0.75, -0.75, 0.75}, 1e-14);
}

TEST(CtcLoss, RUN_02_TooFewSteps) {
  const Result found = run("", {{"x", steps(2)}, {"label", Array({1, 2}, {1, 1})}});
  EXPECT_EQ(found.losses, Numbers{0});
  EXPECT_EQ(found.gradient, Numbers(4, 0));
}

TEST(CtcLoss, RUN_02_LabelsAndLengthsOutOfRange) {
  for (double label : {7.0, -3.0, 1e300}) {
    const Result found = run("", {{"x", steps(2)}, {"label", Array({1, 1}, {label})}});
    EXPECT_EQ(found.losses, Numbers{HUGE_VAL});
    EXPECT_EQ(found.gradient, Numbers(4, 0));
  }
  const Bindings long_ = {
      {"x", steps(2)}, {"label", Array({1, 1}, {1})}, {"steps", Array({1}, {1e300})}, {"count", Array({1}, {9})}};
  EXPECT_EQ(run("use_data_lengths=True, use_label_lengths=True", long_).losses,
            run("", {{"x", steps(2)}, {"label", Array({1, 1}, {1})}}).losses);
  const Bindings none = {
      {"x", steps(2)}, {"label", Array({1, 1}, {1})}, {"steps", Array({1}, {-2})}, {"count", Array({1}, {NAN})}};
  EXPECT_EQ(run("use_data_lengths=True, use_label_lengths=True", none).losses, Numbers{0});
}

// Probabilities far below the smallest number.
TEST(CtcLoss, RUN_02_LongSequences) {
  const int64_t time = 3000;
  const Result found = run("", {{"x", Array({time, 1, 2}, Numbers(2 * time, 0))}, {"label", Array({1, 1}, {1})}});
  // All blocks of ones: time·(time + 1)/2 paths of probability 2^-time.
  EXPECT_NEAR(found.losses[0], time * std::log(2) - std::log(time * (time + 1) / 2), 1e-9);
}

// Labels end at the first padding, in the loops as in the kernel.
TEST(CtcLoss, A_17_LabelsEndAtThePadding) {
  for (auto [attrs, padding] : {std::pair("", 0.0), std::pair("blank_label=last", -1.0)}) {
    TestGraph g(std::string("y = CTCLoss(x, label) {") + attrs + "}; heads y, y:1");
    const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr));
    const Bindings bindings = {{"x", Array({3, 1, 3}, {1, 2, 0.5, -1, 0, 0.25, 0.5, 2, -2})},
                               {"label", Array({1, 3}, {1, padding, 1})}};
    const std::vector<Array> expected = evaluate(g, bindings), found = evaluate(lowered, bindings);
    expectClose(found[0].values, expected[0].values, 1e-14);
    expectClose(found[1].values, expected[1].values, 1e-14);
  }
}

// Where blanks are likely the paths that spell many labels have shares of less than 10^-45, which float32 does not
// hold.
TEST(CtcLoss, A_17_UnlikelyLabelsInSinglePrecision) {
  constexpr int64_t kTime = 50, kLabels = 20, kClasses = 10;
  Numbers logits, labels;
  for (uint64_t i = 0; i < kTime * kClasses; ++i)
    logits.push_back(i % kClasses == 0 ? 8 : static_cast<float>(drawNumber(3, i)));
  for (int64_t i = 0; i < kLabels; ++i) labels.push_back(static_cast<double>(1 + i * 4 % 9));
  const Bindings bindings = {{"x", Array({kTime, 1, kClasses}, logits)}, {"label", Array({1, kLabels}, labels)}};
  TestGraph g("y = CTCLoss(x, label); heads y, y:1");
  NaiveOptions options;
  options.floatAs = DType::Float32;
  options.keepsTypes = true;
  options.types = {{"x", DType::Float32}};  // or the loops' float64 would determine it
  const Graph lowered = cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr));
  const std::vector<Array> expected = evaluate(g, bindings);
  const std::vector<Array> found = cantFail(NaiveRun::run(lowered, bindings, options)).heads();
  EXPECT_NEAR(found[0].values[0], expected[0].values[0], 1e-6 * expected[0].values[0]);
  expectClose(found[1].values, expected[1].values, 1e-6);
}

// Blanks are so likely that the paths that spell the labels have a probability below the smallest number.
TEST(CtcLoss, A_17_HO_01_LossesBeyondTheSmallestNumber) {
  constexpr int64_t kTime = 30, kLabels = 12, kClasses = 5;
  Numbers logits, labels;
  for (uint64_t i = 0; i < kTime * kClasses; ++i) logits.push_back(i % kClasses == 0 ? 100 : drawNumber(3, i));
  for (int64_t i = 0; i < kLabels; ++i) labels.push_back(static_cast<double>(1 + i % 4));
  const Bindings bindings = {{"x", Array({kTime, 1, kClasses}, logits)}, {"label", Array({1, kLabels}, labels)}};
  TestGraph g("y = CTCLoss(x, label); heads y, y:1");
  const std::vector<Array> expected = evaluate(g, bindings);
  EXPECT_GT(expected[0].values[0], 1000);
  const std::vector<Array> found = evaluate(cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr)), bindings);
  EXPECT_NEAR(found[0].values[0], expected[0].values[0], 1e-12 * expected[0].values[0]);
  expectClose(found[1].values, expected[1].values, 1e-11);
  // Of order 2, by differences of the kernel's gradient.
  Numbers weights;
  for (size_t k = 0; k < logits.size(); ++k) weights.push_back(static_cast<double>(k % 7));
  Bindings weighted = bindings;
  weighted["c"] = Array({kTime, 1, kClasses}, weights);
  TestGraph sum("g = _ctc_loss_grad(x, label); y = elemwise_mul(g, c)");
  const Numbers second = gradientValues(sum.context, sum, {"x"}, weighted, 1)[0].values;
  Bindings moved = bindings;
  auto projected = [&]() -> Expected<double> {
    const Numbers gradient = evaluate(g, moved)[1].values;
    return std::inner_product(gradient.begin(), gradient.end(), weights.begin(), 0.0);
  };
  for (size_t i : {0, 1, 42, 77}) {
    Numbers direction(logits.size());
    direction[i] = 1;
    EXPECT_NEAR(second[i], cantFail(differenceAlong(moved["x"].values, direction, 1e-5, projected)), 1e-6) << i;
  }
}

// As the kernel says: such a label has the loss infinity, and no gradient at any order.
TEST(CtcLoss, HO_01_LabelsOutOfRangeInLoops) {
  for (auto [one, other] : {std::pair(7.0, 1.0), {1.0, -3.0}, {1e300, 7.0}}) {
    TestGraph g("y = CTCLoss(x, label); heads y, y:1");
    const Bindings bindings = {{"x", Array({4, 1, 3}, {1, 2, 0.5, -1, 0, 0.25, 0.5, 2, -2, 0.75, 0, 1})},
                               {"label", Array({1, 2}, {one, other})}};
    const std::vector<Array> loops = evaluate(cantFail(lowerTo(g.context, g, kPrimitivesTarget, nullptr)), bindings);
    EXPECT_EQ(loops[0].values, Numbers{HUGE_VAL});
    EXPECT_EQ(loops[1].values, Numbers(12, 0));
    EXPECT_EQ(evaluate(g, bindings)[1].values, loops[1].values);
    TestGraph loss("y = CTCLoss(x, label)");
    GradientOptions options;
    options.gradientOnly = true;
    const Graph twice = cantFail(buildGradientOfOrder(loss.context, loss, wrt(loss, {"x"}), options, 2)).graph;
    for (const Array &gradient : evaluate(twice, bindings)) EXPECT_EQ(gradient.values, Numbers(12, 0));
  }
}

// Loops in place of steps: as many nodes for any length.
TEST(CtcLoss, HO_01_NodesDoNotGrowWithSteps) {
  std::set<uint32_t> numNodes;
  for (const char *shape : {"(10,1,2)", "(1000,1,2)", "(2147483648,1,2)"}) {
    TestGraph g(std::string("x = var {__shape__=") + shape + "}; l = var {__shape__=(1,1)}; y = CTCLoss(x, l)");
    const Inference known = cantFail(infer(g.context, g, {}, InferOptions()));
    GradientOptions options;
    options.inference = &known;
    numNodes.insert(cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, 3)).graph.numNodes());
  }
  EXPECT_EQ(numNodes.size(), 1u);
}

TEST(CtcLoss, HO_01_NoSizeHasToBeKnown) {
  for (const char *attrs : {"", "blank_label=last"}) {
    TestGraph g(std::string("y = CTCLoss(x, l) {") + attrs + "}");
    EXPECT_EQ(describeError(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), GradientOptions(), 3)), "success");
    EXPECT_EQ(describeError(lowerTo(g.context, g, kPrimitivesTarget, nullptr)), "success");
  }
}

}  // namespace
}  // namespace gradc
