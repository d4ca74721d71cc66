// What a graph means beyond its edges is spelled and read, and follows the nodes and entries it is about, or goes.
#include "formats/json/graph_table.h"

#include "formats/json/reader.h"
#include "passes/gradient/gradient.h"
#include "passes/optimizer/append_optimizer.h"
#include "passes/order/order_mutation.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

Ints intsOf(const Graph &graph, const std::string &key) {
  const GraphAttrs attrs = graphAttrsOf(graph);
  auto at = attrs.find(key);
  return at == attrs.end() ? Ints{-99} : at->second.numbers;
}

// Old node 1 is dropped, 0 and 2 trade places; 2 has two outputs.
TEST(GraphTable, A_21_ListsOverNodesAndEntriesArePermuted) {
  TestGraph g("x = var; s = SliceChannel(x) {num_outputs=2}; heads s, s:1");
  const std::vector<NodeId> newId = {NodeId(1), NodeId(), NodeId(0)};
  GraphTable table;
  table.entries.dtypes = {70, 71, 80, 90};
  table.plan = PlanNotes{{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, 128, 64};
  table.others["storage_id"] = GraphAttr::ofInts({70, 71, 80, 90});
  table.others["device"] = GraphAttr::ofStrs({"first", "gone", "last"});
  table.others["two"] = GraphAttr::ofInts({1, 2});
  table.updates = UpdateNotes{{"a", "b", "c"}, {"s", "t", "u"}};
  const std::vector<uint32_t> begin = {0, 2, 3, 4};
  EXPECT_TRUE(remap(table, {newId, begin}, g).empty());
  EXPECT_EQ(table.entries.dtypes, (Ints{90, 70, 71}));
  EXPECT_EQ(table.plan->places[1], (PlanNotes::Place{0, 1}));
  EXPECT_EQ(table.plan->places.size(), 3u);
  EXPECT_EQ(table.others["storage_id"].numbers, (Ints{90, 70, 71}));
  EXPECT_EQ(table.others["device"].texts, (Texts{"last", "first"}));
  EXPECT_EQ(table.others["two"].numbers, (Ints{1, 2})) << "of another length: not about nodes";
  EXPECT_EQ(table.updates->parameterOf, (Texts{"a", "b", "c"})) << "a list over heads";
  EXPECT_EQ(table.updates->states, (Texts{"s", "t", "u"})) << "a list of names";
}

TEST(GraphTable, A_21_ListsGoWhereNodesAreAdded) {
  TestGraph g("x = var; y = exp(x); z = exp(y)");
  const std::vector<NodeId> newId = {NodeId(0), NodeId(1)};
  const std::vector<uint32_t> begin = {0, 1, 2};
  GraphTable table;
  table.plan = PlanNotes{{{0, 64}, {64, 64}}, 128, 128};
  table.entries.shapes = {{2}, {2}};
  table.others["device"] = GraphAttr::ofStrs({"a", "b"});
  EXPECT_EQ(remap(table, {newId, begin}, g), (Texts{"device", "plan", "shape"}));
  EXPECT_EQ(table, GraphTable()) << "the sums go with the plan";
}

// The first constant appears once more under another name, x is a variable.
TEST(GraphTable, A_21_IdsNameTheNewNodes) {
  TestGraph g("x = var; a = exp(x); b = exp(a); heads a, b");
  const std::vector<NodeId> newId = {NodeId(1), NodeId(2), NodeId(), NodeId(0)};
  const std::vector<uint32_t> begin = {0, 1, 2, 3, 4};
  const Value old[] = {Value{NodeId(0)}, Value{NodeId(1)}, Value{NodeId(2)}, Value{NodeId(3)}};
  auto remapped = [&](ArrayRef<Value> newValue) {
    GraphTable table;
    table.gradient.emplace();
    for (NodeId of : {NodeId(), NodeId(0), NodeId(1), NodeId(2), NodeId(3)}) {
      table.gradient->heads.emplace_back();
      table.gradient->heads.back().ofNode = of;
    }
    table.headPairs = {{4, old[0], old[1]}, {5, old[1], Value()}, {6, old[2], Value()}, {7, old[0], old[2]}};
    table.constants = {old[0], old[2], old[3], old[1]};
    remap(table, {newId, begin, newValue}, g);
    return table;
  };
  const Value a{NodeId(1)}, b{NodeId(2)};
  const GraphTable moved = remapped({});
  std::vector<NodeId> of;
  for (const GradientTable::Head &head : moved.gradient->heads) of.push_back(head.ofNode);
  EXPECT_EQ(of, (std::vector<NodeId>{NodeId(), NodeId(1), NodeId(2), NodeId(), NodeId(0)}));
  EXPECT_EQ(moved.headPairs, (std::vector<HeadPair>{{4, a, b}, {5, b, Value()}}))
      << "pairs that lost a value are left out";
  EXPECT_EQ(moved.constants, (std::vector<Value>{a, b}));
  // Values that did not go with their nodes.
  const GraphTable replaced = remapped({b, a, a, Value()});
  EXPECT_EQ(replaced.headPairs, (std::vector<HeadPair>{{4, b, a}, {5, a, Value()}, {6, a, Value()}, {7, b, a}}));
  EXPECT_EQ(replaced.constants, (std::vector<Value>{b, a}));
}

// Every part of a table, spelled and read again.
TEST(GraphTable, A_21_SpellingAndReading) {
  TestGraph g("x = var; s = SliceChannel(x) {num_outputs=2}; y = exp(s:1); heads y, s");
  GraphTable table;
  table.gradient.emplace();
  table.gradient->heads = {{}, {GradientTable::HeadKind::Retained, "s:1", g.at("s").node, 1, 2, Request::Add, -1}};
  table.gradient->slotStatus = {"grad", "none"};
  table.gradient->gradNone = {"x"};
  table.gradient->headGradOf = {{"seed", "y_output"}};
  table.gradient->numForwardHeads = 1;
  table.gradient->isTraining = false;
  table.headPairs = {{0, g.at("y"), Value()}, {1, g.at("y"), g.at("s:1")}};
  table.constants = {g.at("s:1"), g.at("s")};
  table.entries = {{{2, -1}, {}, {}, {3}}, {1, 0, 1, 1}, {0, 0, 1, 2}, {0, 0, 0, 2}};
  table.plan = PlanNotes{{{-1, 8}, {0, 16}, {-2, 0}, {64, 4}}, 128, 64};
  table.updates = UpdateNotes{{"", "w"}, {}};
  table.mxnetVersion = 10901;
  table.others["mine"] = GraphAttr::ofStr("kept");
  const Graph graph = g.graph.withTable(table);
  EXPECT_EQ(withGraphAttrs(g, graphAttrsOf(graph)).table(), table);
  LoadedGraph again = cantFail(readJson(g.context, written(graph), ReadOptions()));
  EXPECT_EQ(again.graph.table(), table);
  EXPECT_EQ(graphAttrsOf(g), GraphAttrs());
}

TEST(GraphTable, A_21_NumbersOfHeadsHaveARange) {
  TestGraph g("x = var; y = exp(x); heads y");
  GraphTable table;
  table.gradient.emplace().heads = {{}};
  GraphAttrs attrs = graphAttrsOf(g.graph.withTable(table));
  EXPECT_EQ(withGraphAttrs(g, attrs).table(), table);
  for (int64_t number : {int64_t{-5}, int64_t{2}, int64_t{1} << 32}) {
    attrs["num_forward_heads"] = GraphAttr::ofInt(number);
    EXPECT_EQ(withGraphAttrs(g, attrs).table().gradientFault,
              "graph attribute 'num_forward_heads' is missing or malformed, expected a number of heads, at most 1");
  }
}

// A malformed attribute is kept as the file has it, and has no effect.
TEST(GraphTable, A_21_MalformedAttributesStayAsTheyAre) {
  TestGraph g("x = var; y = exp(x); heads y");
  const std::pair<const char *, GraphAttr> rows[] = {
      {"head_kind", GraphAttr::ofStrs({"sideways"})},
      {"head_pairs", GraphAttr::ofInts({0, 1, 0, -1})},
      {"head_pairs", GraphAttr::ofInts({0, 9, 0, -1, 0})},
      {"head_pairs", GraphAttr::ofInts({0, 1, 0, 1, 4})},
      {"head_pairs", GraphAttr::ofInts({-1, 1, 0, -1, 0})},
      {"grad_constants", GraphAttr::ofInts({1, 0, 1, 1})},
      {"grad_constants", GraphAttr::ofInts({1})},
      {"shape", GraphAttr::ofShapes({{1}, {2}, {3}})},
      {"dtype", GraphAttr::ofStrs({"a", "b"})},
      {"plan", GraphAttr::ofShapes({{1, 2}, {3}})},
      {"plan", GraphAttr::ofShapes({{1, 2}, {3, 4, 5}})},
      {"update_of", GraphAttr::ofStrs({"w"})},
      {"mxnet_version", GraphAttr::ofStr("two")},
  };
  for (const auto &[key, attr] : rows) {
    GraphTable expected;
    expected.malformed[key] = attr;
    if (StringRef(key) == "head_kind")
      expected.gradientFault =
          "graph attribute 'grad_of' is missing or malformed, expected a list_str with one element per head (1)";
    EXPECT_EQ(withGraphAttrs(g, expected.malformed).table(), expected) << key;
  }
}

// With other numbers of nodes they might come to fit by accident: two kinds of heads in a file of two nodes, one of
// which no head reaches.
TEST(GraphTable, A_21_MalformedAttributesAreDroppedWithNodes) {
  TestContext context;
  const char *text =
      R"({"nodes": [{"op": "null", "name": "gone", "inputs": []}, {"op": "null", "name": "x", "inputs": []},
    {"op": "exp", "name": "y", "inputs": [[1, 0, 0]]}], "arg_nodes": [0, 1], "heads": [[2, 0, 0]],
    "attrs": {"head_kind": ["list_str", ["a", "forward", "b"]], "shape": ["list_shape", [[1], [2]]], )"
      R"("mine": ["list_int", [1]]}})";
  LoadedGraph loaded = cantFail(readJson(context, text, ReadOptions()));
  EXPECT_EQ(loaded.graph.table().malformed, GraphAttrs());
  EXPECT_EQ(loaded.graph.table().gradientFault, "");
  EXPECT_EQ(loaded.graph.table().others.count("mine"), 1u);
  EXPECT_EQ(loaded.warnings.size(), 3u) << "of the node and of two attributes";
}

