// What follows a node into its gradient, and who is told: listeners (§19) and attributes (§18, NAME-11).
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// One line per node told of: `x_sum_grad = add_n for x: x`, the user's node and, per output, the entry it is of.
struct Recorder : GradientListener {
  void emitted(const EmittedNode &node) override {
    const Graph &graph = node.graph;
    std::string line = graph.name(node.node).str() + " = " + graph.opName(node.node).str();
    if (node.forward.isValid()) line += " for " + graph.name(node.forward).str();
    line += ":";
    for (Value of : node.gradientOf) {
      line += of.isValid() ? " " + graph.name(of.node).str() : " -";
      if (of.isValid() && of.index) line += ":" + std::to_string(of.index);
    }
    text += line + "\n";
    ids.push_back(node.node.value);
  }
  std::string text;
  std::vector<uint32_t> ids;
};

std::string told(TestGraph &g, const GradientRequest &request, GradientOptions options) {
  Recorder recorder;
  options.listener = &recorder;
  Expected<GradientResult> result = buildGradient(g.context, g, request, options);
  if (!result) return describeError(result.takeError());
  EXPECT_TRUE(llvm::is_sorted(recorder.ids));
  EXPECT_EQ(recorder.ids.size(), result->graph.numNodes() - g.graph.numNodes()) << "once per node that is emitted";
  return recorder.text;
}

// A listener is a type, so anything that is not a listener is rejected by the compiler instead of at run time.
TEST(GradientListener, E_21_WhatIsNoCallbackDoesNotCompile) {
  using Field = decltype(GradientOptions::listener);
  static_assert(std::is_abstract_v<GradientListener>, "emitted must be given");
  static_assert(std::is_assignable_v<Field &, Recorder *>);
  static_assert(!std::is_assignable_v<Field &, void (*)(const EmittedNode &)>);
  static_assert(!std::is_assignable_v<Field &, Recorder> && !std::is_assignable_v<Field &, int>);
  TestGraph g("y = tanh(x)");
  EXPECT_EQ(GradientOptions().listener, nullptr) << "none by default, which is no error";
  EXPECT_EQ(countOps(gradientOf(g.context, g, {"x"}, 1).graph, "_backward_tanh"), 1u);
}

TEST(GradientListener, HOOK_01_EveryNodeOnceInOrderWithWhatItIsTheGradientOf) {
  TestGraph g("a = exp(x); b = tanh(x); y = elemwise_mul(a, b)");
  EXPECT_EQ(told(g, wrt(g, {"x"}), {}), "_head_grad_0 = ones_like for y: y\n"
                                        "y_backward = _backward_mul for y: a b\n"
                                        "b_backward = _backward_tanh for b: x\n"
                                        "a_backward = elemwise_mul for a: x\n"
                                        "x_sum_grad = add_n for x: x\n");
}

TEST(GradientListener, HOOK_01_HeadVariablesInnerNodesAndCopies) {
  TestGraph g("y = test_sine(x); z = elemwise_add(y, w)");
  GradientRequest request = wrt(g, {"x", "w"});
  request.heads = {{g.at("z"), std::nullopt, "dz"}};
  // The head gradient is that of z, y and w alike: the last of them counts.
  EXPECT_EQ(told(g, request, {}), "dz = null: -\n"
                                  "dz_id = _identity_with_attr_like_rhs for z: z\n"
                                  "y_backward_0 = test_cosine for y: -\n"
                                  "y_backward_1 = elemwise_mul for y: x\n");
}

TEST(GradientListener, HOOK_01_ChainsAndOutputs) {
  TestGraph g("s = test_split3(x); a = exp(s:1); b = tanh(s:1); y = elemwise_add(a, b)");
  GradientOptions options;
  options.sumCap = 2;
  std::string text = told(g, wrt(g, {"s:1"}), options);
  for (StringRef line : {"s_sum_grad_out1_1 = _grad_add for s: s:1\n", "s_sum_grad_out1_final = _copy for s: s:1\n",
                         "a_backward = elemwise_mul for a: s:1\n"})
    EXPECT_TRUE(StringRef(text).contains(line)) << text;
}

TEST(GradientListener, HOOK_01_EveryOrderIsTold) {
  TestGraph g("y = exp(x)");
  Recorder recorder;
  GradientOptions options;
  options.listener = &recorder;
  Expected<GradientResult> result = buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, 2);
  ASSERT_TRUE(bool(result)) << describeError(result.takeError());
  EXPECT_EQ(recorder.ids.size(), result->graph.numNodes() - g.graph.numNodes());
}

// ---- attributes that follow

// The attribute of every node beyond the user's, "-" for none.
std::string attrsOf(const Graph &graph, uint32_t first, StringRef key) {
  std::string text;
  for (uint32_t n = first; n < graph.numNodes(); ++n)
    text += (text.empty() ? "" : " ") + graph.attrs(NodeId(n)).get(key).value_or("-").str();
  return text;
}

TEST(GradientAttributes, NAME_11_ScopeAndDeviceFollowTheNode) {
  // Fused operators take over all attributes of their node; nodes of primitives, sums and heads get these two.
  TestGraph g("a = exp(x) {__ctx_group__=dev1, __profiler_scope__=net:}; b = tanh(x) {__ctx_group__=dev2};"
              "y = elemwise_mul(a, b) {__lr_mult__=2}");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  const uint32_t first = g.graph.numNodes();
  EXPECT_EQ(dumpFrom(result.graph, first, 1), "_head_grad_0 = ones_like(y)\n"
                                              "y_backward = _backward_mul(_head_grad_0, a, b) ^y\n"
                                              "b_backward = _backward_tanh(y_backward:1, b) ^b\n"
                                              "a_backward = elemwise_mul(y_backward, a)\n"
                                              "x_sum_grad = add_n(b_backward, a_backward)\n"
                                              "heads x_sum_grad\n");
  EXPECT_EQ(attrsOf(result.graph, first, "__ctx_group__"), "- - dev2 dev1 -");
  EXPECT_EQ(attrsOf(result.graph, first, "__profiler_scope__"), "- - - net: -");
  EXPECT_EQ(attrsOf(result.graph, first, "__lr_mult__"), "- 2 - - -");
  EXPECT_EQ(evaluate(result.graph, {{"x", Array(0.0)}})[1].values, std::vector<double>{1});
}

TEST(GradientAttributes, NAME_11_HigherOrdersAndSumsAtVariables) {
  TestGraph g(
      "x = var {__ctx_group__=host}; a = exp(x) {__ctx_group__=dev1}; y = elemwise_mul(a, x) {__ctx_group__=dev2}");
  GradientResult result = gradientOf(g.context, g, {"x"}, 2);
  for (uint32_t n = g.graph.numNodes(); n < result.graph.numNodes(); ++n) {
    StringRef origin = result.graph.name(result.graph.origin(NodeId(n)));
    StringRef device = origin == "x" ? "host" : origin == "a" ? "dev1" : "dev2";
    EXPECT_EQ(result.graph.attrs(NodeId(n)).get("__ctx_group__").value_or("-"), device)
        << result.graph.name(NodeId(n)).str();
  }
  EXPECT_GE(countOps(result.graph, "add_n"), 2u);
}

TEST(GradientAttributes, NAME_11_WithoutThemNothingChanges) {
  TestGraph g("y = tanh(x) {__lr_mult__=3}");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  EXPECT_EQ(attrsOf(result.graph, 2, "__ctx_group__"), "- -");
  EXPECT_TRUE(result.graph.attrs(nodeNamed(result.graph, "_head_grad_0")).isEmpty());
}

}  // namespace
}  // namespace gradc
