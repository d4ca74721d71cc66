// The order of the walk from the second order of differentiation on.
#include "passes/gradient/walk_order.h"

#include "ir/graph/graph_builder.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"
#include "passes/gradient/higher_order/higher_order.h"

using namespace llvm;

namespace gradc::testing {
namespace {

std::string walkOf(const Graph &graph) {
  std::string names;
  for (NodeId n : walkOrder(graph, testContext().ops.wellKnown))
    names += (names.empty() ? "" : " ") + graph.name(n).str();
  return names;
}

TEST(WalkOrder, RUN_02_ControlDependenciesHaveNoSay) {
  TestGraph without("a = exp(x); b = exp(x); c = exp(a); heads b, c");
  TestGraph with("a = exp(x); b = exp(x) ^a; c = exp(a); heads b, c");
  EXPECT_EQ(walkOf(without), "c a b x");
  EXPECT_EQ(walkOf(with), "c a b x");
}

// With the unknown operator and without, the nodes that are differentiated come in the same order.
TEST(WalkOrder, RUN_02_HeadsOfUnknownOperatorsHaveNoSay) {
  TestGraph without("a = exp(x); b = exp(x); c = elemwise_add(a, b); heads c");
  TestGraph with("a = exp(x); b = exp(x); c = elemwise_add(a, b); m = ?mystery(b); r = relu(m); heads r, c");
  EXPECT_EQ(walkOf(without), "c b a x");
  EXPECT_EQ(walkOf(with), "r m c b a x");
}

// Heads that depend on an unknown operator may lead to what is differentiated all the same.
TEST(WalkOrder, RUN_02_ControlDependenciesHaveNoSayBehindAnUnknownOperator) {
  TestGraph without("m = ?mystery(z); a = elemwise_add(x, m); b = elemwise_mul(x, m); heads b, a");
  TestGraph with("m = ?mystery(z); a = elemwise_add(x, m); b = elemwise_mul(x, m) ^a; heads b, a");
  EXPECT_EQ(walkOf(without), "a b m z x");
  EXPECT_EQ(walkOf(with), "a b m z x");
}

// Gradients flow through an operator whose bodies nothing runs, so it is not an unknown one.
TEST(WalkOrder, RUN_02_BodiesThatNothingRunsHaveNoSay) {
  TestGraph body("y = exp(u)");
  auto walkWith = [&](bool hasBody) {
    GraphBuilder builder(testContext());
    const Value x = builder.addVariable("x", Attrs());
    NodeSpec spec{"a", Attrs(), NodeId()};
    if (hasBody) spec.bodies = body.graph;
    const NodeId a = cantFail(builder.add(*testContext().ops.find("exp"), x, spec));
    const NodeId b = cantFail(builder.add(*testContext().ops.find("exp"), x, {"b", Attrs(), NodeId()}));
    return walkOf(cantFail(std::move(builder).freeze({Value{a}, Value{b}}, {})).graph);
  };
  EXPECT_EQ(walkWith(false), "b a x");
  EXPECT_EQ(walkWith(true), "b a x");
}

TEST(WalkOrder, RUN_02_ChainIsWalkedAtOneGo) {
  TestGraph g("a = exp(x); b = tanh(a); s = _grad_add(a, b); c = exp(b); t = _grad_add(s, c); y = _copy(t)");
  EXPECT_EQ(walkOf(g), "y t s c b a x");
}

TEST(WalkOrder, RUN_02_RunningSumThatOthersReadWaitsForThem) {
  TestGraph g("s = _grad_add(x, x); c = exp(s); t = _grad_add(s, c)");
  EXPECT_EQ(walkOf(g), "t c s x");
}

// An addition that is the first term looks like a running sum.
TEST(WalkOrder, RUN_02_ChainThatBeginsWithAnAdditionIsWalkedLikeASum) {
  TestGraph sum("a = _grad_add(u, v); b = exp(u); c = exp(v); y = add_n(a, b, c) {num_args=3}");
  TestGraph chain("a = _grad_add(u, v); b = exp(u); s = _grad_add(a, b); c = exp(v); y = _grad_add(s, c)");
  EXPECT_EQ(walkOf(sum), "y a c b v u");
  EXPECT_EQ(walkOf(chain), "y s a c b v u");
}

TEST(WalkOrder, NodesOffTheHeadsComeFirst) {
  TestGraph g("a = exp(x); y = exp(x) ^a");
  EXPECT_EQ(walkOf(g), "a y x");
}

// The running sum of v's gradient reads v itself, as a head gradient.
TEST(WalkOrder, RUN_02_SecondOrderIsTheSameForEveryCap) {
  TestGraph g("p = elemwise_div(u, v); q = _power(v, p); heads p, q");
  Bindings bindings{{"u", Array(std::vector<double>{0.42788619310972864, 1.2111068200200199, -1.6353765516942596})},
                    {"v", Array(std::vector<double>{0.64733920804472378, 0.84700387475048244, 0.66962638262257612})}};
  GradientRequest request = wrt(g, {"v", "u"});
  request.heads = {{g.at("p"), g.at("v"), ""}, {g.at("q"), g.at("q"), ""}, {g.at("p"), std::nullopt, ""}};
  std::vector<Array> expected;
  for (uint32_t cap : {8u, 2u, 3u}) {
    GradientOptions options;
    options.sumCap = cap;
    GradientResult result = cantFail(buildGradientOfOrder(g.context, g, request, options, 2));
    std::vector<Array> found = evaluate(result.graph, bindings);
    if (expected.empty()) expected = found;
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i].values, expected[i].values) << "cap " << cap << ", head " << i;
  }
}

}  // namespace
}  // namespace gradc::testing
