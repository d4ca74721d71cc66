// Sums, zeros and copies in detail (§3, §5, §6): the order of terms, pruned and kept terms, sums in shared buffers, and
// forward heads listed twice.
#include "tests/support/ops/naive.h"
#include "tests/support/runs/requests.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

/// y = k1·x + k2·x + …, one consumer of x each, the first one first.
std::string fanOf(ArrayRef<double> factors) {
  std::string text = "x = var;", total;
  for (size_t i = 0; i < factors.size(); ++i) {
    std::string term = "t" + std::to_string(i), sum = "u" + std::to_string(i);
    text += term + " = _mul_scalar(x) {scalar=" + std::to_string(factors[i]) + "};";
    if (i) text += sum + " = elemwise_add(" + total + ", " + term + ");";
    total = i ? sum : term;
  }
  return text + "heads " + total;
}

std::string emitted(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  return dumpFrom(built(g, request, options).graph, g.graph.numNodes(), g.graph.heads().size());
}

TEST(GradientTerms, CON_03_SumsRunFromTheLeftInTheOrderOfTheList) {
  // Terms arrive from the last consumer to the first; 2^53 + 1 rounds down, so every other order gives another value.
  const double big = 9007199254740992.0;
  const std::pair<Numbers, double> rows[] = {
      {{1, 1, big}, big}, {{big, 1, 1}, big + 2}, {{1, -big, big}, 1}, {{-big, big, 1}, 0}};
  for (const auto &[factors, expected] : rows) {
    TestGraph g(fanOf(factors));
    for (uint32_t cap : {2u, 8u}) {
      GradientOptions options;
      options.sumCap = cap;
      options.gradientOnly = true;
      Graph graph = built(g, wrt(g, {"x"}), options).graph;
      EXPECT_EQ(evaluate(graph, {{"x", testing::Array(1.0)}})[0].values, Numbers{expected}) << cap << " " << factors[0];
    }
  }
}

TEST(GradientTerms, CON_07_OneOperatorOneGradientOperatorAndNothingForNothing) {
  TestGraph one("y = tanh(x)"), net("a = tanh(x); b = tanh(a); y = tanh(b)");
  EXPECT_EQ(emitted(one, wrt(one, {"x"}), GradientOptions()),
            "_head_grad_0 = ones_like(y)\ny_backward = _backward_tanh(_head_grad_0, y) ^y\nheads y_backward\n");
  EXPECT_EQ(countOps(built(net, wrt(net, {"x"}), GradientOptions()).graph, "_backward_tanh"), 3u);
  // Nothing to differentiate gives a graph without gradients, whose table says so.
  GradientRequest nothing = wrt(net, {"x"});
  nothing.noGrad = {net.at("x")};
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  GradientResult result = built(net, nothing, options);
  EXPECT_EQ(dump(result.graph), dump(net));
  std::optional<GradientTable> table = cantFail(readGradientTable(result.graph));
  ASSERT_TRUE(table);
  EXPECT_EQ(table->gradNone, std::vector<std::string>{"x"});
}

TEST(GradientTerms, AGG_07_OneSumHoweverManyTerms) {
  TestGraph g(fanOf(Numbers(20, 1)));
  GradientOptions options;
  options.naming = NamingStyle::Nnvm;
  GradientResult result = built(g, wrt(g, {"x"}), options);
  NodeId sum = result.wrt[0].value.node;
  EXPECT_EQ(result.graph.name(sum), "grad_sum");
  EXPECT_EQ(result.graph.op(sum)->name, "add_n");
  EXPECT_EQ(result.graph.attrs(sum).get("num_args"), StringRef("20"));
}

TEST(GradientTerms, AGG_12_SumsLoseTheOperandsThatAreCut) {
  TestGraph g("a = tanh(x); b = exp(x); c = relu(x); s = elemwise_add(a, b); y = elemwise_add(s, c)");
  GradientRequest request = wrt(g, {"x"});
  auto operands = [&](std::vector<StringRef> cut) -> size_t {
    request.noGrad.clear();
    for (StringRef name : cut) request.noGrad.push_back(g.at(name));
    GradientResult result = built(g, request, GradientOptions());
    EXPECT_EQ(result.stats.numSums, countOps(result.graph, "add_n"));
    if (!result.stats.numSums) return 1;
    return result.graph.inputs(result.wrt[0].value.node).size();
  };
  EXPECT_EQ(operands({}), 3u);
  EXPECT_EQ(operands({"b"}), 2u);
  EXPECT_EQ(operands({"a", "c"}), 1u) << "one operand is the gradient, without a sum";
  // None left: no sum either, and x is unconnected.
  request.noGrad = {g.at("a"), g.at("b"), g.at("c")};
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  GradientResult none = built(g, request, options);
  EXPECT_EQ(none.stats.numSums, 0u);
  EXPECT_EQ(none.wrt[0].status, SlotStatus::None);
}

