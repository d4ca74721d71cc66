// Which variables get gradients, and where the gradient stops: §7 unused and intermediate variables, §8 cuts and stops,
// §9 retained intermediates, §10 requests, §12 mutable inputs.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

Expected<GradientResult> build(TestGraph &g, const GradientRequest &request, UnusedPolicy unused) {
  GradientOptions options;
  options.unused = unused;
  options.gradientOnly = true;
  return buildGradient(g.context, g, request, options);
}

Numbers valuesOf(TestGraph &g, const GradientRequest &request, const Bindings &bindings) {
  Expected<GradientResult> result = build(g, request, UnusedPolicy::Error);
  EXPECT_TRUE(bool(result)) << describeError(result.takeError());
  Numbers list;
  for (const Array &array : evaluate(result->graph, bindings))
    list.insert(list.end(), array.values.begin(), array.values.end());
  return list;
}

TEST(GradientSelect, XS_01_OtherOutputOfAReachedNodeGetsZeros) {
  TestGraph g("s = test_split3(x); y = exp(s)");
  EXPECT_EQ(valuesOf(g, wrt(g, {"s:1"}), {{"x", Array(Numbers{0, 1, 2})}}), Numbers{0});
}

TEST(GradientSelect, XS_02_E_01_V_16_UnusedVariableIsAnError) {
  TestGraph g("x = var; w = var; y = _plus_scalar(x) {scalar=1}; z = exp(w); heads y, z");
  GradientRequest request = wrt(g, {"x", "w"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  EXPECT_EQ(describeError(build(g, request, UnusedPolicy::Error)),
            "[unreachable] x number 2, 'w', is not reached from any output that is differentiated");
}

TEST(GradientSelect, XS_03_V_16_ASK_16_NoneKeepsPositionsAndZerosFillThem) {
  TestGraph g("x = var; w = var; y = _plus_scalar(x) {scalar=1}; z = exp(w); heads y, z");
  GradientRequest request = wrt(g, {"w", "x"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  Expected<GradientResult> none = build(g, request, UnusedPolicy::None);
  ASSERT_TRUE(bool(none));
  ASSERT_EQ(none->wrt.size(), 2u);
  EXPECT_EQ(none->wrt[0].status, SlotStatus::None);
  EXPECT_FALSE(none->wrt[0].value.isValid());
  EXPECT_EQ(none->wrt[1].status, SlotStatus::Grad);
  Expected<GradientResult> zeros = build(g, request, UnusedPolicy::Zeros);
  ASSERT_TRUE(bool(zeros));
  EXPECT_EQ(zeros->wrt[0].status, SlotStatus::Zeros);
  std::vector<Array> values = evaluate(zeros->graph, {{"x", Array(5.0)}, {"w", Array(6.0)}});
  EXPECT_EQ(values[0].values, Numbers{0});
  EXPECT_EQ(values[1].values, Numbers{1});
}

TEST(GradientSelect, XS_08_V_13_SiblingOutputsAsVariables) {
  TestGraph g("s = test_split3(x); b = _mul_scalar(s:1) {scalar=2}; y = elemwise_add(s, b)");
  Expected<GradientResult> result = build(g, wrt(g, {"s", "s:1"}), UnusedPolicy::Error);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(countOps(result->graph, "_backward_test_split3"), 0u);
  EXPECT_EQ(valuesOf(g, wrt(g, {"s", "s:1"}), {{"x", Array(Numbers{1, 2, 3})}}), (Numbers{1, 2}));
}

TEST(GradientSelect, XS_08_SiblingsTogetherWithTheirSource) {
  TestGraph g("s = test_split3(x); b = _mul_scalar(s:1) {scalar=2}; y = elemwise_add(s, b)");
  EXPECT_EQ(valuesOf(g, wrt(g, {"x", "s", "s:1"}), {{"x", Array(Numbers{1, 2, 3})}}), (Numbers{1, 2, 0, 1, 2}));
}

TEST(GradientSelect, XS_10_NothingAboveTheTopmostVariable) {
  TestGraph g("a = exp(x); b = relu(a); c = tanh(b); y = sigmoid(c)");
  Expected<GradientResult> result = build(g, wrt(g, {"c"}), UnusedPolicy::Error);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(result->stats.numGenerated, 2u);
}

TEST(GradientSelect, P_06_V_26_OperatorWithoutGradientOffThePath) {
  TestGraph g("p = test_part(w); y = elemwise_add(p, x)");
  EXPECT_EQ(valuesOf(g, wrt(g, {"x"}), {{"x", Array(1.0)}, {"w", Array(1.0)}}), Numbers{1});
  GradientOptions options;
  options.reach = ReachPolicy::WholeGraph;
  EXPECT_EQ(describeError(buildGradient(g.context, g, wrt(g, {"x"}), options)),
            "[not_differentiable] operator 'test_part' of node 'p' has no gradient registered, and the gradient passes "
            "through it");
}

TEST(GradientSelect, P_09_IntegersStopTheGradient) {
  TestGraph g("i = test_cast(x) {dtype=int32}; f = test_cast(i) {dtype=float32}; y = elemwise_add(f, x)");
  Expected<Inference> inference = infer(g.context, g, {{{g.at("x").node, {2}}}, {}}, {});
  ASSERT_TRUE(bool(inference)) << describeError(inference.takeError());
  GradientOptions options;
  options.inference = &*inference;
  Expected<GradientResult> result = buildGradient(g.context, g, wrt(g, {"x"}), options);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(dumpFrom(result->graph, 4, 1), "_head_grad_0 = ones_like(y)\nheads _head_grad_0\n");
  options.integers = IntegerPolicy::Permissive;
  result = buildGradient(g.context, g, wrt(g, {"x"}), options);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(countOps(result->graph, "_backward_test_cast"), 2u);
}

TEST(GradientCuts, NG_04_V_18_CutEdgesKeepValues) {
  TestGraph g("y1 = relu(x); y2 = relu(x); s = elemwise_add(y1, y2); q = square(s); w = mean(q)");
  Bindings bindings{{"x", Array(Numbers{2, -1})}};
  GradientRequest request = wrt(g, {"x"});
  EXPECT_EQ(valuesOf(g, request, bindings), (Numbers{8, 0}));
  request.noGrad = {g.at("y2")};
  EXPECT_EQ(valuesOf(g, request, bindings), (Numbers{4, 0}));
}

TEST(GradientCuts, NG_05_SiblingOutputsStillFlow) {
  TestGraph g("s = test_split3(x); a = elemwise_mul(s, s:1); y = elemwise_mul(a, s:2)");
  GradientRequest request = wrt(g, {"x"});
  request.noGrad = {g.at("s:1")};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(Numbers{2, 3, 5})}}), (Numbers{15, 0, 6}));
}

