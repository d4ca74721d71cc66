// The side table of an emitted graph: what it says, that it reads back, what is refused (CLI-03).
#include "formats/json/graph_table.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "passes/gradient/gradient.h"
#include "passes/gradient/results.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using HeadKind = GradientTable::HeadKind;

GradientTable tableOf(const Graph &graph) {
  Expected<std::optional<GradientTable>> table = readGradientTable(graph);
  EXPECT_TRUE(table && *table);
  return **table;
}

// Of gradients alone: forwardIds says where each node of `forward` went, and there is no forward part (IR-20).
void expectForwardIds(const Graph &forward, const GradientResult &result) {
  EXPECT_EQ(result.stats.numForwardNodes, 0u);
  EXPECT_EQ(result.stats.numForwardEntries, 0u);
  StringSet<> names;
  for (uint32_t n = 0; n < result.graph.numNodes(); ++n) names.insert(result.graph.name(NodeId(n)));
  for (uint32_t n = 0; n < forward.numNodes(); ++n) {
    const NodeId now = result.forwardIds.empty() ? NodeId(n) : result.forwardIds[n];
    EXPECT_EQ(now.isValid(), names.contains(forward.name(NodeId(n)))) << n;
    if (now.isValid()) {
      EXPECT_EQ(result.graph.name(now), forward.name(NodeId(n)));
    }
  }
}

TEST(GradientTable, CLI_03_RowsOfAllKinds) {
  TestGraph g("x = var; w = var; s = test_split3(x); y = exp(s:1); z = exp(w); heads y, z");
  GradientRequest request = wrt(g, {"w", "x"});
  request.heads = {{g.at("y"), std::nullopt, "dy"}};
  request.wrt[1].request = Request::Add;
  request.retained = {{g.at("s:1"), Request::Write}};
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  GradientResult result = cantFail(buildGradient(g.context, g, request, options));
  GradientTable table = tableOf(result.graph);
  ASSERT_EQ(table.heads.size(), 4u);
  EXPECT_EQ(table.numForwardHeads, 2u);
  EXPECT_EQ(table.heads[0].kind, HeadKind::Forward);
  EXPECT_EQ(table.heads[1].kind, HeadKind::Forward);
  const GradientTable::Head &x = table.heads[2], &s = table.heads[3];
  EXPECT_EQ(x.kind, HeadKind::Grad);
  EXPECT_EQ(x.of, "x");
  EXPECT_EQ(x.ofNode, nodeNamed(result.graph, "x"));
  EXPECT_EQ(x.order, 1u);
  EXPECT_EQ(x.request, Request::Add);
  EXPECT_EQ(x.slot, 1);
  EXPECT_EQ(s.kind, HeadKind::Retained);
  EXPECT_EQ(s.of, "s:1");
  EXPECT_EQ(s.ofNode, nodeNamed(result.graph, "s"));
  EXPECT_EQ(s.ofIndex, 1u);
  EXPECT_EQ(s.slot, -1);
  EXPECT_EQ(table.slotStatus, (std::vector<std::string>{"none", "grad"}));
  EXPECT_EQ(table.gradNone, std::vector<std::string>{"w"});
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(table.headGradOf, (Pairs{{"dy", "y_output"}}));
}

TEST(GradientTable, CLI_05_SecondCallKeepsEarlierRows) {
  TestGraph g("y = elemwise_mul(x, x)");
  GradientTable table = tableOf(gradientOf(g.context, g, {"x"}, 2).graph);
  ASSERT_EQ(table.heads.size(), 3u);
  EXPECT_EQ(table.numForwardHeads, 1u);
  EXPECT_EQ(table.heads[0].order, 0u);
  EXPECT_EQ(table.heads[1].order, 1u);
  EXPECT_EQ(table.heads[2].order, 2u);
  EXPECT_EQ(table.heads[2].of, "x");
}

