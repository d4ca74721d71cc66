// The gradient pass: shapes of the emitted graph, head gradients, and the compact vectors of the specification.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::vector<double> values(const std::vector<Array> &arrays) {
  std::vector<double> list;
  for (const Array &array : arrays) list.insert(list.end(), array.values.begin(), array.values.end());
  return list;
}

using Numbers = std::vector<double>;

// The backward part of the gradient graph by default options.
std::string backward(TestGraph &g, ArrayRef<StringRef> names) {
  GradientResult result = gradientOf(g.context, g, names, 1);
  return dumpFrom(result.graph, result.stats.numForwardNodes, g.graph.heads().size());
}

Numbers gradients(TestGraph &g, ArrayRef<StringRef> names, const Bindings &bindings) {
  return values(gradientValues(g.context, g, names, bindings, 1));
}

Numbers gradientsFor(TestGraph &g, const GradientRequest &request, const Bindings &bindings) {
  GradientOptions options;
  options.gradientOnly = true;
  Expected<GradientResult> result = buildGradient(g.context, g, request, options);
  EXPECT_TRUE(bool(result)) << describeError(result.takeError());
  return values(evaluate(result->graph, bindings));
}

TEST(Gradient, CON_02_ContributionsOfLaterConsumersFirst) {
  TestGraph g("a = test_sine(x); b = test_cosine(x); y = elemwise_add(a, b)");
  EXPECT_EQ(backward(g, {"x"}), "_head_grad_0 = ones_like(y)\n"
                                "b_backward_0 = test_sine(x)\n"
                                "b_backward_1 = elemwise_mul(_head_grad_0, b_backward_0)\n"
                                "b_backward_2 = negative(b_backward_1)\n"
                                "a_backward_0 = test_cosine(x)\n"
                                "a_backward_1 = elemwise_mul(_head_grad_0, a_backward_0)\n"
                                "x_sum_grad = add_n(b_backward_2, a_backward_1)\n"
                                "heads x_sum_grad\n");
}

TEST(Gradient, CON_02_HeadStandsBeforeConsumers) {
  TestGraph g("x = var; y = exp(x); z = exp(y); heads y, z");
  EXPECT_EQ(backward(g, {"y"}), "_head_grad_0 = ones_like(y)\n"
                                "_head_grad_1 = ones_like(z)\n"
                                "z_backward = elemwise_mul(_head_grad_1, z)\n"
                                "y_sum_grad = add_n(_head_grad_0, z_backward)\n"
                                "heads y_sum_grad\n");
}

TEST(Gradient, CON_04_SameGraphTwiceGivesEqualText) {
  const char *text = "a = exp(x); b = elemwise_mul(a, x); c = elemwise_div(b, a); heads c, b";
  TestGraph first(text), second(text);
  EXPECT_EQ(dump(gradientOf(first.context, first, {"x"}, 2).graph),
            dump(gradientOf(second.context, second, {"x"}, 2).graph));
}

TEST(Gradient, CON_05_OrderOfVariablesIsOrderOfHeads) {
  TestGraph g("z = elemwise_mul(a, b)");
  EXPECT_EQ(backward(g, {"b", "a"}), "_head_grad_0 = ones_like(z)\n"
                                     "z_backward = _backward_mul(_head_grad_0, a, b) ^z\n"
                                     "heads z_backward:1, z_backward\n");
}

TEST(Gradient, CON_06_ForwardGraphStaysAsItWas) {
  TestGraph g("a = exp(x); y = elemwise_mul(a, x)");
  std::string before = dump(g);
  std::string once = dump(gradientOf(g.context, g, {"x"}, 1).graph);
  EXPECT_EQ(dump(g), before);
  EXPECT_EQ(dump(gradientOf(g.context, g, {"x"}, 1).graph), once);
}

TEST(Gradient, CON_08_DiamondDifferentiatesSharedNodeOnce) {
  TestGraph g("b = exp(a); c = test_sine(b); d = test_cosine(b); y = elemwise_add(c, d)");
  GradientResult result = gradientOf(g.context, g, {"a"}, 1);
  EXPECT_EQ(countOps(result.graph, "add_n"), 1u);
  EXPECT_EQ(result.graph.name(NodeId(result.graph.numNodes() - 1)), "b_backward");
}