TEST(GradientCuts, NG_06_VariableInTheCutSetIsUnconnected) {
  TestGraph g("y = exp(x)");
  GradientRequest request = wrt(g, {"x"});
  request.noGrad = {g.at("x")};
  EXPECT_EQ(describeError(build(g, request, UnusedPolicy::Error)),
            "[unreachable] x number 1, 'x', is not reached from any output that is differentiated");
  Expected<GradientResult> zeros = build(g, request, UnusedPolicy::Zeros);
  ASSERT_TRUE(bool(zeros));
  EXPECT_EQ(zeros->wrt[0].status, SlotStatus::Zeros);
}

TEST(GradientCuts, NG_04_CutOutputPassesNothing) {
  TestGraph g("y = exp(x); z = _mul_scalar(x) {scalar=3}; heads y, z");
  GradientRequest request = wrt(g, {"x"});
  request.noGrad = {g.at("y")};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(0.0)}}), Numbers{3});
}

TEST(GradientCuts, STOP_03_StoppedOutputKeepsItsOwnGradient) {
  TestGraph g("y = exp(x); z = _mul_scalar(x) {scalar=3}; heads y, z");
  GradientRequest request = wrt(g, {"x", "y"});
  request.stop = {g.at("y")};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(0.0)}}), (Numbers{3, 1}));
}

