// Graphs that freeze lets through and verify must not.
#include "ir/rules/verify.h"

#include "ir/graph/graph_builder.h"
#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

std::vector<GradcError> verify(const Graph &graph, size_t limit) {
  std::vector<GradcError> found;
  handleAllErrors(verifyGraph(graph, limit), [&](const GradcError &error) { found.push_back(error); });
  return found;
}

/// A file's nodes behind the variables x (0) and s (1); the last node is the head.
std::vector<GradcError> verifyNodes(StringRef nodes, uint32_t head) {
  SmallContext context;
  LoadedGraph loaded = read(
      context,
      fileOf(
          (R"({"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "s", "inputs": []}, )" + nodes).str(),
          "[[" + std::to_string(head) + ", 0, 0]]"));
  return verify(loaded.graph, 10);
}

/// A graph with one column changed after it was frozen.
template <class Edit> std::vector<GradcError> verifyEdited(Edit edit) {
  SmallContext context;
  LoadedGraph loaded = read(
      context, fileOf(R"({"op": "null", "name": "x", "inputs": []}, {"op": "relu", "name": "y", "inputs": [[0, 0, 0]]},
      {"op": "relu", "name": "z", "inputs": [[1, 0, 0]]})",
                      "[[2, 0, 0]]"));
  auto columns = std::make_shared<GraphColumns>(loaded.graph.columns());
  edit(*columns);
  return verify(Graph(columns, {}), 10);
}

TEST(Verify, SoundGraphsPass) {
  SmallContext context;
  LoadedGraph loaded = read(context, readTestFile("testdata/json/everything.json"));
  EXPECT_TRUE(verify(loaded.graph, 10).empty());
}

TEST(Verify, IR_03_ReadersComeAfterWhatTheyRead) {
  std::vector<GradcError> found = verifyEdited([](GraphColumns &c) { c.inputs[0].node = NodeId(2); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "node 'y' (relu) has id 1 and an input with id 2, expected a smaller one");
  EXPECT_EQ(found[0].place.node, NodeId(1));
}

TEST(Verify, E_48_OutputIndices) {
  std::vector<GradcError> found = verifyEdited([](GraphColumns &c) {
    c.inputs[1].index = 4;
    c.heads[0].index = 1;
  });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, ErrorKind::BadEntry);
  EXPECT_EQ(found[0].message, "input 0 of node 'z' (relu) is output 4 of node 'y' (relu), which has 1");
  EXPECT_EQ(found[1].message, "head 0 is output 1 of node 'z' (relu), which has 1");
}

TEST(Verify, E_42_Arity) {
  std::vector<GradcError> found = verifyEdited([](GraphColumns &c) {
    c.inputs.push_back(Value{NodeId(0)});
    c.inputBegin.back() = 3;
  });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, ErrorKind::Arity);
  EXPECT_EQ(found[0].message, "node 'z' (relu) takes 1 input, got 2");
}

TEST(Verify, E_30_MutationTargetsAreVariables) {
  std::vector<GradcError> found = verifyNodes(R"({"op": "relu", "name": "r", "inputs": [[0, 0, 0]]},
      {"op": "bump", "name": "b", "inputs": [[0, 0, 0], [2, 0, 0]]})",
                                              3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, ErrorKind::BadMutation);
  EXPECT_EQ(found[0].message, "node 'b' (bump) overwrites input 1, expected a variable there, found node 'r' (relu)");
}

TEST(Verify, IR_08_VersionsBelongToVariablesAndHaveOneMaker) {
  std::vector<GradcError> found = verifyNodes(R"({"op": "relu", "name": "r", "inputs": [[0, 0, 0]]},
      {"op": "relu", "name": "q", "inputs": [[2, 0, 3]]})",
                                              3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message,
            "input 0 of node 'q' (relu) reads version 3 of node 'r' (relu), but only variables have versions");
  const StringRef twice = R"({"op": "bump", "name": "a", "inputs": [[0, 0, 0], [1, 0, 1]]}, )"
                          R"({"op": "bump", "name": "b", "inputs": [[2, 0, 0], [1, 0, 1]]})";
  found = verifyNodes(twice, 3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "node 'b' (bump) makes version 1 of variable 's', which another node already makes");
  // A version that no node makes is external, and the 0 of old files claims nothing.
  EXPECT_TRUE(verifyNodes(R"({"op": "relu", "name": "r", "inputs": [[0, 0, 9]]})", 2).empty());
  EXPECT_TRUE(verifyNodes(R"({"op": "bump", "name": "a", "inputs": [[0, 0, 0], [1, 0, 0]]}, )"
                          R"({"op": "bump", "name": "b", "inputs": [[2, 0, 0], [1, 0, 0]]})",
                          3)
                  .empty());
}