TEST(Gradient, CON_08_LadderOfDiamondsIsLinear) {
  auto ladder = [](int depth) {
    std::string text = "b0 = exp(x);";
    for (int i = 0; i < depth; ++i) {
      std::string from = "b" + std::to_string(i), k = std::to_string(i);
      text += "c" + k + " = negative(" + from + "); d" + k + " = exp(" + from + "); b" + std::to_string(i + 1) +
              " = elemwise_add(c" + k + ", d" + k + ");";
    }
    TestGraph g(text);
    return gradientOf(g.context, g, {"x"}, 1).stats.numGenerated;
  };
  EXPECT_EQ(ladder(40) - ladder(20), ladder(20) - ladder(0));
}

TEST(Gradient, H_02_GapsAloneAreFilled) {
  TestGraph g("x = var {__shape__=(3,5)}; h1 = var; h2 = var; s = test_split3(x); k = elemwise_add(h1, h2);"
              "heads s, s:1, s:2, k");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("s"), std::nullopt, ""}, {g.at("s:1"), g.at("h1"), ""}, {g.at("s:2"), g.at("h2"), ""}};
  Array up(std::vector<int64_t>{1, 5}, {1, 2, 3, 4, 5}), down(std::vector<int64_t>{1, 5}, {5, 4, 3, 2, 1});
  Bindings bindings{{"x", Array(std::vector<int64_t>{3, 5}, Numbers(15, 1))}, {"h1", up}, {"h2", down}};
  EXPECT_EQ(gradientsFor(g, request, bindings), (Numbers{1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1}));
}

TEST(Gradient, H_05_SeveralOutputsSum) {
  TestGraph g(
      "gy = var; gz = var; y = elemwise_mul(x, x); z = elemwise_mul(y, y); k = elemwise_add(gy, gz); heads y, z, k");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), g.at("gy"), ""}, {g.at("z"), g.at("gz"), ""}};
  EXPECT_EQ(gradientsFor(g, request, {{"x", Array(2.0)}, {"gy", Array(3.0)}, {"gz", Array(5.0)}}), Numbers{172});
}

TEST(Gradient, H_06_V_08_SameOutputTwiceAddsUp) {
  TestGraph g("h1 = var; h2 = var; y = _mul_scalar(x) {scalar=3}; k = elemwise_add(h1, h2); heads y, k");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), g.at("h1"), ""}, {g.at("y"), g.at("h2"), ""}};
  EXPECT_EQ(gradientsFor(g, request, {{"x", Array(2.0)}, {"h1", Array(1.0)}, {"h2", Array(10.0)}}), Numbers{33});
}

TEST(Gradient, H_07_OutputIsVariable) {
  TestGraph g("x = var; y = _plus_scalar(x) {scalar=1}");
  auto with = [&](std::vector<StringRef> ys, StringRef x) {
    GradientRequest request = wrt(g, {x});
    for (StringRef y : ys) request.heads.push_back({g.at(y), std::nullopt, ""});
    return gradientsFor(g, request, {{"x", Array(7.0)}});
  };
  EXPECT_EQ(with({"x"}, "x"), Numbers{1});
  EXPECT_EQ(with({"y", "x"}, "x"), Numbers{2});
  EXPECT_EQ(with({"x", "y"}, "y"), Numbers{1});
}

TEST(Gradient, H_08_V_09_ASK_23_OutputIsAncestorOfAnother) {
  TestGraph g("c = elemwise_add(a, b); d = elemwise_add(c, c); e = elemwise_add(d, d); heads e, c, d");
  EXPECT_EQ(gradients(g, {"a", "b"}, {{"a", Array(1.0)}, {"b", Array(2.0)}}), (Numbers{7, 7}));
}