TEST(GradientCuts, NG_10_CutsNeverAddNodes) {
  TestGraph g("a = exp(x); b = exp(w); y = elemwise_mul(a, b)");
  GradientRequest request = wrt(g, {"x", "w"});
  uint32_t all = cantFail(build(g, request, UnusedPolicy::Error)).graph.numNodes();
  request.noGrad = {g.at("w")};
  EXPECT_LT(cantFail(build(g, request, UnusedPolicy::None)).graph.numNodes(), all);
}

TEST(GradientCuts, STOP_01_BlockGradStaysZeroAtHigherOrders) {
  TestGraph g("c = elemwise_mul(b, b); d = BlockGrad(c); y = elemwise_mul(a, d)");
  Bindings bindings{{"a", Array(2.0)}, {"b", Array(3.0)}};
  for (uint32_t order : {1u, 2u, 3u})
    EXPECT_EQ(gradientValues(g.context, g, {"b"}, bindings, order)[0].values, Numbers{0}) << order;
}

TEST(GradientCuts, NG_07_WhatOnlyCutsReachIsUnused) {
  TestGraph g("a = exp(x); y = elemwise_mul(a, w)");
  GradientRequest request = wrt(g, {"x", "w"});
  request.noGrad = {g.at("a")};
  GradientResult result = cantFail(build(g, request, UnusedPolicy::None));
  EXPECT_EQ(result.wrt[0].status, SlotStatus::None);
  EXPECT_EQ(result.wrt[1].status, SlotStatus::Grad);
  EXPECT_EQ(describeError(build(g, request, UnusedPolicy::Error)).substr(0, 13), "[unreachable]");
}

TEST(GradientCuts, STOP_03_ListedEntriesAreConstants) {
  TestGraph g("a = _mul_scalar(x) {scalar=2}; y = elemwise_add(a, x)");
  GradientRequest request = wrt(g, {"x", "a"});
  request.stop = {g.at("a")};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(1.0)}}), (Numbers{1, 1}));
}

TEST(GradientCuts, STOP_03_StoppedEntryReceivesThroughSeveralReaders) {
  TestGraph g("a = _mul_scalar(x) {scalar=2}; b = square(a); y = _mul_scalar(b) {scalar=5}");
  GradientRequest request = wrt(g, {"x", "a"});
  request.stop = {g.at("a")};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(3.0)}}), (Numbers{0, 60}));
  request.stop = {g.at("x")};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(3.0)}}), (Numbers{120, 60}));
}

TEST(GradientRetained, NL_01_NL_06_IntermediatesAsIfAskedFor) {
  TestGraph g("s = test_split3(x); a = elemwise_mul(s, s:1); y = elemwise_mul(a, s:2)");
  GradientRequest request = wrt(g, {"x"});
  request.retained = {{g.at("s:1"), Request::Write}, {g.at("a"), Request::Write}};
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(Numbers{2, 3, 5})}}), (Numbers{15, 10, 6, 10, 5}));
}

TEST(GradientRetained, NL_02_WithoutContributionItIsZeros) {
  TestGraph g("s = test_split3(x); y = exp(s)");
  GradientRequest request = wrt(g, {"x"});
  request.retained = {{g.at("s:2"), Request::Write}};
  Expected<GradientResult> result = build(g, request, UnusedPolicy::Error);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(result->retained[0].status, SlotStatus::Grad);
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(Numbers{0, 3, 5})}}), (Numbers{1, 0, 0, 0}));
}

TEST(GradientRetained, NL_02_OffThePathItIsZerosToo) {
  TestGraph g("x = var; y = exp(x); z = tanh(x); heads y, z");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  request.retained = {{g.at("z"), Request::Write}};
  Expected<GradientResult> result = build(g, request, UnusedPolicy::None);
  ASSERT_TRUE(bool(result)) << describeError(result.takeError());
  EXPECT_EQ(result->retained[0].status, SlotStatus::Grad);
  EXPECT_EQ(valuesOf(g, request, {{"x", Array(Numbers{0})}}), (Numbers{1, 0}));
}

