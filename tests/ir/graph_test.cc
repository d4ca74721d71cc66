// Questions a frozen graph answers: names under which things are listed, arguments and aux states.
#include "formats/json/graph_table.h"
#include "ir/graph/graph.h"

#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

struct GraphTest : ::testing::Test {
  SmallContext context;
  Graph graph =
      read(context, fileOf(R"({"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "s", "inputs": []},
      {"op": "bump", "name": "b", "inputs": [[0, 0, 0], [1, 0, 1]]},
      {"op": "split3", "name": "p", "inputs": [[2, 0, 0]]}, {"op": "mystery", "name": "m", "inputs": [[3, 1, 0]]},
      {"op": "relu", "name": "", "inputs": [[4, 1, 0]]}, {"op": "null", "name": "t", "inputs": []},
      {"op": "bump", "name": "c", "inputs": [[5, 0, 0], [1, 0, 2]]},
      {"op": "add", "name": "d", "inputs": [[7, 0, 0], [6, 0, 0]]})",
                           "[[8, 0, 0]]"))
          .graph;
};

TEST_F(GraphTest, IR_16_ListedNames) {
  EXPECT_EQ(graph.listedName(Value{NodeId(0)}), "x");
  EXPECT_EQ(graph.listedName(Value{NodeId(2)}), "b_output");
  EXPECT_EQ(graph.listedName(Value{NodeId(3), 2}), "p_output2");
  EXPECT_EQ(graph.listedName(Value{NodeId(4), 1}), "m_output1");
  EXPECT_EQ(graph.listedName(Value{NodeId(5)}), "output");
}

TEST_F(GraphTest, IR_06_ArgumentsAndAuxiliaryStates) {
  InputLists lists = listInputs(graph);
  EXPECT_EQ(lists.args, (std::vector<NodeId>{NodeId(0), NodeId(7)}));
  EXPECT_EQ(lists.aux, (std::vector<NodeId>{NodeId(1)}));
  EXPECT_EQ(graph.name(NodeId(7)), "t");
}

TEST_F(GraphTest, FirstMutatorOfEachVariable) {
  std::vector<NodeId> mutators = listMutators(graph);
  EXPECT_EQ(mutators[1], NodeId(2));
  EXPECT_FALSE(mutators[0].isValid());
}

TEST_F(GraphTest, IR_02_VersionsShareAnEntry) {
  EXPECT_EQ(graph.entry(Value{NodeId(1), 0, 1}), graph.entry(Value{NodeId(1), 0, 2}));
  EXPECT_NE((Value{NodeId(1), 0, 1}), (Value{NodeId(1), 0, 2}));
}

TEST_F(GraphTest, Descriptions) {
  EXPECT_EQ(graph.describe(NodeId(0)), "variable 'x'");
  EXPECT_EQ(graph.describe(NodeId(2)), "node 'b' (bump)");
  EXPECT_EQ(graph.describe(NodeId(5)), "node '#5' (relu)");
}

TEST_F(GraphTest, AttributesChangeWithoutCopyingColumns) {
  Graph other = withGraphAttrs(graph, {{"k", GraphAttr::ofInt(3)}});
  EXPECT_EQ(&other.columns(), &graph.columns());
  EXPECT_EQ(graphAttrsOf(other).at("k"), GraphAttr::ofInt(3));
  EXPECT_TRUE(graphAttrsOf(graph).empty());
}

}  // namespace
}  // namespace gradc::testing