// p's gradient is a head, is read twice below, and starts the sum for x: nobody may add into its buffer.
TEST(GradientTerms, AGG_13_D_15_SumsNeverRunInABufferOthersSee) {
  TestGraph g(
      "x = var {__shape__=(2,)}; p = _plus_scalar(x) {scalar=1}; q = elemwise_mul(p, x); y = elemwise_mul(q, p)");
  for (uint32_t cap : {2u, 3u, 8u}) {
    GradientRequest request = wrt(g, {"x", "p", "q"});
    request.retained = {{g.at("p"), Request::Write}, {g.at("y"), Request::Write}};
    GradientOptions options;
    options.sumCap = cap;
    options.headPolicy = HeadPolicy::Input;
    Graph graph = built(g, request, options).graph;
    SessionOptions session;
    session.infer.floatAs = DType::Float64;
    std::vector<NamedArray> bindings{{"x", doubles({2}, {2, 3})}, {"_head_grad_0", doubles({2}, {1, 10})}};
    Session run = cantFail(Session::create(g.context, graph, std::move(bindings), session));
    cantFail(run.run(0));
    // y = (x + 1)² · x; dy/dp = 2·p·x, dy/dq = p, dx = p² + 2·p·x
    const Numbers dp{12, 240}, dq{3, 40}, dx{9 + 12, 160 + 240};
    const Numbers expected[] = {dx, dp, dq, dp, {1, 10}};
    for (size_t i = 0; i < 5; ++i)
      EXPECT_EQ(valuesOf<double>(run.head(1 + i)), expected[i]) << "head " << i << ", cap " << cap;
    for (size_t i = 0; i < graph.heads().size(); ++i)
      for (size_t j = 0; j < i; ++j) EXPECT_NE(run.head(i).data, run.head(j).data) << i << " " << j;
  }
}

TEST(GradientTerms, AGG_16_V_17_AddingOntoWhatIsThere) {
  for (int n : {1, 2, 3, 7, 8, 9, 20})
    for (uint32_t cap : {2u, 8u, 100u}) {
      Numbers factors;
      for (int i = 1; i <= n; ++i) factors.push_back(i);
      TestGraph g(fanOf(factors));
      GradientRequest request = wrt(g, {"x"});
      request.wrt[0].request = Request::Add;
      GradientOptions options;
      options.sumCap = cap;
      Graph graph = built(g, request, options).graph;
      SessionOptions session;
      session.infer.floatAs = DType::Float64;
      Session run = cantFail(
          Session::create(g.context, graph, {{"x", doubles({1}, {2})}, {"x_grad", doubles({1}, {1000})}}, session));
      cantFail(run.run(0));
      EXPECT_EQ(valuesOf<double>(run.head(1)), Numbers{1000.0 + n * (n + 1) / 2}) << n << " " << cap;
      cantFail(run.run(1));
      EXPECT_EQ(valuesOf<double>(run.head(1)), Numbers{1000.0 + n * (n + 1)}) << n << " " << cap;
    }
}

// MXNet makes zeros_like(input i) for every node whose head gradients are zero. Here zeros become a node only where an
// array is needed: at x itself, once, of x's shape.
TEST(GradientTerms, ZERO_03_OneNodeOfZerosAtTheVariable) {
  TestGraph g("a = exp(x); b = elemwise_mul(a, w); c = BlockGrad(b); d = exp(v); y = elemwise_add(c, d)");
  GradientResult result = built(g, wrt(g, {"x", "w", "v"}), GradientOptions());
  EXPECT_EQ(dumpFrom(result.graph, g.graph.numNodes(), 1), "x_zero_grad = zeros_like(x)\n"
                                                           "w_zero_grad = zeros_like(w)\n"
                                                           "_head_grad_0 = ones_like(y)\n"
                                                           "d_backward = elemwise_mul(_head_grad_0, d)\n"
                                                           "heads x_zero_grad, w_zero_grad, d_backward\n");
  EXPECT_EQ(result.wrt[0].status, SlotStatus::Grad);
  EXPECT_EQ(result.graph.origin(result.wrt[0].value.node), g.at("x").node);
}