TEST(Gradient, H_09_OutputThatIsVariableCausesNoNode) {
  TestGraph g("x = var; w = var; y = exp(x); heads y, w");
  EXPECT_EQ(backward(g, {"x"}), "_head_grad_0 = ones_like(y)\n"
                                "y_backward = elemwise_mul(_head_grad_0, y)\n"
                                "heads y_backward\n");
}

TEST(Gradient, H_11_UnusedHeadVariableIsListedButAbsent) {
  TestGraph g("x = var; w = var; y = exp(x); z = exp(w); heads y, z");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Input;
  Expected<GradientResult> result = buildGradient(g.context, g, wrt(g, {"x"}), options);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(result->seedNames, (std::vector<std::string>{"_head_grad_0", "_head_grad_1"}));
  EXPECT_EQ(dumpFrom(result->graph, 4, 2), "_head_grad_0_id = _identity_with_attr_like_rhs(_head_grad_0, y)\n"
                                           "y_backward = elemwise_mul(_head_grad_0_id, y)\n"
                                           "heads y_backward\n");
  Expected<std::optional<GradientTable>> table = readGradientTable(result->graph);
  ASSERT_TRUE(table && *table);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ((*table)->headGradOf, (Pairs{{"_head_grad_0", "y_output"}, {"_head_grad_1", "z_output"}}));
}

TEST(Gradient, H_14_HeadGradientMayBeAnyEntry) {
  TestGraph g("y = exp(x); g = exp(h); heads y, g");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), g.at("g"), ""}};
  Expected<GradientResult> result = buildGradient(g.context, g, request, GradientOptions());
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(dumpFrom(result->graph, 4, 2), "y_backward = elemwise_mul(g, y)\nheads y_backward\n");
}

TEST(Gradient, COPY_01_V_04_SharedGradientIsCopiedForTheSecond) {
  TestGraph g("z = elemwise_add(a, b)");
  EXPECT_EQ(backward(g, {"a", "b"}), "_head_grad_0 = ones_like(z)\n"
                                     "_head_grad_0_1_copy = _copy(_head_grad_0)\n"
                                     "heads _head_grad_0, _head_grad_0_1_copy\n");
  EXPECT_EQ(gradients(g, {"b", "a"}, {{"a", Array(1.0)}, {"b", Array(2.0)}}), (Numbers{1, 1}));
}

TEST(Gradient, COPY_03_V_03_BareHeadVariableIsCopied) {
  TestGraph g("x = var; h = var; heads x, h");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("x"), g.at("h"), ""}};
  Expected<GradientResult> result = buildGradient(g.context, g, request, GradientOptions());
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(dumpFrom(result->graph, 2, 2), "h_1_copy = _copy(h)\nheads h_1_copy\n");
}

TEST(Gradient, COPY_04_V_07_SameVariableTwice) {
  TestGraph g("y = elemwise_mul(x, x)");
  EXPECT_EQ(gradients(g, {"x", "x"}, {{"x", Array(3.0)}}), (Numbers{6, 6}));
  EXPECT_EQ(countOps(gradientOf(g.context, g, {"x", "x"}, 1).graph, "_copy"), 1u);
}

TEST(Gradient, COPY_06_NoTwoHeadsShareAnEntry) {
  TestGraph g("z = elemwise_add(a, b); w = elemwise_add(z, c)");
  Graph graph = gradientOf(g.context, g, {"a", "b", "c", "a"}, 1).graph;
  std::vector<uint32_t> entries;
  for (Value head : graph.heads()) entries.push_back(graph.entry(head).value);
  std::sort(entries.begin(), entries.end());
  EXPECT_EQ(std::adjacent_find(entries.begin(), entries.end()), entries.end());
}

