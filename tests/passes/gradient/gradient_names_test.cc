// Names of generated nodes (§18).
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// Names of the generated nodes in id order.
std::string generatedNames(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  Expected<GradientResult> result = buildGradient(g.context, g, request, options);
  if (!result) return describeError(result.takeError());
  std::string names;
  for (uint32_t n = g.graph.numNodes(); n < result->graph.numNodes(); ++n)
    names += (names.empty() ? "" : " ") + result->graph.name(NodeId(n)).str();
  return names;
}

TEST(GradientNames, NAME_01_BackwardOfOneNode) {
  TestGraph g("y = relu(x)");
  EXPECT_EQ(generatedNames(g, wrt(g, {"x"}), GradientOptions()), "_head_grad_0 y_backward");
}

TEST(GradientNames, NAME_01_SeveralNodesAreNumbered) {
  TestGraph g("y = test_sine(x)");
  EXPECT_EQ(generatedNames(g, wrt(g, {"x"}), GradientOptions()), "_head_grad_0 y_backward_0 y_backward_1");
}

TEST(GradientNames, NAME_02_HeadVariables) {
  TestGraph g("y = exp(x); z = exp(y); heads y, z");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Input;
  EXPECT_EQ(generatedNames(g, wrt(g, {"x"}), options),
            "_head_grad_0 _head_grad_0_id _head_grad_1 _head_grad_1_id z_backward y_sum_grad y_backward");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("z"), std::nullopt, "dz"}};
  EXPECT_EQ(generatedNames(g, request, GradientOptions()), "dz dz_id z_backward y_backward");
}

TEST(GradientNames, NAME_02_EqualSeedNamesAreOneVariable) {
  TestGraph g("y = exp(x); z = exp(y); heads y, z");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("y"), std::nullopt, "seed"}, {g.at("z"), std::nullopt, "seed"}};
  EXPECT_EQ(generatedNames(g, request, GradientOptions()), "seed seed_id seed_id_1 z_backward y_sum_grad y_backward");
}

TEST(GradientNames, NAME_03_Sums) {
  TestGraph g("a = exp(x); b = exp(x); y = elemwise_add(a, b)");
  EXPECT_EQ(generatedNames(g, wrt(g, {"x"}), GradientOptions()), "_head_grad_0 b_backward a_backward x_sum_grad");
  TestGraph split("s = test_split3(x); a = exp(s:1); b = exp(s:1); y = elemwise_add(a, b)");
  GradientOptions options;
  options.sumCap = 2;
  EXPECT_EQ(generatedNames(split, wrt(split, {"s:1"}), options),
            "_head_grad_0 b_backward a_backward s_sum_grad_out1_1 s_sum_grad_out1_final");
}

TEST(GradientNames, NAME_04_CopiesAreNumberedPerEntry) {
  TestGraph g("y = elemwise_mul(a, b)");
  EXPECT_EQ(generatedNames(g, wrt(g, {"a", "a", "b", "b", "a"}), GradientOptions()),
            "_head_grad_0 y_backward y_backward_1_copy y_backward_1_copy_1 y_backward_2_copy");
  GradientOptions options;
  options.naming = NamingStyle::Mxnet;
  EXPECT_EQ(generatedNames(g, wrt(g, {"a", "a", "b", "b"}), options),
            "_head_grad_0 y_backward y_backward_1_copy y_backward_1_copy");
}

TEST(GradientNames, NAME_09_UniqueByDefault) {
  TestGraph g("a = exp(x); b = exp(x); c = elemwise_mul(a, b); d = elemwise_mul(a, c); y = elemwise_mul(d, x)");
  StringSet<> seen;
  Graph graph = gradientOf(g.context, g, {"x", "x"}, 3).graph;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    EXPECT_TRUE(seen.insert(graph.name(NodeId(n))).second) << graph.name(NodeId(n)).str();
}

TEST(GradientNames, NAME_09_ZerosAskedForTwice) {
  TestGraph g("y = exp(x); w = exp(u); heads y, w");
  GradientRequest request = wrt(g, {"u", "u", "x"});
  request.heads = {{g.at("y"), std::nullopt, ""}};
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  EXPECT_EQ(generatedNames(g, request, options), "u_zero_grad u_zero_grad_1 _head_grad_0 y_backward");
}

TEST(GradientNames, NAME_09_EqualNamesOfUsers) {
  TestContext context;
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs());
  const OpDef &exp = *context.ops.find("exp");
  const NodeId first = cantFail(builder.add(exp, {x}, {"y"}));
  const NodeId second = cantFail(builder.add(exp, {Value{first}}, {"y"}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{second}}, {})).graph;
  GradientRequest request;
  request.wrt = {{Value{NodeId(0)}}};
  request.heads = {{graph.heads()[0], std::nullopt, ""}};
  const Graph gradient = cantFail(buildGradient(context, graph, request, GradientOptions())).graph;
  StringSet<> generated;
  for (uint32_t n = graph.numNodes(); n < gradient.numNodes(); ++n)
    EXPECT_TRUE(generated.insert(gradient.name(NodeId(n))).second) << gradient.name(NodeId(n)).str();
}

TEST(GradientNames, NAME_10_UsersNamesAreNotTaken) {
  TestGraph g("y_backward = exp(x); y = relu(y_backward); x_sum_grad = elemwise_add(y, x)");
  EXPECT_EQ(generatedNames(g, wrt(g, {"x"}), GradientOptions()),
            "_head_grad_0 y_backward_1 y_backward_backward x_sum_grad_1");
  EXPECT_EQ(gradientValues(g.context, g, {"x"}, {{"x", Array(0.0)}}, 1)[0].values, std::vector<double>{2});
}

TEST(GradientNames, NAME_10_CountersThatAreTakenAreSkipped) {
  TestGraph g("y_backward = exp(x); y_backward_1 = relu(y_backward); y = relu(y_backward_1)");
  EXPECT_EQ(generatedNames(g, wrt(g, {"x"}), GradientOptions()),
            "_head_grad_0 y_backward_2 y_backward_1_backward y_backward_backward");
}

}  // namespace
}  // namespace gradc
