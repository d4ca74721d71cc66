// Taps: one node through which the whole gradient of an entry passes, so that a host can read or replace it.
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/op_def.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/lowering/lower_to.h"
#include "runtime/session/session.h"
#include "tests/support/runs/requests.h"
#include "tests/support/tensors.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

using Doubles = std::vector<double>;

// Stands for a hook that doubles what it sees.
constinit const OpDef kDoublingTap = {
    .name = "test_doubling_tap",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = [](GradRule &g) { g.clone(); },
    .kernel =
        [](const KernelCall &call) {
          for (int64_t i = 0; i < call.in[0].size(); ++i)
            call.out[0].as<double>()[i] = 2 * call.in[0].as<const double>()[i];
        },
};

struct TappedGraph : TestGraph {
  explicit TappedGraph(StringRef text) : TestGraph(text) {}
  void doubling() {
    cantFail(context.ops.add(kDoublingTap));
    context.ops.wellKnown.tap = &kDoublingTap;
  }
  GradientRequest request(ArrayRef<StringRef> xs, ArrayRef<StringRef> taps) const {
    GradientRequest request = wrt(*this, xs);
    for (StringRef tap : taps) request.taps.push_back(at(tap));
    return request;
  }
};

Doubles gradients(const GradientResult &result, const Bindings &bindings) {
  NaiveRun run = cantFail(NaiveRun::run(result.graph, bindings, {}));
  Doubles values;
  for (const std::vector<GradientSlot> *slots : {&result.wrt, &result.retained})
    for (const GradientSlot &slot : *slots)
      if (slot.value.isValid()) values.push_back(run.value(slot.value).values.at(0));
  return values;
}

// z = x² + 2x + xy + y at x = 1, y = 4.
TEST(GradientTaps, HOOK_02_TheWholeGradientPassesOnce) {
  TappedGraph g("x = var {__shape__=(1,)}; y = var {__shape__=(1,)}; q = square(x); d = _mul_scalar(x) {scalar=2};"
                "p = elemwise_mul(x, y); a = elemwise_add(q, d); b = elemwise_add(a, p); z = elemwise_add(b, y)");
  g.doubling();
  const Bindings at{{"x", Array(Doubles{1})}, {"y", Array(Doubles{4})}};
  GradientResult result = built(g, g.request({"x", "y"}, {"z"}), {});
  EXPECT_EQ(result.stats.numTaps, 1u);
  EXPECT_EQ(gradients(result, at), (Doubles{16, 4}));
  result = built(g, g.request({"x", "y"}, {"z", "y"}), {});
  EXPECT_EQ(result.stats.numTaps, 2u);
  EXPECT_EQ(gradients(result, at), (Doubles{16, 8}));
}

// y = a², a = 2x at x = 3: 24 for a and 48 for x, whichever of them is requested.
TEST(GradientTaps, HOOK_03_AnAskedEntryGetsTheTappedValue) {
  TappedGraph g("x = var {__shape__=(1,)}; a = _mul_scalar(x) {scalar=2}; y = square(a)");
  g.doubling();
  const Bindings at{{"x", Array(Doubles{3})}};
  EXPECT_EQ(gradients(built(g, g.request({"a"}, {"a"}), {}), at), (Doubles{24}));
  EXPECT_EQ(gradients(built(g, g.request({"x", "a"}, {"a"}), {}), at), (Doubles{48, 24}));
  EXPECT_EQ(gradients(built(g, g.request({"a", "x", "a"}, {"a"}), {}), at), (Doubles{24, 48, 24}));
  EXPECT_EQ(gradients(built(g, g.request({"x"}, {"a"}), {}), at), (Doubles{48}));
  GradientRequest retained = g.request({"x"}, {"a"});
  retained.retained = {{g.at("a"), Request::Write}};
  EXPECT_EQ(gradients(built(g, retained, {}), at), (Doubles{48, 24}));
}