TEST(Gradient, IR_19_ForwardIdsStayAndBackwardNodesFollowTheirForwardNode) {
  TestGraph g("a = relu(x); s = test_split3(a); y = elemwise_mul(s, s:1); heads y, a");
  GradientResult result = gradientOf(g.context, g, {"x", "s"}, 2);
  for (uint32_t n = 0; n < g.graph.numNodes(); ++n) EXPECT_EQ(result.graph.name(NodeId(n)), g.graph.name(NodeId(n)));
  size_t fused = 0;
  for (uint32_t n = g.graph.numNodes(); n < result.graph.numNodes(); ++n) {
    if (!result.graph.op(NodeId(n))->flags.isBackward) continue;
    ++fused;
    ASSERT_FALSE(result.graph.controlDeps(NodeId(n)).empty());
    EXPECT_LT(result.graph.controlDeps(NodeId(n))[0], NodeId(n));
  }
  EXPECT_GT(fused, 2u);
}

TEST(Gradient, IR_20_ForwardEntriesIncludeOutputsThatAreNoHeads) {
  TestGraph g("s = test_split3(x)");
  GradientStats stats = gradientOf(g.context, g, {"x"}, 1).stats;
  EXPECT_EQ(stats.numForwardNodes, 2u);
  EXPECT_EQ(stats.numForwardEntries, 4u);
}

TEST(Gradient, IR_02_VersionsOfAVariableShareOneGradient) {
  TestGraph g("y = elemwise_mul(v, v@1)");
  EXPECT_EQ(gradients(g, {"v"}, {{"v", Array(3.0)}}), Numbers{6});
}

TEST(Gradient, EveryGeneratedNodeHasItsOrigin) {
  TestGraph g("a = relu(x); b = relu(x); y = elemwise_mul(a, b)");
  GradientResult result = gradientOf(g.context, g, {"x"}, 3);
  for (uint32_t n = 0; n < result.graph.numNodes(); ++n) {
    bool isForward = n < g.graph.numNodes();
    EXPECT_EQ(result.graph.origin(NodeId(n)).isValid(), !isForward) << n;
    if (isForward) continue;
    EXPECT_LT(result.graph.origin(NodeId(n)).value, g.graph.numNodes());
  }
}

struct Vector {
  const char *id, *graph;
  std::vector<StringRef> xs;
  Bindings bindings;
  Numbers expected;
};

TEST(Gradient, V_01_to_V_14_Values) {
  const Vector vectors[] = {
      {"V-01",
       "c = elemwise_add(a, b); d = elemwise_mul(a, c)",
       {"a", "b"},
       {{"a", Array(1.0)}, {"b", Array(2.0)}},
       {4, 1}},
      {"V-05", "z = elemwise_add(a, a)", {"a"}, {{"a", Array(1.0)}}, {2}},
      {"V-06", "y = elemwise_mul(x, x)", {"x"}, {{"x", Array(3.0)}}, {6}},
      {"V-10, XS-09",
       "a = _mul_scalar(x) {scalar=2}; y = elemwise_mul(a, a)",
       {"x", "a"},
       {{"x", Array(3.0)}},
       {24, 12}},
      {"V-11, ZERO-06", "s = test_split3(x); y = _mul_scalar(s) {scalar=2}", {"x"}, {{"x", {{1, 1, 1}}}}, {2, 0, 0}},
      {"V-14, STOP-01",
       "c = _mul_scalar(b) {scalar=3}; d = BlockGrad(c); y = elemwise_add(a, d)",
       {"a", "b"},
       {{"a", Array(1.0)}, {"b", Array(2.0)}},
       {1, 0}},
      {"V-29",
       "s = broadcast_add(x, b); y = sum(s)",
       {"x", "b"},
       {{"x", Array(std::vector<int64_t>{3, 1}, {1, 2, 3})}, {"b", Array(std::vector<int64_t>{1, 4}, {1, 2, 3, 4})}},
       {4, 4, 4, 3, 3, 3, 3}},
  };
  for (const Vector &v : vectors) {
    TestGraph g(v.graph);
    EXPECT_EQ(gradients(g, v.xs, v.bindings), v.expected) << v.id;
  }
}

