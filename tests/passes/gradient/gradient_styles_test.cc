// Names in the other systems' styles (§18); the default one is in gradient_names_test.cc.
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/naming.h"
#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

GradientResult build(Context &context, const Graph &graph, const GradientRequest &request, GradientOptions options) {
  Expected<GradientResult> result = buildGradient(context, graph, request, options);
  if (!result) report_fatal_error(StringRef(describeError(result.takeError())));
  return std::move(*result);
}

GradientOptions styled(NamingStyle style) {
  GradientOptions options;
  options.naming = style;
  return options;
}

// Names of nodes from `first` on, in id order.
std::string namesFrom(const Graph &graph, uint32_t first) {
  std::string names;
  for (uint32_t n = first; n < graph.numNodes(); ++n) names += (names.empty() ? "" : " ") + graph.name(NodeId(n)).str();
  return names;
}

std::string fluidNames(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  return namesFrom(build(g.context, g, request, options).graph, g.graph.numNodes());
}

const GradientOptions kFluid = styled(NamingStyle::Fluid);

TEST(GradientStyles, NAME_06_OneGradientIsCalledAfterItsVariable) {
  TestGraph g("a = exp(x); y = tanh(a)");
  EXPECT_EQ(fluidNames(g, wrt(g, {"x"}), kFluid), "y@GRAD a@GRAD x@GRAD");
}

TEST(GradientStyles, NAME_06_SummandsAreRenamed) {
  TestGraph g("a = exp(x); b = tanh(x); y = elemwise_mul(a, b)");
  EXPECT_EQ(fluidNames(g, wrt(g, {"x"}), kFluid), "y@GRAD a@GRAD x@GRAD@RENAME@block0@0 x@GRAD@RENAME@block0@1 x@GRAD");
}

TEST(GradientStyles, NAME_06_AdditionsOfAChainAreNumbered) {
  TestGraph g("a = exp(x); b = tanh(x); c = sqrt(x); y = add_n(a, b, c) {num_args=3}");
  GradientOptions options = kFluid;
  options.sumCap = 2;
  StringSet<> names;
  Graph graph = build(g.context, g, wrt(g, {"x"}), options).graph;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) names.insert(graph.name(NodeId(n)));
  for (StringRef name : {"x@GRAD@RENAME@block0@0", "x@GRAD@RENAME@block0@1", "x@GRAD@RENAME@block0@2", "x@GRAD@ADD@1",
                         "x@GRAD@ADD@2", "x@GRAD"})
    EXPECT_TRUE(names.contains(name)) << name.str() << " in " << namesFrom(graph, 0);
}

TEST(GradientStyles, NAME_06_ZerosAndOtherOutputs) {
  TestGraph g("s = test_split3(x); y = exp(s:1)");
  EXPECT_EQ(fluidNames(g, wrt(g, {"x"}), kFluid), "s@ZERO y@GRAD s:1@GRAD s:2@ZERO x@GRAD");
}

