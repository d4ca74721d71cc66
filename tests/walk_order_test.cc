// The order of the walk from the second order of differentiation on.
#include "passes/gradient/walk_order.h"

#include "tests/support/naive.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

std::string walkOf(const TestGraph &g, ArrayRef<StringRef> roots, uint32_t numForward = 0) {
  std::vector<NodeId> ys;
  for (StringRef name : roots) ys.push_back(g.at(name).node);
  std::string names;
  for (NodeId n : walkOrder(g, numForward, ys, testContext().ops.wellKnown.add)) names += (names.empty() ? "" : " ") + g.graph.name(n).str();
  return names;
}

TEST(WalkOrder, RUN_02_ControlDependenciesHaveNoSay) {
  TestGraph without("a = exp(x); b = exp(x); c = exp(a); heads b, c");
  TestGraph with("a = exp(x); b = exp(x) ^a; c = exp(a); heads b, c");
  EXPECT_EQ(walkOf(without, {"b", "c"}), "c a b x");
  EXPECT_EQ(walkOf(with, {"b", "c"}), "c a b x");
}

// Forward nodes keep their order, however gradient nodes come to read them.
TEST(WalkOrder, RUN_02_TheForwardPartComesLastByFallingId) {
  TestGraph g("a = exp(x); b = tanh(x); u = relu(b); v = relu(a); w = elemwise_add(u, v); heads a, b, w");
  EXPECT_EQ(walkOf(g, {"w"}), "w v a u b x");
  EXPECT_EQ(walkOf(g, {"w"}, 3), "w v u b a x");
  EXPECT_EQ(walkOf(g, {"v"}, 3), "v a x");
}

TEST(WalkOrder, RUN_02_ChainIsWalkedAtOneGo) {
  TestGraph g("a = exp(x); b = tanh(a); s = _grad_add(a, b); c = exp(b); t = _grad_add(s, c); y = _copy(t)");
  EXPECT_EQ(walkOf(g, {"y"}), "y t s c b a x");
}

TEST(WalkOrder, RUN_02_RunningSumThatOthersReadWaitsForThem) {
  TestGraph g("s = _grad_add(x, x); c = exp(s); t = _grad_add(s, c)");
  EXPECT_EQ(walkOf(g, {"t"}), "t c s x");
}

TEST(WalkOrder, RUN_02_WhatNoRootDependsOnHasNoSay) {
  TestGraph g("a = exp(x); b = exp(x); s = _grad_add(a, b); t = _grad_add(s, a); u = tanh(b); v = _grad_add(u, s); heads v, u, t");
  EXPECT_EQ(walkOf(g, {"t"}), "t s b a x");
  EXPECT_EQ(walkOf(g, {"u", "t"}), "t s a u b x");
  EXPECT_EQ(walkOf(g, {"t", "u"}), "u t s b a x");
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
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].values, expected[i].values) << "cap " << cap << ", head " << i;
  }
}

}  // namespace
}  // namespace gradc::testing
