// Gradients of gradients (§15).
#include "tests/support/ops/derivative.h"
#include "tests/support/test_graph.h"

#include "ir/graph/graph_builder.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

double scalarGradient(TestGraph &g, StringRef x, const Bindings &bindings, uint32_t order) {
  return gradientValues(g.context, g, {x}, bindings, order)[0].values[0];
}

TEST(HigherOrder, HO_01_EveryOrderIsAnOrdinaryGraph) {
  TestGraph g("a = tanh(x); b = sigmoid(a); c = elemwise_div(b, a); y = sum(c)");
  DerivativeOptions options;
  options.orders = 4;
  options.rtol = 1e-5;
  EXPECT_EQ(checkDerivatives(g.context, g, {"x"}, {{"x", Array(Numbers{0.7, -1.1})}}, options).problems,
            std::vector<std::string>());
}

TEST(HigherOrder, HO_01_MissingGradientNamesTheGradientOperator) {
  TestGraph g("i = test_cast(x) {dtype=float64}; y = exp(i)");
  Expected<GradientResult> result = buildGradientOfOrder(g.context, g, wrt(g, {"x"}), GradientOptions(), 2);
  EXPECT_EQ(
      describeError(std::move(result)),
      "[not_differentiable] operator '_backward_test_cast' of node 'i_backward' has no gradient registered, and the "
      "gradient passes through it");
}

TEST(HigherOrder, HO_03_V_19_ExponentialPlusIdentity) {
  TestGraph g("e = exp(x); z = elemwise_add(e, x)");
  Bindings bindings{{"x", Array(1.0)}};
  EXPECT_NEAR(scalarGradient(g, "x", bindings, 1), 3.7182818284590452, 1e-12);
  EXPECT_NEAR(scalarGradient(g, "x", bindings, 2), 2.7182818284590452, 1e-12);
  EXPECT_NEAR(scalarGradient(g, "x", bindings, 5), 2.7182818284590452, 1e-12);
}

// The gradient graph gets further nodes of its own, then is differentiated again.
TEST(HigherOrder, HO_03_V_20_GradientInsideAnExpression) {
  TestGraph g("y = elemwise_mul(x, x)");
  GradientResult first = gradientOf(g.context, g, {"x"}, 1);
  GraphBuilder builder(g.context, first.graph);
  auto emit = [&](StringRef op, std::vector<Value> inputs, StringRef name) {
    return Value{cantFail(builder.add(*g.context.ops.find(op), inputs, {name, Attrs(), NodeId()}))};
  };
  Value square = emit("square", {first.wrt[0].value}, "g2"), fourth = emit("square", {g.at("y")}, "y2");
  Value z = emit("elemwise_add", {square, fourth}, "z");
  Graph graph = cantFail(std::move(builder).freeze({z}, {})).graph;
  EXPECT_EQ(gradientValues(g.context, graph, {"x"}, {{"x", Array(1.0)}}, 1)[0].values, Numbers{12});
}

TEST(HigherOrder, HO_03_MatrixProduct) {
  TestGraph g("p = dot(x, y)");
  Array twos(std::vector<int64_t>{3, 3}, Numbers(9, 2));
  Bindings bindings{{"x", twos}, {"y", twos}};
  EXPECT_EQ(gradientValues(g.context, g, {"x"}, bindings, 1)[0].values, Numbers(9, 6));
  // sum(dx) toward x, y and the head.
  std::vector<std::string> variables{"x", "y"};
  Graph first = cantFail(derivativeGraph(g.context, cantFail(parseGraph(g.context, "p = dot(x, y)")), variables, 1));
  GradientRequest request = wrt(first, {"x", "y", "p1_0"});
  request.heads = {{first.heads()[0], std::nullopt, ""}};
  GradientOptions options;
  options.gradientOnly = true;
  options.unused = UnusedPolicy::Zeros;
  bindings["p1_0"] = Array(std::vector<int64_t>{3, 3}, Numbers(9, 1));
  std::vector<Array> values = evaluate(cantFail(buildGradient(g.context, first, request, options)).graph, bindings);
  EXPECT_EQ(values[0].values, Numbers(9, 0));
  EXPECT_EQ(values[1].values, Numbers(9, 3));
  EXPECT_EQ(values[2].values, Numbers(9, 6));
}

