// Graph-level attributes follow the nodes and entries they are about, or go.
#include "ir/graph_attrs.h"

#include "ir/json_reader.h"
#include "passes/append_optimizer.h"
#include "passes/gradient.h"
#include "passes/targets/lower_to.h"
#include "passes/order_mutation.h"
#include "tests/support/naive.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

Graph withAttrs(const Graph &graph, GraphAttrs attrs) { return graph.withGraphAttrs(std::move(attrs)); }

Ints intsOf(const Graph &graph, const std::string &key) {
  auto at = graph.graphAttrs().find(key);
  return at == graph.graphAttrs().end() ? Ints{-99} : at->second.numbers;
}

// Old node 1 is dropped, 0 and 2 trade places; 2 has two outputs.
TEST(GraphAttrs, ListsOverNodesAndEntriesArePermuted) {
  TestGraph g("x = var; s = SliceChannel(x) {num_outputs=2}; heads s, s:1");
  const std::vector<NodeId> newId = {NodeId(1), NodeId(), NodeId(0)};
  GraphAttrs attrs;
  attrs["storage_id"] = GraphAttr::ofInts({70, 71, 80, 90});
  attrs["device"] = GraphAttr::ofStrs({"first", "gone", "last"});
  attrs["two"] = GraphAttr::ofInts({1, 2});
  attrs["update_of"] = GraphAttr::ofStrs({"a", "b", "c"});
  const std::vector<uint32_t> begin = {0, 2, 3, 4};
  EXPECT_TRUE(renumberGraphAttrs(attrs, {newId, begin}, g).empty());
  EXPECT_EQ(attrs["storage_id"].numbers, (Ints{90, 70, 71}));
  EXPECT_EQ(attrs["device"].texts, (Texts{"last", "first"}));
  EXPECT_EQ(attrs["two"].numbers, (Ints{1, 2})) << "of another length: not about nodes";
  EXPECT_EQ(attrs["update_of"].texts, (Texts{"a", "b", "c"})) << "a list over heads";
}

TEST(GraphAttrs, ListsGoWhereNodesAreAdded) {
  TestGraph g("x = var; y = exp(x); z = exp(y)");
  const std::vector<NodeId> newId = {NodeId(0), NodeId(1)};
  const std::vector<uint32_t> begin = {0, 1, 2};
  GraphAttrs attrs;
  attrs["plan"] = GraphAttr::ofInts({0, 64});
  attrs["planned_bytes"] = GraphAttr::ofInt(128);
  attrs["bound_bytes"] = GraphAttr::ofInt(128);
  EXPECT_EQ(renumberGraphAttrs(attrs, {newId, begin}, g), Texts{"plan"});
  EXPECT_TRUE(attrs.empty()) << "the sums go with the plan";
}

// y = 1, seed = 2; the first constant appears twice, x is a variable.
TEST(GraphAttrs, ListsOfIdsNameTheNewNodes) {
  TestGraph g("x = var; a = exp(x); b = exp(a); heads a, b");
  const std::vector<NodeId> newId = {NodeId(1), NodeId(2), NodeId(), NodeId(0)};
  const std::vector<uint32_t> begin = {0, 1, 2, 3, 4};
  auto renumbered = [&](ArrayRef<Value> newValue) {
    GraphAttrs attrs;
    attrs["grad_of_node"] = GraphAttr::ofInts({-1, 0, 1, 2, 3, 9});
    attrs["head_pairs"] = GraphAttr::ofInts({4, 0, 0, 1, 0, 5, 1, 0, -1, 0, 6, 2, 0, -1, 0, 7, 0, 0, 2, 0, 8, 9, 0, -1, 0});
    attrs["grad_constants"] = GraphAttr::ofInts({0, 0, 2, 0, 0, 0, 3, 0, 1, 0, 1, 7});
    renumberGraphAttrs(attrs, {newId, begin, newValue}, g);
    return g.graph.withGraphAttrs(attrs);
  };
  const Graph moved = renumbered({});
  EXPECT_EQ(intsOf(moved, "grad_of_node"), (Ints{-1, 1, 2, -1, 0, 9}));
  EXPECT_EQ(intsOf(moved, "head_pairs"), (Ints{4, 1, 0, 2, 0, 5, 2, 0, -1, 0})) << "pairs that lost a value are left out";
  EXPECT_EQ(intsOf(moved, "grad_constants"), (Ints{1, 0, 2, 0}));
  // Values that did not go with their nodes.
  const Value a{NodeId(1)}, b{NodeId(2)};
  const Graph replaced = renumbered({b, a, a, Value()});
  EXPECT_EQ(intsOf(replaced, "head_pairs"), (Ints{4, 2, 0, 1, 0, 5, 1, 0, -1, 0, 6, 1, 0, -1, 0, 7, 2, 0, 1, 0}));
  EXPECT_EQ(intsOf(replaced, "grad_constants"), (Ints{2, 0, 1, 0}));
}