TEST(Verify, IR_08_NobodyReadsWhatItMakesItself) {
  const StringRef step = R"({"op": "bump", "name": "a", "inputs": [[1, 0, 1], [1, 0, 2]]}, )"
                         R"({"op": "relu", "name": "r", "inputs": [[2, 0, 0]]})";
  EXPECT_TRUE(verifyNodes(step, 3).empty());
  std::vector<GradcError> found = verifyNodes(R"({"op": "bump", "name": "a", "inputs": [[1, 0, 2], [1, 0, 2]]})", 2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message,
            "node 'a' (bump) makes version 2 of variable 's' and reads version 2 of it, expected an earlier one");
}

TEST(Verify, IR_08_HeadsHaveVersionsOfVariablesOnly) {
  std::vector<GradcError> found = verifyEdited([](GraphColumns &c) { c.heads[0].version = 4; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, ErrorKind::BadMutation);
  EXPECT_EQ(found[0].message, "head 0 reads version 4 of node 'z' (relu), but only variables have versions");
}

TEST(Verify, IR_19_BackwardOperatorsNameTheirForwardNode) {
  const StringRef forward = R"({"op": "relu", "name": "r", "inputs": [[0, 0, 0]]}, )"
                            R"({"op": "_backward_relu", "name": "rb", "inputs": [[1, 0, 0], [2, 0, 0]])";
  EXPECT_TRUE(verifyNodes((forward + R"(, "control_deps": [2]})").str(), 3).empty());
  std::vector<GradcError> found = verifyNodes((forward + "}").str(), 3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, ErrorKind::BackwardMatch);
  found = verifyNodes((forward + R"(, "control_deps": [0]})").str(), 3);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(
      found[0].message,
      "the first control dependency of node 'rb' (_backward_relu) should be its forward node, found variable 'x'");
}

// Both loops share the wrong body, which is one graph: its errors are reported once, under the first owner.
TEST(Verify, BodiesAreChecked) {
  SmallContext context;
  const std::string body =
      fileOf(R"({"op": "null", "name": "i", "inputs": []}, {"op": "relu", "name": "j", "inputs": [[0, 0, 1]]},
      {"op": "relu", "name": "k", "inputs": [[1, 0, 1]]}, {"op": "relu", "name": "l", "inputs": [[2, 0, 1]]})",
             "[[3, 0, 0]]");
  const std::string nodes =
      R"({"op": "null", "name": "x", "inputs": []}, {"op": "for_each", "name": "f", "inputs": [[0, 0, 0]], )"
      R"("subgraphs": [)" +
      body + R"(]}, {"op": "for_each", "name": "g", "inputs": [[1, 0, 0]], "subgraphs": [)" + body + "]}";
  LoadedGraph loaded = read(context, fileOf(nodes, "[[2, 0, 0]]"));
  std::vector<GradcError> found = verify(loaded.graph, 10);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].message,
            "node 'f' > body > input 0 of node 'k' (relu) reads version 1 of node 'j' (relu), but only "
            "variables have versions");
  EXPECT_EQ(found[0].place.node, NodeId(2));
  EXPECT_EQ(found[0].place.path, (std::vector<BodyStep>{{NodeId(1), 0}}));
  EXPECT_EQ(verify(loaded.graph, 1).size(), 1u);
}

// Of two bodies with two errors each, three are told.
TEST(Verify, BodiesShareTheLimit) {
  SmallContext context;
  auto body = [](const std::string &first) {
    return fileOf(R"({"op": "null", "name": ")" + first +
                      R"(", "inputs": []}, {"op": "relu", "name": "j", "inputs": [[0, 0, 0]]},
      {"op": "relu", "name": "k", "inputs": [[1, 0, 1]]}, {"op": "relu", "name": "l", "inputs": [[2, 0, 1]]})",
                  "[[3, 0, 0]]");
  };
  const std::string nodes =
      R"({"op": "null", "name": "x", "inputs": []}, {"op": "for_each", "name": "f", "inputs": [[0, 0, 0]], )"
      R"("subgraphs": [)" +
      body("i") + R"(]}, {"op": "for_each", "name": "g", "inputs": [[1, 0, 0]], "subgraphs": [)" + body("other") + "]}";
  LoadedGraph loaded = read(context, fileOf(nodes, "[[2, 0, 0]]"));
  EXPECT_EQ(verify(loaded.graph, 10).size(), 4u);
  EXPECT_EQ(verify(loaded.graph, 3).size(), 3u);
}

TEST(Verify, StopsAtTheLimit) {
  SmallContext context;
  std::string nodes =
      R"({"op": "null", "name": "x", "inputs": []}, {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]})";
  for (int i = 2; i < 20; ++i)
    nodes += R"(, {"op": "relu", "name": "q", "inputs": [[)" + std::to_string(i - 1) + ", 0, 1]]}";
  LoadedGraph loaded = read(context, fileOf(nodes, "[[19, 0, 0]]"));
  EXPECT_EQ(verify(loaded.graph, 100).size(), 18u);
  EXPECT_EQ(verify(loaded.graph, 4).size(), 4u);
}

}  // namespace
}  // namespace gradc::testing