// Also where the sums run over several axes or over none, with and without shapes at hand.
TEST(HigherOrder, HO_02_DotOfAnyRanks) {
  struct Case {
    const char *attrs;
    std::vector<int64_t> lhs, rhs;
  };
  const Case cases[] = {{"", {4}, {4}},
                        {"", {3, 4}, {4}},
                        {"", {4}, {4, 3}},
                        {"", {2, 3, 4}, {4, 5}},
                        {"", {3, 4}, {4, 2, 3, 2}},
                        {" {transpose_a=True}", {4, 2, 3}, {4, 5}},
                        {" {transpose_b=True}", {3, 4}, {2, 3, 4}}};
  for (const Case &row : cases) {
    SCOPED_TRACE(toString(ShapeRef(row.lhs)) + toString(ShapeRef(row.rhs)) + row.attrs);
    TestGraph g(std::string("d = dot(a, b)") + row.attrs + "; y = square(d)");
    const InferRequest hints{
        {{g.at("a").node, {row.lhs.begin(), row.lhs.end()}}, {g.at("b").node, {row.rhs.begin(), row.rhs.end()}}}, {}};
    const Inference known = cantFail(infer(g.context, g, hints, {}));
    for (const Inference *inference : {static_cast<const Inference *>(nullptr), &known})
      for (uint32_t order : {1u, 2u, 3u}) {
        GradientOptions options;
        options.inference = inference;
        GradientResult result = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"a", "b"}), options, order));
        EXPECT_EQ(describeError(verifyGraph(result.graph, 5)), "success");
        Expected<Inference> whole = infer(g.context, result.graph, hints, {});
        ASSERT_TRUE(bool(whole)) << describeError(whole.takeError()) << dump(result.graph);
      }
    Bindings bindings;
    for (auto &[name, shape] : {std::pair{"a", row.lhs}, {"b", row.rhs}}) {
      Array array(shape, Numbers(static_cast<size_t>(*numElements(shape))));
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = drawNumber(shape.size(), i);
      bindings[name] = array;
    }
    EXPECT_EQ(checkDerivatives(g.context, g, {"a", "b"}, bindings, DerivativeOptions()).problems,
              std::vector<std::string>());
  }
}

// The fused operator again, over the gradients of its own outputs: no operator that MXNet lacks.
TEST(HigherOrder, HO_02_A_14_DotInOperatorsOfMxnet) {
  TestGraph g("d = dot(a, b); y = square(d)");
  Graph graph = gradientOf(g.context, g, {"a", "b"}, 3).graph;
  size_t numFused = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (graph.isVariable(NodeId(n))) continue;
    EXPECT_TRUE(isMxnets(*graph.op(NodeId(n)))) << graph.describe(NodeId(n));
    if (graph.opName(NodeId(n)) != "_backward_dot") continue;
    ++numFused;
    EXPECT_EQ(graph.opName(graph.controlDeps(NodeId(n))[0]), "dot");
  }
  EXPECT_GT(numFused, 3u);
}

// gx is linear in the head: its gradient toward the head is f'(x), also where the head itself is 0.
TEST(HigherOrder, HO_04_HO_06_V_22_ForwardModeByTwoReverses) {
  for (auto [text, expected] : {std::pair{"y = square(x)", 2.0},
                                {"q = square(x); y = elemwise_add(q, x)", 3.0},
                                {"y = relu(x)", 1.0},
                                {"y = test_sine(x)", std::cos(1.0)}}) {
    TestGraph g(text);
    std::vector<std::string> variables{"x"};
    Graph first = cantFail(derivativeGraph(g.context, g, variables, 1));
    Bindings bindings{{"x", Array(1.0)}, {"p1_0", Array(0.0)}};
    EXPECT_EQ(evaluate(first, bindings)[0].values, Numbers{0}) << text;
    EXPECT_EQ(gradientValues(g.context, first, {"p1_0"}, bindings, 1)[0].values, Numbers{expected}) << text;
  }
}

TEST(HigherOrder, HO_05_SineOfEveryOrder) {
  TestGraph g("y = test_sine(x)");
  Bindings bindings{{"x", Array(0.3)}};
  const double expected[] = {std::cos(0.3), -std::sin(0.3), -std::cos(0.3), std::sin(0.3), std::cos(0.3)};
  for (uint32_t order = 1; order <= 5; ++order)
    EXPECT_NEAR(scalarGradient(g, "x", bindings, order), expected[order - 1], 1e-14) << order;
}

TEST(HigherOrder, HO_08_V_21_VanishingSecondDerivative) {
  TestGraph g("y = elemwise_mul(x, a)");
  Bindings bindings{{"x", Array(2.0)}, {"a", Array(5.0)}};
  EXPECT_EQ(scalarGradient(g, "x", bindings, 2), 0);
  EXPECT_EQ(scalarGradient(g, "x", bindings, 3), 0);
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  Expected<GradientResult> none = buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, 2);
  ASSERT_TRUE(bool(none)) << describeError(none.takeError());
  EXPECT_EQ(none->wrt[0].status, SlotStatus::None);
}