// A plan has an offset and a step for each entry.
TEST(GraphTable, A_21_APlanOfOtherRows) {
  for (const char *rows : {"[[0, 1], [64, 1]]", "[[0, 1], [64, 1, 2]]", "[[0, 1], [64]]"}) {
    TestContext context;
    const std::string text = std::string(R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
      {"op": "exp", "name": "y", "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]],
      "attrs": {"planned_bytes": ["size_t", 128], "bound_bytes": ["size_t", 128], "plan": ["list_shape", )") +
                             rows + "]}}";
    const LoadedGraph loaded = cantFail(readJson(context, text, ReadOptions()));
    const bool isSound = StringRef(rows).ends_with("[64, 1]]");
    EXPECT_EQ(loaded.graph.table().plan.has_value(), isSound) << rows;
    EXPECT_EQ(loaded.graph.table().malformed.count("plan"), isSound ? 0u : 1u) << rows;
  }
}

// NNVM's lists over entries, which hosts index by entry: a gradient graph has more of them.
TEST(GraphTable, A_21_ForeignListsDoNotOutliveTheirNodes) {
  TestGraph g("x = var {__shape__=(2,)}; w = var {__shape__=(2,)}; y = elemwise_mul(x, w); heads y");
  GraphAttrs attrs;
  attrs["storage_id"] = GraphAttr::ofInts({-1, -1, 0});
  attrs["dltype"] = GraphAttr::ofStrs({"a", "b", "c"});
  attrs["mxnet_version"] = GraphAttr::ofInt(10901);
  attrs["labels"] = GraphAttr::ofStrs({"one", "two"});
  const Graph noted = withGraphAttrs(g, attrs);
  GradientRequest request = wrt(noted, {"x", "w"});
  const Graph gradient = cantFail(buildGradient(g.context, noted, request, {})).graph;
  const Graph training = cantFail(appendOptimizer(g.context, gradient, {})).graph;
  for (const Graph &emitted : {gradient, training}) {
    EXPECT_FALSE(graphAttrsOf(emitted).count("storage_id"));
    EXPECT_FALSE(graphAttrsOf(emitted).count("dltype"));
    EXPECT_TRUE(graphAttrsOf(emitted).count("mxnet_version"));
    EXPECT_EQ(graphAttrsOf(emitted).at("labels").texts, (Texts{"one", "two"}));
  }
  // Nothing is added here.
  EXPECT_EQ(intsOf(cantFail(orderMutations(g.context, noted, OverwrittenPolicy::Save)).graph, "storage_id"),
            (Ints{-1, -1, 0}));
}

// A training graph differentiated again: its heads still name what they update, and the gradients update nothing.
TEST(GraphTable, A_21_UpdatesOfATrainingGraphThatIsDifferentiated) {
  TestGraph g("x = var {__shape__=(2,)}; w = var {__shape__=(2,)}; y = elemwise_mul(x, w); heads y");
  const Graph gradient = cantFail(buildGradient(g.context, g, wrt(g, {"w"}), {})).graph;
  const Graph training = cantFail(appendOptimizer(g.context, gradient, {})).graph;
  EXPECT_EQ(graphAttrsOf(training).at("update_of").texts, (Texts{"", "w"}));
  GradientRequest request = wrt(training, {"x"});
  request.heads = {{training.heads()[0], std::nullopt, ""}};
  GradientOptions options;
  const Graph again = cantFail(buildGradient(g.context, training, request, options)).graph;
  EXPECT_EQ(graphAttrsOf(again).at("update_of").texts, (Texts{"", "w", ""}));
  options.gradientOnly = true;
  const Graph alone = cantFail(buildGradient(g.context, training, request, options)).graph;
  EXPECT_FALSE(graphAttrsOf(alone).count("update_of"));
  EXPECT_FALSE(graphAttrsOf(alone).count("optimizer_states"));
}

}  // namespace
}  // namespace gradc::testing