// The order comes from the graph, not from the caller: one more than the highest among the y.
TEST(GradientTable, CLI_05_OrderIsThatOfTheYPlusOne) {
  TestGraph g("h = elemwise_mul(x, x); y = exp(h)");
  GradientRequest request = wrt(g, {"x"});
  request.retained = {{g.at("h"), Request::Write}};
  const Graph first = cantFail(buildGradient(g.context, g, request, {})).graph;
  ASSERT_EQ(first.heads().size(), 3u);
  auto orderOf = [&](std::vector<Value> ys, const Graph &graph) {
    GradientRequest again = wrt(graph, {"x"});
    for (Value y : ys) again.heads.push_back({y, std::nullopt, ""});
    const Graph result = cantFail(buildGradient(g.context, graph, again, {})).graph;
    return std::pair(tableOf(result).heads.back().order, result);
  };
  const Value y = first.heads()[0], dx = first.heads()[1], dh = first.heads()[2];
  EXPECT_EQ(orderOf({dx}, first).first, 2u);
  EXPECT_EQ(orderOf({dh}, first).first, 2u);
  EXPECT_EQ(orderOf({y, dx}, first).first, 2u);
  EXPECT_EQ(orderOf({y}, first).first, 1u) << "a forward head";
  EXPECT_EQ(orderOf({g.at("h")}, first).first, 1u) << "a value of the forward part";
  EXPECT_EQ(orderOf({Value{NodeId(g.graph.numNodes() + 1)}}, first).first, 2u) << "a generated node that is no head";
  const Graph second = orderOf({dx}, first).second;
  EXPECT_EQ(orderOf({second.heads().back()}, second).first, 3u);
  EXPECT_EQ(orderOf({second.heads()[1]}, second).first, 2u);
  EXPECT_EQ(orderOf({second.heads()[0]}, second).first, 1u);
}

// As by `--order 2`: what vanishes identically is zeros, none where that was requested, and no mistake.
TEST(GradientTable, HO_08_CLI_05_VanishingGradientsOfAnEmittedGraph) {
  TestGraph g("y = elemwise_mul(x, a)");
  for (auto [policy, status] :
       {std::pair{UnusedPolicy::Error, "grad"}, {UnusedPolicy::Zeros, "grad"}, {UnusedPolicy::None, "none"}}) {
    const Graph first = gradientOf(g.context, g, {"x"}, 1).graph;
    GradientOptions options;
    options.unused = policy;
    GradientRequest request = wrt(first, {"x"});
    request.heads = {{first.heads()[1], std::nullopt, ""}};
    Expected<GradientResult> second = buildGradient(g.context, first, request, options);
    ASSERT_TRUE(bool(second)) << describeError(second.takeError());
    EXPECT_EQ(tableOf(second->graph).slotStatus, std::vector<std::string>{status});
  }
  // The gradient by w is h · w: no path leads there from x.
  TestGraph apart("h = var; a = exp(x); b = square(w); y = elemwise_add(a, b); heads y, h");
  GradientRequest request = wrt(apart, {"w"});
  request.heads = {{apart.at("y"), apart.at("h"), ""}};
  const Graph first = cantFail(buildGradient(apart.context, apart, request, {})).graph;
  for (auto [policy, status] :
       {std::pair{UnusedPolicy::Error, "zeros"}, {UnusedPolicy::Zeros, "zeros"}, {UnusedPolicy::None, "none"}}) {
    GradientOptions options;
    options.unused = policy;
    GradientRequest again = wrt(first, {"x"});
    again.heads = {{first.heads().back(), std::nullopt, ""}};
    Expected<GradientResult> second = buildGradient(apart.context, first, again, options);
    ASSERT_TRUE(bool(second)) << describeError(second.takeError());
    EXPECT_EQ(tableOf(second->graph).slotStatus, std::vector<std::string>{status});
  }
}

TEST(GradientTable, E_35_MalformedTableIsNotDifferentiated) {
  TestGraph g("y = exp(x)");
  const Graph first = gradientOf(g.context, g, {"x"}, 1).graph;
  GraphAttrs attrs = graphAttrsOf(first);
  attrs.erase("grad_order");
  EXPECT_EQ(describeError(buildGradient(g.context, withGraphAttrs(first, attrs), wrt(first, {"x"}), {})),
            "[graph_attr] graph attribute 'grad_order' is missing or malformed, "
            "expected a list_int with one element per head (2)");
}

TEST(GradientTable, CLI_02_ASK_07_GradientAlone) {
  TestGraph g("y = elemwise_mul(a, x); z = exp(y)");
  for (uint32_t order : {1u, 2u}) {
    GradientOptions options;
    options.gradientOnly = true;
    GradientResult result = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, order));
    GradientTable table = tableOf(result.graph);
    ASSERT_EQ(result.graph.heads().size(), 1u);
    ASSERT_EQ(table.heads.size(), 1u);
    EXPECT_EQ(table.numForwardHeads, 0u);
    expectForwardIds(g, result);
    EXPECT_EQ(table.heads[0].order, order);
    EXPECT_EQ(table.heads[0].ofNode, nodeNamed(result.graph, "x"));
    std::vector<Array> values = evaluate(result.graph, {{"a", Array(2.0)}, {"x", Array(0.0)}});
    EXPECT_EQ(values[0].values, std::vector<double>{order == 1 ? 2.0 : 4.0});
  }
}