TEST(HigherOrder, HO_09_EarlierGradientsStay) {
  TestGraph g("y = exp(x)");
  GradientResult second = gradientOf(g.context, g, {"x"}, 2);
  ASSERT_EQ(second.graph.heads().size(), 3u);
  std::vector<Array> values = evaluate(second.graph, {{"x", Array(0.5)}});
  for (const Array &value : values) EXPECT_NEAR(value.values[0], std::exp(0.5), 1e-15);
}

TEST(HigherOrder, INF_15_SecondOrderGraphsInfer) {
  TestGraph g(
      "c = Convolution(x, w, b) {kernel=(3,3), num_filter=2}; n = BatchNorm(c, gamma, beta, mean@1, var@1);"
      "r = Activation(n) {act_type=relu}; p = Pooling(r) {kernel=(2,2)}; f = FullyConnected(p, fw, fb) {num_hidden=3};"
      "s = SoftmaxOutput(f, label)");
  Graph graph = gradientOf(g.context, g, {"w", "fw"}, 2).graph;
  Expected<Inference> inference = infer(g.context, graph, {{{nodeNamed(graph, "x"), {2, 1, 6, 6}}}, {}}, {});
  ASSERT_TRUE(bool(inference)) << describeError(inference.takeError()) << dump(graph);
  EXPECT_EQ(inference->numUnknownShapes, 0u);
}

// The gradient is computed in the type requested, and comes back in that of the data.
TEST(HigherOrder, INF_15_SoftmaxInAnotherType) {
  for (StringRef op : {"softmax", "softmin", "log_softmax"})
    for (auto [from, to] :
         {std::pair{DType::Float16, "float32"}, {DType::Float32, "float64"}, {DType::Float64, "float16"}})
      for (uint32_t order : {2u, 3u}) {
        TestGraph g(("y = " + op + "(x) {dtype=" + to + "}").str());
        GradientResult result = gradientOf(g.context, g, {"x"}, order);
        Expected<Inference> inference =
            infer(g.context, result.graph, {{{g.at("x").node, {2, 3}}}, {{g.at("x").node, from}}}, {});
        ASSERT_TRUE(bool(inference)) << describeError(inference.takeError()) << dump(result.graph);
        EXPECT_EQ(inference->dtype[result.graph.entry(result.wrt[0].value)], from);
      }
}

// The gradient by w is f, which hangs on x through whole numbers alone.
TEST(HigherOrder, P_09_WholeNumbersEndGradientsAtEveryOrder) {
  TestGraph g("i = Cast(x) {dtype=int32}; f = Cast(i) {dtype=float64}; y = elemwise_mul(w, f)");
  Inference types = cantFail(infer(g.context, g, {{{g.at("x").node, {1}}}, {{g.at("x").node, DType::Float64}}}, {}));
  GradientOptions options;
  options.inference = &types;
  for (uint32_t order : {2u, 3u}) {
    GradientResult result = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x", "w"}), options, order));
    EXPECT_EQ(countOps(result.graph, "_backward_cast"), 0u);
    EXPECT_EQ(evaluate(result.graph, {{"x", Array(Numbers{2.5})}, {"w", Array(Numbers{3})}})[3].values, Numbers{0});
  }
  options.integers = IntegerPolicy::Permissive;
  EXPECT_GT(
      countOps(cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x", "w"}), options, 2)).graph, "_backward_cast"),
      0u);
}

TEST(HigherOrder, WholeNetworkAgainstDifferences) {
  TestGraph g("c = Convolution(x, w, b) {kernel=(2,2), num_filter=2}; n = BatchNorm(c, gamma, beta, mean@1, var@1) "
              "{fix_gamma=False}; r = Activation(n) {act_type=tanh}; p = Pooling(r) {kernel=(2,2), pool_type=avg};"
              "f = FullyConnected(p, fw, fb) {num_hidden=3}; s = SoftmaxOutput(f, label)");
  Bindings bindings;
  const std::pair<const char *, std::vector<int64_t>> shapes[] = {
      {"x", {3, 1, 4, 4}}, {"w", {2, 1, 2, 2}}, {"b", {2}}, {"gamma", {2}}, {"beta", {2}}, {"fw", {3, 8}}, {"fb", {3}}};
  std::vector<std::string> variables;
  for (auto &[name, shape] : shapes) {
    Array array(shape, Numbers(static_cast<size_t>(*numElements(shape))));
    for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = drawNumber(variables.size(), i);
    bindings[name] = array;
    variables.push_back(name);
  }
  bindings["label"] = Array(Numbers{0, 2, 1});
  bindings["mean"] = Array(Numbers{0, 0});
  bindings["var"] = Array(Numbers{1, 1});
  EXPECT_EQ(checkDerivatives(g.context, g, variables, bindings, DerivativeOptions()).problems,
            std::vector<std::string>());
}

}  // namespace
}  // namespace gradc