TEST(GradientStyles, NAME_06_InnerNodesOfARuleAndUnusedVariables) {
  TestGraph g("y = test_sine(x); z = exp(u); heads y, z");
  GradientRequest request = wrt(g, {"x", "u"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  GradientOptions options = kFluid;
  options.unused = UnusedPolicy::Zeros;
  EXPECT_EQ(fluidNames(g, request, options), "y@GRAD y_backward_0 x@GRAD u@GRAD");
}

TEST(GradientStyles, NAME_06_CopiesAreCalledAfterTheirVariable) {
  TestGraph g("y = elemwise_add(a, b)");
  EXPECT_EQ(fluidNames(g, wrt(g, {"a", "b", "b"}), kFluid), "y@GRAD b@GRAD y_backward_0");
}

TEST(GradientStyles, NAME_06_ValuesDoNotDependOnNames) {
  TestGraph g("a = exp(x); b = tanh(x); y = elemwise_mul(a, b)");
  const Bindings bindings{{"x", Array(0.5)}};
  std::vector<Array> expected = evaluate(build(g.context, g, wrt(g, {"x"}), {}).graph, bindings);
  for (NamingStyle style : {NamingStyle::Mxnet, NamingStyle::Nnvm, NamingStyle::Fluid})
    EXPECT_EQ(evaluate(build(g.context, g, wrt(g, {"x"}), styled(style)).graph, bindings)[1].values,
              expected[1].values);
}

// Three calls on one program were measured to give these.
TEST(GradientStyles, NAME_07_LaterCallsPutGradInFront) {
  TestGraph g("y = exp(x)");
  Graph graph = g;
  std::string last;
  for (int call = 1; call <= 3; ++call) {
    GradientRequest request = wrt(graph, {"x"});
    request.heads = {{g.at("y"), std::nullopt, ""}};
    const uint32_t before = graph.numNodes();
    graph = build(g.context, graph, request, kFluid).graph;
    last = namesFrom(graph, before);
    EXPECT_EQ(last, call == 1   ? "y@GRAD x@GRAD"
                    : call == 2 ? "grad/grad/y@GRAD grad/grad/x@GRAD"
                                : "grad/grad/grad/y@GRAD grad/grad/grad/x@GRAD");
  }
}

TEST(GradientStyles, NAME_07_HigherOrdersAreLaterCalls) {
  TestGraph g("y = exp(x)");
  Expected<GradientResult> result = buildGradientOfOrder(g.context, g, wrt(g, {"x"}), kFluid, 3);
  ASSERT_TRUE(bool(result)) << describeError(result.takeError());
  StringSet<> names;
  for (uint32_t n = 0; n < result->graph.numNodes(); ++n)
    EXPECT_TRUE(names.insert(result->graph.name(NodeId(n))).second) << result->graph.name(NodeId(n)).str();
  for (StringRef name : {"x@GRAD", "grad/grad/x@GRAD", "grad/grad/grad/x@GRAD", "x@GRAD@GRAD"})
    EXPECT_TRUE(names.contains(name)) << name.str() << " in " << namesFrom(result->graph, 0);
}

TEST(GradientStyles, NAME_07_UsersNamesStay) {
  TestGraph h("y = exp(x)");
  GradientRequest request = wrt(h, {"x"});
  request.heads = {{h.at("y"), std::nullopt, "x@GRAD"}};
  EXPECT_EQ(fluidNames(h, request, kFluid), "x@GRAD y@GRAD grad/grad/x@GRAD");
}

// One prefix more for each would take cubic time.
TEST(GradientStyles, NAME_07_ManyEqualNamesAreNumbered) {
  gradc::testing::TestContext context;
  GraphBuilder builder(context);
  GradientRequest request;
  SmallVector<Value, 32> heads;
  for (int i = 0; i < 30; ++i) {
    request.wrt.push_back({builder.addVariable("x", Attrs())});
    const Value x = request.wrt.back().x;
    heads.push_back(Value{cantFail(builder.add(*context.ops.find("elemwise_mul"), {x, x}, {"y", Attrs(), NodeId()}))});
  }
  const Frozen forward = cantFail(std::move(builder).freeze(heads, {}));
  for (GradientTarget &target : request.wrt) target.x = forward(target.x);
  const Graph graph = build(context, forward.graph, request, kFluid).graph;
  StringSet<> names;
  for (uint32_t n = forward.graph.numNodes(); n < graph.numNodes(); ++n) {
    const StringRef name = graph.name(NodeId(n));
    EXPECT_TRUE(names.insert(name).second) << name.str();
    EXPECT_LT(name.size(), 120u) << name.str();
    EXPECT_TRUE(!name.contains("@GRAD") || is_contained({"x", "y"}, stripGradSuffix(name))) << name.str();
  }
}

TEST(GradientStyles, NAME_08_StrippingGivesTheVariable) {
  for (auto [name, variable] : {std::pair{"x@GRAD", "x"},
                                {"x@GRAD@GRAD", "x"},
                                {"y@GRAD@RENAME@1", "y"},
                                {"z@GRAD_slice_0@GRAD", "z@GRAD_slice_0"},
                                {"grad/grad/x@GRAD@RENAME@block0@1@GRAD", "x"},
                                {"grad/x", "x"},
                                {"x", "x"},
                                {"a/grad/x@GRAD", "a/grad/x"}})
    EXPECT_EQ(stripGradSuffix(name), variable) << name;
}

TEST(GradientStyles, NAME_03_SumsInTheOtherStyles) {
  TestGraph g("a = exp(x); b = tanh(x); y = elemwise_mul(a, b)");
  EXPECT_EQ(fluidNames(g, wrt(g, {"x"}), styled(NamingStyle::Mxnet)),
            "_head_grad_0 y_backward b_backward a_backward sum_grad");
  EXPECT_EQ(fluidNames(g, wrt(g, {"x"}), styled(NamingStyle::Nnvm)),
            "_head_grad_0 y_backward b_backward a_backward grad_sum");
  GradientOptions options = styled(NamingStyle::Mxnet);
  options.sumCap = 2;
  EXPECT_EQ(fluidNames(g, wrt(g, {"x"}), options),
            "_head_grad_0 y_backward b_backward a_backward sum_grad_1 sum_grad_final");
}

}  // namespace
}  // namespace gradc