// Nodes that no gradient depends on are gone, and the others have moved up.
TEST(GradientTable, CLI_02_GradientAloneOfAPartOfTheGraph) {
  TestGraph g("z = exp(w); a = square(x); y = square(a); heads z, y");
  for (uint32_t order : {1u, 2u}) {
    GradientOptions options;
    options.gradientOnly = true;
    GradientResult result = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, order));
    expectForwardIds(g, result);
    ASSERT_EQ(result.forwardIds.size(), g.graph.numNodes());
    EXPECT_FALSE(result.forwardIds[g.at("z").node.value].isValid());
    EXPECT_EQ(tableOf(result.graph).heads[0].ofNode, result.forwardIds[g.at("x").node.value]);
  }
}

// A head variable comes first in the graph of gradients alone, so the forward ids are not those of the forward graph.
TEST(GradientTable, CLI_02_GradientAloneWithHeadVariable) {
  TestGraph g("e = exp(x); y = elemwise_mul(a, e)");
  for (uint32_t order : {1u, 2u, 3u}) {
    GradientOptions options;
    options.gradientOnly = true;
    options.headPolicy = HeadPolicy::Input;
    GradientResult result = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, order));
    EXPECT_EQ(tableOf(result.graph).heads[0].ofNode, nodeNamed(result.graph, "x"));
    EXPECT_NE(nodeNamed(result.graph, "x"), g.at("x").node);
    expectForwardIds(g, result);
    EXPECT_EQ(result.forwardIds.at(g.at("x").node.value), nodeNamed(result.graph, "x"));
    Bindings bindings{{"a", Array(2.0)}, {"x", Array(0.0)}, {"_head_grad_0", Array(3.0)}};
    EXPECT_EQ(evaluate(result.graph, bindings)[0].values, std::vector<double>{6});
  }
}

TEST(GradientTable, ListsOfTheForwardGraphAreDropped) {
  TestGraph g("x = var {__shape__=(2,)}; y = exp(x)");
  Graph annotated = annotate(g, cantFail(infer(g.context, g, {}, {})));
  GraphAttrs attrs = graphAttrsOf(annotated);
  attrs["mxnet_version"] = GraphAttr::ofInt(10500);
  GradientResult result = gradientOf(g.context, withGraphAttrs(annotated, attrs), {"x"}, 1);
  EXPECT_EQ(graphAttrsOf(result.graph).count("shape"), 0u);
  EXPECT_EQ(graphAttrsOf(result.graph).count("dtype"), 0u);
  EXPECT_EQ(graphAttrsOf(result.graph).at("mxnet_version").number, 10500);
}

TEST(GradientTable, OtherGraphsHaveNone) {
  TestGraph g("y = exp(x)");
  Expected<std::optional<GradientTable>> table = readGradientTable(g);
  ASSERT_TRUE(bool(table));
  EXPECT_FALSE(table->has_value());
}

TEST(GradientTable, IR_18_E_35_MissingAndMalformedAttributesAreNamed) {
  TestGraph g("y = exp(x)");
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  auto with = [&](const char *key, GraphAttr value) {
    GraphAttrs attrs = graphAttrsOf(graph);
    attrs[key] = std::move(value);
    return describeError(readGradientTable(withGraphAttrs(graph, std::move(attrs))));
  };
  const std::string start = "[graph_attr] graph attribute '";
  EXPECT_EQ(with("grad_of", GraphAttr::ofInt(3)),
            start + "grad_of' is missing or malformed, expected a list_str with one element per head (2)");
  EXPECT_EQ(with("head_kind", GraphAttr::ofStrs({"forward", "sideways"})),
            start + "head_kind' is missing or malformed, expected 'forward', 'grad' or 'retained'");
  EXPECT_EQ(with("grad_of_node", GraphAttr::ofInts({-1, 99})),
            start + "grad_of_node' is missing or malformed, expected node ids");
  EXPECT_EQ(with("grad_req", GraphAttr::ofStrs({"write", "maybe"})),
            start + "grad_req' is missing or malformed, expected 'null', 'write' or 'add'");
  EXPECT_EQ(with("head_grad_of", GraphAttr::ofStrs({"alone"})),
            start + "head_grad_of' is missing or malformed, expected a list_str of pairs: variable, output");
  for (const char *key : {"slot_status", "x_slot", "num_forward_heads"}) {
    GraphAttrs attrs = graphAttrsOf(graph);
    attrs.erase(key);
    std::string error = describeError(readGradientTable(withGraphAttrs(graph, std::move(attrs))));
    EXPECT_EQ(error.find(start + key + "' is missing"), 0u) << error;
  }
}

}  // namespace
}  // namespace gradc
