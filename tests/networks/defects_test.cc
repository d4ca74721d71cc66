// Defects of the systems gradc learned from (§25): one small graph each that they get wrong.
#include "tests/support/ops/naive.h"
#include "tests/support/runs/requests.h"
#include "tests/support/test_graph.h"

#include "ir/base/error.h"
#include "passes/gradient/gradient.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

/// First elements of the gradient heads.
Numbers gradients(TestGraph &g, const GradientRequest &request, const Bindings &bindings) {
  Numbers numbers;
  GradientResult result = built(g, request, GradientOptions());
  std::vector<Array> heads = evaluate(result.graph, bindings);
  for (size_t i = g.graph.heads().size(); i < heads.size(); ++i) numbers.push_back(heads[i].values.at(0));
  return numbers;
}

GradientRequest toward(TestGraph &g, ArrayRef<StringRef> names, ArrayRef<StringRef> ys) {
  GradientRequest request = wrt(g, names);
  for (StringRef y : ys) request.heads.push_back({g.at(y), std::nullopt, ""});
  return request;
}

TEST(Defects, D_01_AnOutputListedTwiceCountsTwice) {
  TestGraph g("y = _mul_scalar(x) {scalar=3}");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, "first"}, {g.at("y"), std::nullopt, "second"}};
  EXPECT_EQ(gradients(g, request, {{"x", Array(2.0)}, {"first", Array(1.0)}, {"second", Array(10.0)}}), Numbers{33});
}

TEST(Defects, D_02_AVariableListedTwiceIsFilledTwice) {
  TestGraph g("y = elemwise_mul(x, x)");
  EXPECT_EQ(gradients(g, wrt(g, {"x", "x"}), {{"x", Array(3.0)}}), (Numbers{6, 6}));
}

TEST(Defects, D_03_ZerosWithoutATypeAreZerosToo) {
  // The second output of f is unused, the first is stopped: f has no gradient and needs none.
  TestGraph g("s = test_split3(x); p = test_part(s:1); b = BlockGrad(p); c = exp(s:2); y = elemwise_add(b, c)");
  std::vector<Array> heads =
      evaluate(built(g, wrt(g, {"x"}), GradientOptions()).graph, {{"x", Array(Numbers{1, 2, 0})}});
  EXPECT_EQ(heads[1].values, (Numbers{0, 0, 1}));
  // The gradient of sign is zero: nothing arrives at p, which has no gradient and needs none.
  TestGraph h("p = test_part(x); q = sign(p); y = elemwise_add(q, x)");
  EXPECT_EQ(gradients(h, wrt(h, {"x"}), {{"x", Array(1.0)}}), Numbers{1});
}

TEST(Defects, D_04_OperatorsWithoutGradientBesideThePath) {
  TestGraph g("f = test_part(x); y = elemwise_add(f, w)");
  EXPECT_EQ(gradients(g, wrt(g, {"w"}), {{"x", Array(1.0)}, {"w", Array(1.0)}}), Numbers{1});
}

TEST(Defects, D_05_ALongChainOverARepeatedProducerClosesNoCycle) {
  // dx is the sum of h, t·h, h, t·h, … : ten contributions of two producers in turn.
  std::string text = "y0 = elemwise_add(x, x)";
  for (int i = 1; i < 5; ++i)
    text += "; t" + std::to_string(i) + " = _mul_scalar(x) {scalar=2}; u" + std::to_string(i) + " = elemwise_add(t" +
            std::to_string(i) + ", x); y" + std::to_string(i) + " = elemwise_add(y" + std::to_string(i - 1) + ", u" +
            std::to_string(i) + ")";
  TestGraph g(text);
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y4"), std::nullopt, "h"}};
  for (uint32_t cap : {2u, 3u, 8u, 100u}) {
    GradientOptions options;
    options.sumCap = cap;
    std::vector<Array> heads = evaluate(built(g, request, options).graph, {{"x", Array(1.0)}, {"h", Array(1.0)}});
    EXPECT_EQ(heads[1].values, Numbers{14}) << cap;
  }
}

TEST(Defects, D_06_ForwardEntriesIncludeUnusedOutputs) {
  TestGraph g("s = test_split3(x)");
  GradientResult result = built(g, wrt(g, {"x"}), GradientOptions());
  EXPECT_EQ(result.stats.numForwardNodes, 2u);
  EXPECT_EQ(result.stats.numForwardEntries, 4u);
}

TEST(Defects, D_07_IntermediateGradientsOfAnyOutput) {
  TestGraph g(
      "s = test_split3(x); a = _mul_scalar(s:2) {scalar=7}; b = _mul_scalar(s:1) {scalar=5}; y = elemwise_add(a, b)");
  GradientRequest request = wrt(g, {"x"});
  request.retained = {{g.at("s:2"), Request::Write}, {g.at("s:1"), Request::Write}, {g.at("s"), Request::Write}};
  EXPECT_EQ(gradients(g, request, {{"x", Array(Numbers{1, 1, 1})}}), (Numbers{0, 7, 5, 0}));
}

TEST(Defects, D_11_SumsOfAnyLengthAreWholeSums) {
  for (int n = 1; n <= 12; ++n) {
    std::string text = "x1 = _copy(x)";
    for (int i = 2; i <= n; ++i)
      text += "; x" + std::to_string(i) + " = _mul_scalar(x) {scalar=" + std::to_string(i) + "}";
    text += "; y = add_n(x1";
    for (int i = 2; i <= n; ++i) text += ", x" + std::to_string(i);
    TestGraph g(text + ") {num_args=" + std::to_string(n) + "}");
    EXPECT_EQ(gradients(g, wrt(g, {"x"}), {{"x", Array(1.0)}}), Numbers{n * (n + 1) / 2.0}) << n;
  }
}