TEST(GradientTaps, HOOK_02_SumsAndChainsAreTappedAfterTheLastTerm) {
  TappedGraph g("x = var {__shape__=(1,)}; a = exp(x); b = sin(x); c = elemwise_add(a, b); y = elemwise_mul(c, x)");
  for (uint32_t cap : {8u, 2u}) {
    GradientOptions options;
    options.sumCap = cap;
    const GradientResult result = built(g, g.request({"x"}, {"x"}), options);
    const Graph &graph = result.graph;
    const NodeId tap = result.taps[0];
    EXPECT_EQ(graph.name(tap), "x_tap");
    EXPECT_EQ(graph.origin(tap), g.at("x").node);
    EXPECT_EQ(graph.opName(graph.inputs(tap)[0].node), cap == 8 ? "add_n" : "_copy");
    EXPECT_EQ(result.wrt[0].value, Value{tap});
    EXPECT_EQ(countOps(graph, "_gradient_tap"), 1u);
  }
}

TEST(GradientTaps, HOOK_02_EveryReaderOfTheGradientReadsTheTap) {
  TappedGraph g("s = test_split3(x); a = exp(s:2); b = elemwise_add(a, w); y = elemwise_mul(b, b)");
  GradientRequest request = g.request({"x", "w"}, {"b", "s:2", "a"});
  const GradientResult result = built(g, request, {});
  const Graph &graph = result.graph;
  ASSERT_EQ(result.taps.size(), 3u);
  EXPECT_EQ(graph.name(result.taps[1]), "s_tap_out2");
  for (NodeId tap : result.taps) {
    ASSERT_TRUE(tap.isValid());
    const Value gradient = graph.inputs(tap)[0];
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      EXPECT_EQ(is_contained(graph.inputs(NodeId(n)), gradient), NodeId(n) == tap) << graph.describe(NodeId(n));
  }
  EXPECT_EQ(graph.inputs(result.taps[2])[0], Value{result.taps[0]}) << "dy itself is the gradient of both terms";
  EXPECT_EQ(result.wrt[1].value, Value{result.taps[0]});
}

TEST(GradientTaps, HOOK_05_WhatNoGradientReachesHasNoTap) {
  TappedGraph g("s = test_split3(x); a = exp(s:1); u = exp(w); c = BlockGrad(u); y = elemwise_mul(a, c)");
  GradientRequest request = g.request({"x"}, {"s:0", "u", "w", "s:1", "a", "a"});
  GradientOptions options;
  const GradientResult result = built(g, request, options);
  const std::vector<NodeId> &taps = result.taps;
  EXPECT_FALSE(taps[0].isValid()) << "zeros";
  EXPECT_FALSE(taps[1].isValid()) << "stopped";
  EXPECT_FALSE(taps[2].isValid()) << "beside the path";
  EXPECT_TRUE(taps[3].isValid());
  EXPECT_TRUE(taps[4].isValid());
  EXPECT_EQ(taps[4], taps[5]);
  // Nothing is differentiated above a; what arrives at a is answered.
  const GradientResult above = built(g, g.request({"a"}, {"a", "s:1", "x"}), options);
  EXPECT_TRUE(above.taps[0].isValid());
  EXPECT_FALSE(above.taps[1].isValid());
  EXPECT_FALSE(above.taps[2].isValid());
  // ZERO-08: zeros that take part in sums stay zeros.
  options.zeroTerms = ZeroPolicy::Keep;
  options.unused = UnusedPolicy::Zeros;
  TappedGraph zero("z = zeros_like(x); y = elemwise_mul(z, w); heads y");
  GradientRequest both = zero.request({"x", "w"}, {"x", "z"});
  EXPECT_EQ(built(zero, both, options).stats.numTaps, 1u);
}

TEST(GradientTaps, HOOK_02_CutsAndConstants) {
  TappedGraph g("a = exp(x); b = exp(a); y = elemwise_mul(b, a)");
  GradientRequest request = g.request({"x"}, {"b", "a"});
  request.noGrad = {g.at("b")};
  GradientResult result = built(g, request, {});
  EXPECT_FALSE(result.taps[0].isValid());
  EXPECT_TRUE(result.taps[1].isValid());
  // A stopped entry that is requested receives its gradient.
  request = g.request({"x", "b"}, {"b", "a"});
  request.stop = {g.at("b")};
  result = built(g, request, {});
  EXPECT_EQ(result.wrt[1].value, Value{result.taps[0]});
  EXPECT_TRUE(result.taps[1].isValid());
}