TEST(Gradient, V_12_MO_03_HeadsLandOnTheirOwnOutput) {
  TestGraph g("h2 = var; h0 = var; s = test_split3(x); k = elemwise_add(h2, h0); heads s, k");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("s:2"), g.at("h2"), ""}, {g.at("s"), g.at("h0"), ""}};
  Bindings bindings{{"x", Array({1.0, 1.0, 1.0})}, {"h2", Array(Numbers{5})}, {"h0", Array(Numbers{7})}};
  EXPECT_EQ(gradientsFor(g, request, bindings), (Numbers{7, 0, 5}));
}

TEST(Gradient, V_15_STOP_02_MakeLossIgnoresItsHead) {
  TestGraph g("h = var; q = elemwise_mul(x, x); y = make_loss(q); heads y, h");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), g.at("h"), ""}};
  EXPECT_EQ(gradientsFor(g, request, {{"x", Array(3.0)}, {"h", Array(10.0)}}), Numbers{6});
}

TEST(Gradient, V_28_GradientHasTheTypeOfTheVariable) {
  TestGraph g("x = var {__dtype__=float16, __shape__=(2,)}; c = test_cast(x) {dtype=float32}; y = square(c)");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  Expected<Inference> inference = infer(g.context, result.graph, {}, {});
  ASSERT_TRUE(bool(inference)) << describeError(inference.takeError());
  EXPECT_EQ(inference->dtype[result.graph.entry(result.wrt[0].value)], DType::Float16);
}

TEST(Gradient, MO_01_RuleSeesAPlaceholderForTheHiddenOutput) {
  TestGraph g("y = test_square(x)");
  EXPECT_EQ(backward(g, {"x"}), "_head_grad_0 = ones_like(y)\n"
                                "y_zero_head_1 = _zeros_without_dtype()\n"
                                "y_backward = _backward_test_square(_head_grad_0, y_zero_head_1, y:1) ^y\n"
                                "heads y_backward\n");
  EXPECT_EQ(gradients(g, {"x"}, {{"x", Array(3.0)}}), Numbers{6});
}

TEST(Gradient, MO_02_TwoOutputs) {
  TestGraph g("r = test_ratio(x, y); heads r, r:1");
  EXPECT_EQ(gradients(g, {"x", "y"}, {{"x", Array(3.0)}, {"y", Array(2.0)}}), (Numbers{0.5 + 2, 3 - 0.75}));
}

TEST(Gradient, CD_01_FusedNodeWaitsForItsForwardNode) {
  TestGraph g("y = relu(x)");
  EXPECT_EQ(backward(g, {"x"}), "_head_grad_0 = ones_like(y)\n"
                                "y_backward = _backward_relu(_head_grad_0, y) ^y\n"
                                "heads y_backward\n");
}

TEST(Gradient, CD_02_UsersControlDependenciesAreKept) {
  TestGraph g("a = exp(w); y = exp(x) ^a");
  EXPECT_EQ(dump(gradientOf(g.context, g, {"x"}, 1).graph), "a = exp(w)\n"
                                                            "y = exp(x) ^a\n"
                                                            "_head_grad_0 = ones_like(y)\n"
                                                            "y_backward = elemwise_mul(_head_grad_0, y)\n"
                                                            "heads y, y_backward\n");
}

TEST(Gradient, CD_03_ZERO_02_ControlDependencyCarriesNoGradient) {
  TestGraph g("a = test_part(w); y = exp(x) ^a");
  EXPECT_EQ(gradients(g, {"x"}, {{"x", Array(0.0)}, {"w", Array(1.0)}}), Numbers{1});
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  Expected<GradientResult> result = buildGradient(g.context, g, wrt(g, {"w"}), options);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(result->wrt[0].status, SlotStatus::None);
}

TEST(Gradient, P_05_ControlOnlyVariableGetsZerosOnRequest) {
  TestGraph g("a = exp(w); y = exp(x) ^a");
  GradientOptions options;
  options.controlOnly = ControlOnlyPolicy::Zeros;
  Expected<GradientResult> result = buildGradient(g.context, g, wrt(g, {"w"}), options);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(dumpFrom(result->graph, 4, 1), "w_zero_grad = zeros_like(w)\nheads w_zero_grad\n");
}

}  // namespace
}  // namespace gradc