TEST(Defects, D_12_SiblingOutputsAsVariables) {
  TestGraph g("s = test_split3(x); t = _mul_scalar(s:1) {scalar=2}; y = elemwise_add(s, t)");
  EXPECT_EQ(gradients(g, wrt(g, {"x", "s", "s:1"}), {{"x", Array(Numbers{1, 1, 1})}}), (Numbers{1, 1, 2}));
}

TEST(Defects, D_14_RET_05_AFailedCallLeavesNothingBehind) {
  TestGraph g("p = test_part(x); y = elemwise_mul(p, w); z = exp(w); heads y, z");
  const std::string before = dump(g);
  GradientRequest good = toward(g, {"w"}, {"z"});
  const std::string expected = dump(built(g, good, GradientOptions()).graph);
  EXPECT_EQ(describeError(buildGradient(g.context, g, toward(g, {"w", "x"}, {"y"}), GradientOptions())).substr(0, 20),
            "[not_differentiable]");
  EXPECT_EQ(dump(g), before);
  EXPECT_EQ(dump(built(g, good, GradientOptions()).graph), expected);
}

TEST(Defects, D_19_TheOrderOfNodesIsThatOfTheGraph) {
  // The same text in contexts of different history gives the same listing.
  const StringRef text = "a = exp(x); b = tanh(w); c = elemwise_mul(a, b); d = sqrt(c); y = elemwise_add(d, a)";
  TestGraph first(text);
  const std::string expected = dump(built(first, wrt(first, {"w", "x"}), GradientOptions()).graph);
  for (int i = 0; i < 20; ++i) {
    TestContext context;
    std::vector<Attrs> noise;
    for (int k = 0; k < i * 50; ++k) noise.push_back(context.attrs(AttrText{"noise", std::to_string(k)}));
    Graph graph = cantFail(parseGraph(context, text));
    EXPECT_EQ(dump(cantFail(buildGradient(context, graph, wrt(graph, {"w", "x"}), GradientOptions())).graph), expected);
  }
}

TEST(Defects, D_21_TheMessageReadsWell) {
  TestGraph g("p = test_part(x)");
  EXPECT_EQ(describeError(buildGradient(g.context, g, wrt(g, {"x"}), GradientOptions())),
            "[not_differentiable] operator 'test_part' of node 'p' has no gradient registered, and the gradient passes "
            "through it");
}

TEST(Defects, D_22_GeneratedNamesAreDistinct) {
  TestGraph g(
      "a = exp(x); b = tanh(x); c = elemwise_mul(a, b); d = elemwise_mul(a, w); e = elemwise_mul(b, w); heads c, d, e");
  Graph graph = gradientOf(g.context, g, {"x", "w"}, 2).graph;
  StringSet<> names;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    EXPECT_TRUE(names.insert(graph.name(NodeId(n))).second) << graph.name(NodeId(n)).str();
}

TEST(Defects, D_24_OnesHaveTheShapeOfTheLoss) {
  TestGraph g("y = square(x)");
  std::vector<Array> heads =
      evaluate(built(g, wrt(g, {"x"}), GradientOptions()).graph, {{"x", Array(Numbers{1, 2, 3})}});
  EXPECT_EQ(heads[1].values, (Numbers{2, 4, 6}));
}

TEST(Defects, D_25_OutputsThatFeedOneAnother) {
  TestGraph g("y = elemwise_mul(x, x); z = elemwise_mul(y, y); heads y, z");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, "gy"}, {g.at("z"), std::nullopt, "gz"}};
  EXPECT_EQ(gradients(g, request, {{"x", Array(2.0)}, {"gy", Array(3.0)}, {"gz", Array(5.0)}}), Numbers{172});
  TestGraph h("c = elemwise_add(a, b); d = elemwise_add(c, c); e = elemwise_add(d, d); heads e, c, d");
  EXPECT_EQ(gradients(h, wrt(h, {"a", "b"}), {{"a", Array(1.0)}, {"b", Array(2.0)}}), (Numbers{7, 7}));
}

TEST(Defects, D_29_DifferentiatingAGradientGraphAgain) {
  // The dependency of the first gradient on its forward node carries nothing: one path, one second derivative.
  for (auto [text, slope] :
       {std::pair{"y = square(x)", 2.0}, {"y = tanh(x)", -2 * std::tanh(0.5) / std::pow(std::cosh(0.5), 2)}}) {
    TestGraph g(text);
    Graph first = built(g, wrt(g, {"x"}), GradientOptions()).graph;
    GradientRequest request = wrt(first, {"x"});
    request.heads = {{first.heads()[1], std::nullopt, ""}};
    GradientResult second = cantFail(buildGradient(g.context, first, request, GradientOptions()));
    EXPECT_NEAR(evaluate(second.graph, {{"x", Array(0.5)}})[2].values[0], slope, 1e-14) << text;
    for (uint32_t n = 0; n < second.graph.numNodes(); ++n)
      EXPECT_FALSE(second.graph.opName(NodeId(n)) == "zeros_like") << second.graph.name(NodeId(n)).str();
  }
}

TEST(Defects, D_30_BadIndicesAndCyclesAreRefusedWhenTheGraphIsMade) {
  TestContext context;
  EXPECT_EQ(describeError(parseGraph(context, "y = exp(x); heads y:3")).substr(0, 11), "[bad_entry]");
  EXPECT_EQ(describeError(parseGraph(context, "y = exp(x:2)")).substr(0, 11), "[bad_entry]");
}

}  // namespace
}  // namespace gradc