TEST(GradientTaps, HO_01_HigherOrdersPassThroughATap) {
  TappedGraph g("x = var {__shape__=(1,)}; a = exp(x); y = square(a)");
  const double e2 = std::exp(2 * 0.3);
  for (uint32_t order = 1; order <= 3; ++order) {
    const GradientRequest request = g.request({"x"}, {"a", "x"});
    const GradientResult result = cantFail(buildGradientOfOrder(g.context, g, request, {}, order));
    EXPECT_TRUE(result.taps[0].isValid()) << "tapped at every order";
    EXPECT_TRUE(result.taps[1].isValid());
    EXPECT_NEAR(gradients(result, {{"x", Array(Doubles{0.3})}})[0], std::pow(2, order) * e2, 1e-12);
    EXPECT_GE(result.taps[1].value, result.stats.numForwardNodes);
  }
  // g = t·a with t = 2·2a: the tap passes its gradient on as it is, so that dg/da = 2a + t.
  g.doubling();
  const GradientResult first = built(g, g.request({"x"}, {"a"}), {});
  GradientRequest second = wrt(first.graph, {"x"});
  second.heads = {{first.wrt[0].value, std::nullopt, ""}};
  const GradientResult result = cantFail(buildGradient(g.context, first.graph, second, {}));
  EXPECT_NEAR(gradients(result, {{"x", Array(Doubles{0.3})}})[0], 6 * e2, 1e-12);
}

TEST(GradientTaps, NAME_06_EveryStyleNamesTheTap) {
  for (auto [style, name] : {std::pair(NamingStyle::Unique, "a_tap"), std::pair(NamingStyle::Mxnet, "a_tap"),
                             std::pair(NamingStyle::Nnvm, "a_tap"), std::pair(NamingStyle::Fluid, "a@GRAD@TAP")}) {
    TappedGraph g("a = exp(x); b = sin(a); c = cos(a); y = elemwise_mul(b, c)");
    GradientOptions options;
    options.naming = style;
    const GradientResult result = built(g, g.request({"x"}, {"a"}), options);
    const Graph &graph = result.graph;
    EXPECT_EQ(graph.name(result.taps[0]), name);
    if (style == NamingStyle::Fluid) {
      EXPECT_EQ(graph.name(graph.inputs(result.taps[0])[0].node), "a@GRAD");
    }
  }
}

TEST(GradientTaps, HOOK_01_TheListenerKnowsWhatATapIsTheGradientOf) {
  struct Listener : GradientListener {
    std::vector<std::string> lines;
    void emitted(const EmittedNode &node) override {
      const Value of = node.gradientOf[0];
      lines.push_back(node.graph.name(node.node).str() + ":" + (of.isValid() ? node.graph.name(of.node).str() : ""));
    }
  } listener;
  TappedGraph g("a = exp(x); b = sin(a); y = elemwise_mul(b, a)");
  GradientOptions options;
  options.listener = &listener;
  built(g, g.request({"x"}, {"a"}), options);
  EXPECT_TRUE(is_contained(listener.lines, "a_tap:a"));
  EXPECT_TRUE(is_contained(listener.lines, "a_sum_grad:a"));
}

TEST(GradientTaps, TheTargetWithoutTapsCopies) {
  TappedGraph g("a = exp(x); y = square(a)");
  const GradientResult result = built(g, g.request({"x"}, {"a"}), {});
  const Graph lowered = cantFail(lowerTo(g.context, result.graph, kMxnetTarget, nullptr));
  EXPECT_EQ(countOps(lowered, "_gradient_tap"), 0u);
  EXPECT_EQ(countOps(lowered, "_copy"), 1u);
}

TEST(GradientTaps, WrongRequestsAreRefused) {
  TappedGraph g("a = exp(x)");
  GradientRequest request = g.request({"x"}, {});
  request.taps = {Value{NodeId(9)}};
  EXPECT_EQ(describeError(buildGradient(g.context, g, request, {})),
            "[foreign_entry] the request names node 9, the graph has 2 nodes");
  request.taps = {Value{NodeId(1), 3, 0}};
  EXPECT_EQ(describeError(buildGradient(g.context, g, request, {})),
            "[bad_entry] output 3 of node 'a' (exp) is requested, but the node has 1");
  request.taps = {Value{NodeId(1)}};
  g.context.ops.wellKnown.tap = nullptr;
  EXPECT_EQ(describeError(buildGradient(g.context, g, request, {})),
            "[unsupported_option] gradients cannot be tapped: the context has no operator for it");
}

}  // namespace
}  // namespace gradc::testing
