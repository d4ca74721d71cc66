// Aggregation of contributions: n-ary sums, chains, their caps, names and ordering dependencies (§5), and structural
// zeros (§6).
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

// y = 1x + 2x + … + nx, one consumer of x each.
std::string fan(int n) {
  std::string text = "x = var;";
  for (int i = 1; i <= n; ++i)
    text += "t" + std::to_string(i) + " = _mul_scalar(x) {scalar=" + std::to_string(i) + "};";
  std::string total = "t1";
  for (int i = 2; i <= n; ++i) {
    text += "u" + std::to_string(i) + " = elemwise_add(" + total + ", t" + std::to_string(i) + ");";
    total = "u" + std::to_string(i);
  }
  return text + "heads " + total;
}

GradientResult withCap(TestGraph &g, uint32_t cap) {
  GradientOptions options;
  options.sumCap = cap;
  return cantFail(buildGradient(g.context, g, wrt(g, {"x"}), options));
}

size_t numSumNodes(const Graph &graph) {
  return countOps(graph, "add_n") + countOps(graph, "_grad_add") + countOps(graph, "_copy");
}

TEST(GradientSum, AGG_01_OneContributionIsTheGradient) {
  TestGraph g(fan(1));
  GradientResult result = withCap(g, 8);
  EXPECT_EQ(numSumNodes(result.graph), 0u);
  EXPECT_EQ(dumpFrom(result.graph, 2, 1), "_head_grad_0 = ones_like(t1)\n"
                                          "t1_backward = _backward_mul_scalar(_head_grad_0) ^t1\n"
                                          "heads t1_backward\n");
}

TEST(GradientSum, AGG_06_NodesPerNumberOfContributions) {
  const std::pair<int, size_t> expected[] = {{1, 0}, {2, 1}, {7, 1}, {8, 8}, {9, 9}};
  for (auto [n, nodes] : expected) {
    TestGraph g(fan(n));
    EXPECT_EQ(numSumNodes(withCap(g, 8).graph), nodes) << n;
  }
  TestGraph g(fan(5));
  EXPECT_EQ(countOps(withCap(g, 2).graph, "_grad_add"), 4u);
  EXPECT_EQ(numSumNodes(withCap(g, 2).graph), 5u);
  EXPECT_EQ(numSumNodes(withCap(g, 1000).graph), 1u);
}

TEST(GradientSum, AGG_16_V_17_ASK_20_ValuesForEveryCap) {
  for (int n = 1; n <= 20; ++n)
    for (uint32_t cap : {2u, 3u, 8u, 100u}) {
      TestGraph g(fan(n));
      EXPECT_EQ(evaluate(withCap(g, cap).graph, {{"x", Array(Numbers{2, 3})}}).back().values,
                Numbers(2, n * (n + 1) / 2))
          << n << " " << cap;
    }
}

TEST(GradientSum, AGG_02_ZeroContributionsAreDropped) {
  TestGraph g("a = BlockGrad(x); b = exp(x); c = zeros_like(x); d = elemwise_add(a, b); y = elemwise_add(d, c)");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  EXPECT_EQ(numSumNodes(result.graph), 0u);
  EXPECT_EQ(countOps(result.graph, "zeros_like"), 1u);
}

TEST(GradientSum, AGG_03_NarySumWithCount) {
  TestGraph g(fan(3));
  GradientResult result = withCap(g, 8);
  NodeId sum = nodeNamed(result.graph, "x_sum_grad");
  EXPECT_EQ(result.graph.op(sum)->name, "add_n");
  EXPECT_EQ(result.graph.attrs(sum).get("num_args"), StringRef("3"));
  EXPECT_EQ(result.stats.numSums, 1u);
  EXPECT_EQ(result.stats.numChains, 0u);
}

TEST(GradientSum, AGG_04_AGG_05_ChainClosedByACopy) {
  TestGraph g(fan(3));
  GradientResult result = withCap(g, 2);
  EXPECT_EQ(dumpFrom(result.graph, 6, 1), "_head_grad_0 = ones_like(u3)\n"
                                          "t3_backward = _backward_mul_scalar(_head_grad_0) ^t3\n"
                                          "t2_backward = _backward_mul_scalar(_head_grad_0) ^t2 ^t3_backward\n"
                                          "x_sum_grad_1 = _grad_add(t3_backward, t2_backward)\n"
                                          "t1_backward = _backward_mul_scalar(_head_grad_0) ^t1 ^x_sum_grad_1\n"
                                          "x_sum_grad_2 = _grad_add(x_sum_grad_1, t1_backward)\n"
                                          "x_sum_grad_final = _copy(x_sum_grad_2)\n"
                                          "heads x_sum_grad_final\n");
  EXPECT_EQ(result.stats.numChains, 1u);
}