// NNVM's lists over entries, which hosts index by entry: a gradient graph has more of them.
TEST(GraphAttrs, A_21_ForeignListsDoNotOutliveTheirNodes) {
  TestGraph g("x = var {__shape__=(2,)}; w = var {__shape__=(2,)}; y = elemwise_mul(x, w); heads y");
  GraphAttrs attrs;
  attrs["storage_id"] = GraphAttr::ofInts({-1, -1, 0});
  attrs["dltype"] = GraphAttr::ofStrs({"a", "b", "c"});
  attrs["mxnet_version"] = GraphAttr::ofInt(10901);
  attrs["labels"] = GraphAttr::ofStrs({"one", "two"});
  const Graph noted = withAttrs(g, attrs);
  GradientRequest request = wrt(noted, {"x", "w"});
  const Graph gradient = cantFail(buildGradient(g.context, noted, request, {})).graph;
  const Graph training = cantFail(appendOptimizer(g.context, gradient, {})).graph;
  for (const Graph &emitted : {gradient, training}) {
    EXPECT_FALSE(emitted.graphAttrs().count("storage_id"));
    EXPECT_FALSE(emitted.graphAttrs().count("dltype"));
    EXPECT_TRUE(emitted.graphAttrs().count("mxnet_version"));
    EXPECT_EQ(emitted.graphAttrs().at("labels").texts, (Texts{"one", "two"}));
  }
  // Nothing is added here.
  EXPECT_EQ(intsOf(cantFail(orderMutations(g.context, noted, OverwrittenPolicy::Save)).graph, "storage_id"), (Ints{-1, -1, 0}));
}

// A training graph differentiated again: its heads still name what they update, and the gradients update nothing.
TEST(GraphAttrs, A_21_UpdatesOfATrainingGraphThatIsDifferentiated) {
  TestGraph g("x = var {__shape__=(2,)}; w = var {__shape__=(2,)}; y = elemwise_mul(x, w); heads y");
  const Graph gradient = cantFail(buildGradient(g.context, g, wrt(g, {"w"}), {})).graph;
  const Graph training = cantFail(appendOptimizer(g.context, gradient, {})).graph;
  EXPECT_EQ(training.graphAttrs().at("update_of").texts, (Texts{"", "w"}));
  GradientRequest request = wrt(training, {"x"});
  request.heads = {{training.heads()[0], std::nullopt, ""}};
  GradientOptions options;
  const Graph again = cantFail(buildGradient(g.context, training, request, options)).graph;
  EXPECT_EQ(again.graphAttrs().at("update_of").texts, (Texts{"", "w", ""}));
  options.gradientOnly = true;
  const Graph alone = cantFail(buildGradient(g.context, training, request, options)).graph;
  EXPECT_FALSE(alone.graphAttrs().count("update_of"));
  EXPECT_FALSE(alone.graphAttrs().count("optimizer_states"));
}

}  // namespace
}  // namespace gradc::testing