TEST(GradientTerms, ZERO_04_OperatorsWithoutGradientTakeZerosThatAreKept) {
  TestGraph g("p = test_part(x); b = BlockGrad(p); y = elemwise_add(b, x)");
  GradientOptions options;
  options.zeroTerms = ZeroPolicy::Keep;
  options.gradientOnly = true;
  EXPECT_EQ(evaluate(built(g, wrt(g, {"x"}), options).graph, {{"x", testing::Array(1.5)}})[0].values, Numbers{1});
}

TEST(GradientTerms, ZERO_08_DroppedZerosChangeNothingButInfinities) {
  // y = stop(log x) + x²: the stopped term is 0 · (1/x), which is nan at x = 0 when it is computed.
  TestGraph g("l = log(x); b = BlockGrad(l); q = square(x); y = elemwise_add(b, q)");
  auto gradient = [&](ZeroPolicy policy, double x) {
    GradientOptions options;
    options.zeroTerms = policy;
    options.gradientOnly = true;
    return evaluate(built(g, wrt(g, {"x"}), options).graph, {{"x", testing::Array(x)}})[0].values[0];
  };
  EXPECT_EQ(GradientOptions().zeroTerms, ZeroPolicy::Drop);
  EXPECT_EQ(gradient(ZeroPolicy::Drop, 3), 6);
  EXPECT_EQ(gradient(ZeroPolicy::Keep, 3), 6);
  EXPECT_EQ(gradient(ZeroPolicy::Drop, 0), 0);
  EXPECT_TRUE(std::isnan(gradient(ZeroPolicy::Keep, 0)));
}

TEST(GradientTerms, COPY_05_ForwardHeadsListedAgainAreCopies) {
  TestGraph g("y = exp(x); z = tanh(y); heads y, y, z, y");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Input;
  GradientResult result = built(g, wrt(g, {"x"}), options);
  EXPECT_EQ(dumpFrom(result.graph, 0, 0),
            "y = exp(x)\n"
            "y_copy0 = _copy(y)\n"
            "z = tanh(y)\n"
            "y_copy1 = _copy(y)\n"
            "_head_grad_0_id = _identity_with_attr_like_rhs(_head_grad_0, y)\n"
            "_head_grad_1_id = _identity_with_attr_like_rhs(_head_grad_1, y)\n"
            "_head_grad_3_id = _identity_with_attr_like_rhs(_head_grad_3, y)\n"
            "_head_grad_2_id = _identity_with_attr_like_rhs(_head_grad_2, z)\n"
            "z_backward = _backward_tanh(_head_grad_2_id, z) ^z\n"
            "y_sum_grad = add_n(_head_grad_0_id, _head_grad_1_id, _head_grad_3_id, z_backward)\n"
            "y_backward = elemwise_mul(y_sum_grad, y)\n"
            "heads y, y_copy0, z, y_copy1, y_backward\n");
  // The table and the ids follow: z is not where it was.
  ASSERT_EQ(result.forwardIds.size(), g.graph.numNodes());
  EXPECT_EQ(result.graph.name(result.forwardIds[g.at("z").node.value]), "z");
  std::optional<GradientTable> table = cantFail(readGradientTable(result.graph));
  ASSERT_TRUE(table && table->heads.size() == 5);
  EXPECT_EQ(table->heads[4].ofNode, nodeNamed(result.graph, "x"));
  EXPECT_EQ(table->headGradOf.size(), 4u);
}

TEST(GradientTerms, COPY_05_HigherOrdersFollowTheCopies) {
  TestGraph g("a = tanh(x); y = square(w); z = elemwise_mul(a, y); heads a, a, z");
  GradientOptions options;
  GradientResult result = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"w"}), options, 2));
  Bindings bindings{{"x", testing::Array(0.5)}, {"w", testing::Array(3.0)}};
  std::vector<testing::Array> values = evaluate(result.graph, bindings);
  ASSERT_EQ(values.size(), 5u);
  EXPECT_NEAR(values[3].values[0], 6 * std::tanh(0.5), 1e-15);
  EXPECT_NEAR(values[4].values[0], 2 * std::tanh(0.5), 1e-15);
}

}  // namespace
}  // namespace gradc