// The list is [h, …, h, f(h), h, h] with h the head gradient: a bare rule would let h wait for a sum that needs f(h),
// which needs h.
TEST(GradientSum, AGG_05_SharedHeadDoesNotCloseCycle) {
  std::string text = "x = var; s1 = elemwise_add(x, x); r = relu(x); s2 = elemwise_add(s1, r);";
  for (int i = 3; i <= 9; ++i) text += "s" + std::to_string(i) + " = elemwise_add(s" + std::to_string(i - 1) + ", x);";
  for (const char *heads : {"heads s9", "heads s9, h"}) {
    TestGraph g(text + heads);
    GradientRequest request = wrt(g, {"x"});
    const bool isVariable = g.graph.heads().size() == 2;
    request.heads = {{g.at("s9"), std::nullopt, ""}};
    if (isVariable) request.heads[0].seed = g.at("h");
    GradientOptions options;
    options.gradientOnly = true;
    Expected<GradientResult> result = buildGradient(g.context, g, request, options);
    ASSERT_TRUE(bool(result)) << describeError(result.takeError());
    EXPECT_EQ(countOps(result->graph, "_grad_add"), 9u);
    Bindings bindings{{"x", Array(0.5)}, {"h", Array(2.0)}};
    EXPECT_EQ(evaluate(result->graph, bindings)[0].values, Numbers{isVariable ? 20.0 : 10.0});
  }
}

TEST(GradientSum, AGG_05_RepeatedProducerDoesNotWaitForItself) {
  TestGraph g("a = elemwise_mul(x, x); b = elemwise_mul(x, x); y = elemwise_add(a, b)");
  GradientOptions options;
  options.sumCap = 2;
  Expected<GradientResult> result = buildGradient(g.context, g, wrt(g, {"x"}), options);
  ASSERT_TRUE(bool(result)) << describeError(result.takeError());
  EXPECT_EQ(evaluate(result->graph, {{"x", Array(3.0)}}).back().values, Numbers{12});
}

TEST(GradientSum, AGG_07_NamesOfOtherStyles) {
  TestGraph g(fan(3));
  GradientOptions options;
  options.naming = NamingStyle::Nnvm;
  GradientResult nnvm = cantFail(buildGradient(g.context, g, wrt(g, {"x"}), options));
  EXPECT_EQ(nnvm.graph.name(nnvm.wrt[0].value.node), "grad_sum");
  options.naming = NamingStyle::Mxnet;
  options.sumCap = 3;
  GradientResult mxnet = cantFail(buildGradient(g.context, g, wrt(g, {"x"}), options));
  EXPECT_EQ(mxnet.graph.name(mxnet.wrt[0].value.node), "sum_grad_final");
}

TEST(GradientSum, AGG_10_OneConsumerReadingTwice) {
  TestGraph g("y = elemwise_mul(x, x)");
  EXPECT_EQ(dumpFrom(withCap(g, 8).graph, 2, 1), "_head_grad_0 = ones_like(y)\n"
                                                 "y_backward = _backward_mul(_head_grad_0, x, x) ^y\n"
                                                 "x_sum_grad = add_n(y_backward, y_backward:1)\n"
                                                 "heads x_sum_grad\n");
}

TEST(GradientZeros, ZERO_01_UnusedOutputGetsZerosOfItsShape) {
  TestGraph g("s = test_split3(x); y = exp(s:1)");
  EXPECT_EQ(dumpFrom(gradientOf(g.context, g, {"x"}, 1).graph, 3, 1),
            "s_zero_head_0 = zeros_like(s)\n"
            "_head_grad_0 = ones_like(y)\n"
            "y_backward = elemwise_mul(_head_grad_0, y)\n"
            "s_zero_head_2 = zeros_like(s:2)\n"
            "s_backward = _backward_test_split3(s_zero_head_0, y_backward, s_zero_head_2) ^s\n"
            "heads s_backward\n");
}

TEST(GradientZeros, ZERO_02_OperatorWithoutGradientUnderBlockGrad) {
  TestGraph g("p = test_part(x); b = BlockGrad(p); y = elemwise_add(b, x)");
  EXPECT_EQ(gradientValues(g.context, g, {"x"}, {{"x", Array(1.5)}}, 1)[0].values, Numbers{1});
}

TEST(GradientZeros, ZERO_04_OperatorWithoutGradientNeedsLiveHeadToFail) {
  TestGraph g("p = test_part(x); y = zeros_like(p)");
  EXPECT_EQ(gradientValues(g.context, g, {"x"}, {{"x", Array(1.5)}}, 1)[0].values, Numbers{0});
  TestGraph live("p = test_part(x); y = exp(p)");
  EXPECT_EQ(describeError(buildGradient(live.context, live, wrt(live, {"x"}), GradientOptions())),
            "[not_differentiable] operator 'test_part' of node 'p' has no gradient registered, and the gradient passes "
            "through it");
}

TEST(GradientZeros, ZERO_05_ReachableVariableWithoutContributionGetsZeros) {
  TestGraph g("b = BlockGrad(x); y = exp(b)");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  EXPECT_EQ(result.wrt[0].status, SlotStatus::Grad);
  EXPECT_EQ(dumpFrom(result.graph, 3, 1), "x_zero_grad = zeros_like(x)\nheads x_zero_grad\n");
}

TEST(GradientZeros, ZERO_05_LabelOfALoss) {
  TestGraph g("y = SoftmaxOutput(x, label)");
  std::vector<Array> values =
      gradientValues(g.context, g, {"label"},
                     {{"x", Array(std::vector<int64_t>{2, 3}, Numbers(6, 1))}, {"label", Array(Numbers{0, 1})}}, 1);
  EXPECT_EQ(values[0].values, (Numbers{0, 0}));
}

}  // namespace
}  // namespace gradc