TEST(GradientRetained, NL_03_Values) {
  TestGraph g("u = elemwise_mul(x, y); z = elemwise_mul(u, x); k = exp(h); heads z, k");
  GradientRequest request = wrt(g, {"x", "y"});
  request.heads = {{g.at("z"), g.at("h"), ""}};
  request.retained = {{g.at("u"), Request::Write}, {g.at("z"), Request::Write}};
  Bindings bindings{{"x", Array(2.0)}, {"y", Array(5.0)}, {"h", Array(10.0)}};
  EXPECT_EQ(valuesOf(g, request, bindings), (Numbers{20 * 2 * 5, 10 * 4, 10 * 2, 10}));
}

TEST(GradientRequests, REQ_02_NullRequestDropsWhatServesItAlone) {
  TestGraph g("a = exp(x); b = relu(w); y = elemwise_mul(a, b)");
  GradientRequest request = wrt(g, {"x", "w"});
  request.wrt[1].request = Request::Null;
  Expected<GradientResult> result = build(g, request, UnusedPolicy::Error);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(countOps(result->graph, "_backward_relu"), 0u);
}

TEST(GradientRequests, REQ_08_MixedRequestsAreRecorded) {
  TestGraph g("y = elemwise_mul(a, b); z = elemwise_mul(y, c)");
  GradientRequest request = wrt(g, {"a", "b", "c"});
  request.wrt[1].request = Request::Null;
  request.wrt[2].request = Request::Add;
  Expected<GradientResult> result = build(g, request, UnusedPolicy::Error);
  ASSERT_TRUE(bool(result));
  Expected<std::optional<GradientTable>> table = readGradientTable(result->graph);
  ASSERT_TRUE(table && *table);
  ASSERT_EQ((*table)->heads.size(), 2u);
  EXPECT_EQ((*table)->heads[0].of, "a");
  EXPECT_EQ((*table)->heads[0].request, Request::Write);
  EXPECT_EQ((*table)->heads[1].of, "c");
  EXPECT_EQ((*table)->heads[1].request, Request::Add);
}

TEST(GradientAux, MUT_01_AuxStatesAreNoTargets) {
  TestGraph g("y = test_accumulate(x, state@1)");
  AllTargets all = allTargets(g, nullptr);
  ASSERT_EQ(all.targets.size(), 1u);
  EXPECT_EQ(all.targets[0].x, g.at("x"));
  EXPECT_EQ(valuesOf(g, wrt(g, {"x"}), {{"x", Array(1.0)}, {"state", Array(2.0)}}), Numbers{1});
}

TEST(GradientAux, MUT_02_E_09_GradientOfAnAuxStateIsAnError) {
  TestGraph g("y = test_accumulate(x, state@1)");
  EXPECT_EQ(describeError(build(g, wrt(g, {"state"}), UnusedPolicy::Error)),
            "[aux_x] x number 1, 'state', is an auxiliary state: node 'y' (test_accumulate) overwrites it");
}

TEST(GradientAux, XS_06_AllTargetsNamesWhatItSkips) {
  TestGraph g("i = var {__dtype__=int32}; p = SoftmaxOutput(x, label); q = _copy(i); heads p, q");
  Expected<Inference> inference = infer(g.context, g, {{{g.at("x").node, {2, 3}}, {g.at("i").node, {1}}}, {}}, {});
  ASSERT_TRUE(bool(inference)) << describeError(inference.takeError());
  AllTargets all = allTargets(g, &*inference);
  ASSERT_EQ(all.targets.size(), 1u);
  EXPECT_EQ(all.targets[0].x, g.at("x"));
  EXPECT_EQ(all.skipped, (std::vector<std::string>{"'label' (read only where no gradient flows)", "'i' (int32)"}));
}

}  // namespace
}  // namespace gradc
