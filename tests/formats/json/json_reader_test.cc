// Reading: what the format may say, what is dropped with a warning, and what is wrong with a place to look at.
#include "formats/json/graph_table.h"
#include "formats/json/reader.h"

#include "formats/json/writer.h"
#include "ir/graph/bodies.h"
#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

#include <ctime>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr StringLiteral kX = R"({"op": "null", "name": "x", "inputs": []})";

std::string messageOf(StringRef text) { return readError(text).message; }

TEST(JsonReader, IR_03_ShuffledFileBecomesCanonical) {
  SmallContext context;
  LoadedGraph loaded = read(context, readTestFile("testdata/json/shuffled.json"));
  EXPECT_EQ(written(loaded.graph), readTestFile("testdata/json/shuffled.canonical.json"));
  ASSERT_EQ(loaded.warnings.size(), 2u);
  EXPECT_EQ(loaded.warnings[0], "dropped 1 node no head reaches: 'unused'");
  EXPECT_NE(loaded.warnings[1].find("'arg_nodes'"), std::string::npos);
  EXPECT_FALSE(loaded.wasUpgraded);
}

TEST(JsonReader, SourceMapPointsIntoTheFile) {
  SmallContext context;
  std::string text = readTestFile("testdata/json/shuffled.json");
  LoadedGraph loaded = read(context, text);
  ASSERT_EQ(loaded.sources.nodes.size(), 5u);
  SourceMap::Range range = loaded.sources.nodes[3];  // b
  EXPECT_EQ(range.fileId, 1u);
  EXPECT_EQ(text.substr(range.begin, range.end - range.begin),
            R"j({"name": "b", "inputs": [], "op": "null", "attrs": {"__shape__": "(3,)"}})j");
}

TEST(JsonReader, UnreachableNodesAreCountedAndTenNamed) {
  SmallContext context;
  std::string nodes = kX.str();
  for (int i = 0; i < 12; ++i) nodes += R"(, {"op": "null", "name": "u)" + std::to_string(i) + R"(", "inputs": []})";
  LoadedGraph loaded = read(context, fileOf(nodes, "[[0, 0, 0]]"));
  EXPECT_EQ(loaded.warnings[0],
            "dropped 12 nodes no head reaches: 'u0', 'u1', 'u2', 'u3', 'u4', 'u5', 'u6', 'u7', 'u8', 'u9', …");
  EXPECT_EQ(loaded.graph.numNodes(), 1u);
}

TEST(JsonReader, IR_13_AttributeSpellingsMergeInAnyOrder) {
  SmallContext context;
  LoadedGraph loaded = read(
      context, fileOf(R"({"op": "null", "attrs": {"c": "attrs"}, "param": {"a": "param", "b": "param", "c": "param"},
      "attr": {"b": "attr", "c": "attr"}, "name": "x", "inputs": []})",
                      "[[0, 0, 0]]"));
  const Graph &graph = loaded.graph;
  EXPECT_EQ(graph.attrs(NodeId(0)).get("a"), StringRef("param"));
  EXPECT_EQ(graph.attrs(NodeId(0)).get("b"), StringRef("attr"));
  EXPECT_EQ(graph.attrs(NodeId(0)).get("c"), StringRef("attrs"));
}

TEST(JsonReader, IR_13_EscapesAndOtherValuesBecomeText) {
  SmallContext context;
  LoadedGraph loaded = read(context, fileOf(R"({"op": "null", "name": "a\/\b\u00e9\ud83d\ude00", "inputs": [],
      "attrs": {"list": [3, "q\"", {"k": null}], "float": 1e-3, "yes": true, "none": null, "big": )"
                                            R"(18446744073709551615, "minus": -4}})",
                                            "[[0, 0, 0]]"));
  const Graph &graph = loaded.graph;
  Attrs attrs = graph.attrs(NodeId(0));
  EXPECT_EQ(graph.name(NodeId(0)), "a/\bé😀");
  EXPECT_EQ(attrs.get("list"), StringRef(R"([3, "q\"", {"k": None}])"));
  EXPECT_EQ(attrs.get("float"), StringRef("1e-3"));
  EXPECT_EQ(attrs.get("yes"), StringRef("True"));
  EXPECT_EQ(attrs.get("none"), StringRef("None"));
  EXPECT_EQ(attrs.get("big"), StringRef("18446744073709551615"));
  EXPECT_EQ(attrs.get("minus"), StringRef("-4"));
}

TEST(JsonReader, IR_13_NegativeZeroKeepsItsSign) {
  SmallContext context;
  LoadedGraph loaded = read(context, R"({"nodes": [{"op": "null", "name": "a", "inputs": [], "backward_source_id": -0,
      "attrs": {"zero": 0, "minus": -0, "list": [-0, 0]}}], "arg_nodes": [-0], "heads": [[-0, 0, -0]],
      "attrs": {"raw": {"k": -0}, "n": ["list_int", [-0]]}})");
  const Attrs attrs = loaded.graph.attrs(NodeId(0));
  EXPECT_EQ(attrs.get("zero"), StringRef("0"));
  EXPECT_EQ(attrs.get("minus"), StringRef("-0"));
  EXPECT_EQ(attrs.get("list"), StringRef("[-0, 0]"));
  EXPECT_EQ(graphAttrsOf(loaded.graph).at("raw").text, "{\"k\": -0}");
  EXPECT_EQ(graphAttrsOf(loaded.graph).at("n").numbers, std::vector<int64_t>{0});
}

TEST(JsonReader, IR_15_UnknownOperatorCountsItsOutputs) {
  SmallContext context;
  const StringRef nodes =
      R"({"op": "mystery", "name": "m", "inputs": []}, {"op": "other", "name": "o", "inputs": [[0, 4, 0], [0, 1, 0]]})";
  LoadedGraph counted = read(context, fileOf(nodes, "[[1, 1, 0]]"));
  EXPECT_EQ(counted.graph.numOutputs(NodeId(0)), 5u);
  EXPECT_EQ(counted.graph.numOutputs(NodeId(1)), 2u);
  LoadedGraph told = read(
      context,
      ("{\"nodes\": [" + nodes + "], \"arg_nodes\": [], \"node_row_ptr\": [0, 7, 9], \"heads\": [[1, 1, 0]]}").str());
  EXPECT_EQ(told.graph.numOutputs(NodeId(0)), 7u);
}

TEST(JsonReader, VersionsKeepTheFilesNumber) {
  SmallContext context;
  LoadedGraph loaded = read(context, readTestFile("testdata/json/everything.json"));
  const Graph &graph = loaded.graph;
  EXPECT_EQ(graph.inputs(NodeId(2))[1], (Value{NodeId(1), 0, 1}));
  EXPECT_EQ(graph.inputs(NodeId(3))[1], (Value{NodeId(1), 0, 2}));
  LoadedGraph zero = read(context, fileOf((kX + R"(, {"op": "null", "name": "s", "inputs": []},
      {"op": "bump", "name": "b", "inputs": [[0, 0, 0], [1, 0, 0]]})")
                                              .str(),
                                          "[[2, 0, 0]]"));
  EXPECT_EQ(zero.graph.inputs(NodeId(2))[1].version, 0);
}

TEST(JsonReader, OriginIsAColumnNotAnAttribute) {
  SmallContext context;
  LoadedGraph loaded = read(context, readTestFile("testdata/json/everything.json"));
  const Graph &graph = loaded.graph;
  EXPECT_EQ(graph.origin(NodeId(6)), NodeId(2));
  EXPECT_FALSE(graph.origin(NodeId(5)).isValid());
  EXPECT_FALSE(graph.attrs(NodeId(6)).get("__origin__").has_value());
  EXPECT_EQ(graph.attrs(NodeId(6)).get("a"), StringRef("1"));
}

TEST(JsonReader, CF_22_SubgraphsNest) {
  SmallContext context;
  LoadedGraph loaded = read(context, readTestFile("testdata/json/everything.json"));
  ArrayRef<Graph> bodies = loaded.graph.bodies(NodeId(5));
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0].name(NodeId(0)), "in");
  ArrayRef<Graph> inner = bodies[1].bodies(NodeId(0));
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_EQ(inner[0].name(NodeId(0)), "deep");
}

// An unknown operator has as many outputs as are read: 65,536 at most, which its file can say as well.
TEST(JsonReader, OutputsOfUnknownOperatorsUpToTheLast) {
  const std::string text = converted(fileOf(R"({"op": "mystery", "name": "m", "inputs": []})", "[[0, 65535, 0]]"));
  EXPECT_NE(text.find("\"node_row_ptr\": [0, 65536]"), std::string::npos);
  EXPECT_EQ(converted(text), text);
  EXPECT_EQ(
      readError(R"({"nodes": [{"op": "mystery", "name": "m", "inputs": []}], "arg_nodes": [], "node_row_ptr": [0, )"
                R"(65537], "heads": []})")
          .message,
      "'node_row_ptr' gives node 'm' the entries 0 to 65537, expected a list from 0 that grows by at most 65536");
}

TEST(JsonReader, VariablesHaveNoSubgraphs) {
  GradcError error =
      readError(R"({"nodes": [{"op": "null", "name": "x", "inputs": [], "subgraphs": [{"nodes": [], "arg_nodes": [], )"
                R"("heads": []}]}],
    "arg_nodes": [0], "heads": [[0, 0, 0]]})");
  EXPECT_EQ(error.message, "variable 'x' has sub-graphs, expected an operator");
  EXPECT_EQ(error.place.offset, 11);
}

TEST(JsonReader, NestingIsBounded) {
  auto nested = [](int levels) {
    const std::string end = R"(, "arg_nodes": [], "heads": [[0, 0, 0]]})";
    std::string text = R"({"nodes": [{"op": "o", "name": "n", "inputs": []}])" + end;
    for (; levels > 0; --levels)
      text = R"({"nodes": [{"op": "o", "name": "n", "inputs": [], "subgraphs": [)" + text + "]}]" + end;
    return text;
  };
  SmallContext context;
  EXPECT_EQ(nestedGraphs(read(context, nested(64)).graph).size(), 65u) << "the root is in no other graph";
  GradcError error = readError(nested(65));
  EXPECT_EQ(error.kind, ErrorKind::BadJson);
  EXPECT_EQ(error.message, "sub-graphs are nested more than 64 levels deep");
}

TEST(JsonReader, PerEntryListsFollowOrAreDropped) {
  SmallContext context;
  // split3 has three outputs here, the file says one: the list over entries cannot follow.
  LoadedGraph loaded = read(
      context,
      R"({"nodes": [{"op": "split3", "name": "s", "inputs": [[1, 0, 0]]}, {"op": "null", "name": "x", "inputs": []}],
      "arg_nodes": [1], "node_row_ptr": [0, 1, 2], "heads": [[0, 0, 0], [1, 0, 0]], "attrs": {"dtype": )"
      R"(["list_int", [5, 6]],
      "update_of": ["list_str", ["p", "q"]], "optimizer_states": ["list_str", []]}})");
  const GraphAttrs attrs = graphAttrsOf(loaded.graph);
  EXPECT_EQ(attrs.count("dtype"), 0u);
  EXPECT_EQ(attrs.at("update_of").texts, (std::vector<std::string>{"p", "q"}))
      << "a list over heads, of which there are as many";
  ASSERT_EQ(loaded.warnings.size(), 1u);
  EXPECT_NE(loaded.warnings[0].find("'dtype'"), std::string::npos);
}

// As an error does, a warning says which body it is about.
TEST(JsonReader, CF_22_WarningsAboutBodies) {
  const std::string inner = R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "unused",
      "inputs": []}], "arg_nodes": [0, 1], "heads": [[0, 0, 0]]})";
  auto around = [](const std::string &name, const std::string &bodies) {
    return R"({"nodes": [{"op": "null", "name": "y", "inputs": []}, {"op": "o", "name": ")" + name +
           R"(", "inputs": [[0, 0, 0]], "subgraphs": [)" + bodies + R"(]}], "arg_nodes": [0], "heads": [[1, 0, 0]]})";
  };
  SmallContext context;
  EXPECT_EQ(
      read(context, around("loop", around("", inner) + ", " + inner)).warnings,
      (std::vector<std::string>{"node 'loop' > body 0 > node '#1' > body > dropped 1 node no head reaches: 'unused'",
                                "node 'loop' > body 1 > dropped 1 node no head reaches: 'unused'"}));
}

TEST(JsonReader, UnknownKeysAreIgnoredWithAWarning) {
  SmallContext context;
  LoadedGraph loaded =
      read(context, R"({"nodes": [{"op": "null", "name": "x", "inputs": [], "color": {"a": [1]}}], "arg_nodes": [0],
      "heads": [[0, 0, 0]], "comment": "hello"})");
  EXPECT_EQ(loaded.warnings, (std::vector<std::string>{"ignored key 'color', which appears 1 time",
                                                       "ignored key 'comment', which appears 1 time"}));
}

// Read once each, however many there are: 200,000 keys would be 2·10^10 comparisons.
TEST(JsonReader, ManyUnknownKeys) {
  constexpr int kMany = 200'000;
  std::string keys;
  for (int i = 0; i < kMany; ++i) keys += ", \"k" + std::to_string(i) + "\": 1";
  const std::string node = R"({"op": "null", "name": "x", "inputs": [])" + keys + "}";
  const std::clock_t start = std::clock();
  SmallContext context;
  LoadedGraph loaded =
      read(context, "{\"nodes\": [" + node + R"(], "arg_nodes": [0], "heads": [[0, 0, 0]])" + keys + "}");
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10) << "seconds";
  ASSERT_EQ(loaded.warnings.size(), 11u);
  EXPECT_EQ(loaded.warnings[0], "ignored key 'k0', which appears 2 times");
  EXPECT_EQ(loaded.warnings[10], "ignored 199990 other unknown keys");
}

TEST(JsonReader, E_33_SaysWhatAndWhere) {
  struct Case {
    std::string text, message;
    int64_t offset;
  };
  auto node = [](StringRef inputs) { return (R"({"op": "relu", "name": "y", "inputs": )" + inputs + "}").str(); };
  const Case cases[] = {
      {"", "the input is empty, expected a graph", 0},
      {"[1]", "expected a graph object, found an array", 0},
      {"{}", "the graph has no key 'nodes'", 0},
      {R"({"nodes": [], "arg_nodes": []})", "the graph has no key 'heads'", 0},
      {R"({"nodes": {}})", "expected an array for 'nodes', found an object", 10},
      {R"({"nodes": [7]})", "expected a node object, found a number", 11},
      {R"({"nodes": [{"name": "x", "inputs": []}]})", "node 0 'x' has no key 'op'", 11},
      {R"({"nodes": [{"op": 3}]})", "expected a string for 'op' of node 0, found a number", 18},
      {R"({"nodes": [{"op": "null", "op": "null"}]})", "key 'op' appears twice in node 0", 26},
      {R"({"nodes": [{"attrs": {"k": "1", "k": "1"}}]})", "attribute 'k' appears twice in node 0", 32},
      {R"({"nodes": [], "nodes": []})", "key 'nodes' appears twice in the graph", 14},
      {R"({"x": {"a": 1, "a": 2}})", "the object has the key 'a' twice", 15},
      {fileOf(node("[[0]]"), "[]"), "an entry has at least two numbers [node, index], found 1", 52},
      {fileOf(node("[[0, 0, 0, 0]]"), "[]"), "an entry has at most three numbers [node, index, version]", 60},
      {fileOf(node("[[-1, 0]]"), "[]"), "-1 is not a node id", 56},
      {fileOf(node("[[0, 0, 65536]]"), "[]"), "version 65536 is out of range, expected 0 to 65535", 62},
      {fileOf(node("[[1.5, 0]]"), "[]"), "expected a whole number in an entry [node, index, version], found a number",
       51},
      {fileOf(node("[[7, 0]]"), "[]"), "input 0 of node 'y' refers to node 7, but the graph has 1 node", 11},
      {fileOf(kX, "[[0, 0, 0]]") + "x", "malformed JSON: ", 93},
      {R"({"nodes": [], "arg_nodes": [], "heads": [], "attrs": {"a": ["int", "1"]}})",
       "graph attribute 'a' is malformed, expected [\"int\", integer]", 69},
      {R"({"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0, 1]})",
       "'node_row_ptr' has 2 numbers, expected 1, one more than nodes", 60},
  };
  for (const Case &c : cases) {
    GradcError error = readError(c.text);
    EXPECT_EQ(error.kind, ErrorKind::BadJson) << c.text;
    EXPECT_EQ(StringRef(error.message).take_front(c.message.size()), c.message) << c.text;
    EXPECT_EQ(error.place.offset, c.offset) << c.text;
  }
}

TEST(JsonReader, E_33_ErrorsNameThePath) {
  const std::pair<std::string, StringRef> cases[] = {
      {"[1]", ""},
      {R"({"nodes": {}})", "at nodes"},
      {R"({"nodes": [7]})", "at nodes[0]"},
      {fileOf((kX + R"(, {"op": "relu", "name": "y", "inputs": [[0, "0"]]})").str(), "[]"), "at nodes[1].inputs[0][1]"},
      {fileOf((kX + R"(, {"op": "relu", "name": "y", "inputs": [[0]]})").str(), "[]"), "at nodes[1].inputs[0]"},
      {fileOf((kX + R"(, {"op": "relu", "name": "y", "inputs": [[7, 0]]})").str(), "[]"), "at nodes[1]"},
      {fileOf((kX + ",,").str(), "[]"), "at nodes[1]"},
      {R"({"nodes": [{"attrs": {"a]\"[,": "1", "k": [1, {"b": tru}]}}]})", "at nodes[0].attrs.k[1]"},
      {R"({"nodes": [{"op": "loop", "name": "l", "inputs": [], "subgraphs": [{"nodes": 1}]}]})",
       "at nodes[0].subgraphs[0].nodes"},
      {R"({"x": [[[[[[[[[[[[[[tru]]]]]]]]]]]]]]})", "at x[0][0][0][0][0][0][0][0][0][0][0]…"},
      {R"({"x": [[[[[[[[[[[[[["]", 1]]]]]]]]]]]]], 2], "y": tru, "z": 1})", "at y"},
  };
  for (const auto &[text, note] : cases) {
    const GradcError error = readError(text);
    EXPECT_EQ(error.notes.empty() ? "" : error.notes.back().text, note) << text;
  }
}

TEST(JsonReader, IR_15_ArgNodesAreVariables) {
  GradcError error = readError(
      R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "relu", "name": "y", "inputs": [[0, 0]]}],
    "arg_nodes": [1], "heads": [[1, 0]]})");
  EXPECT_EQ(error.kind, ErrorKind::BadJson);
  EXPECT_EQ(error.message, "'arg_nodes' lists node 'y', expected variables only, found operator 'relu'");
}

TEST(JsonReader, E_43_D_30_CycleNamesItsNodes) {
  GradcError error = readError(
      fileOf(R"({"op": "relu", "name": "a", "inputs": [[1, 0, 0]]}, {"op": "other", "name": "b", "inputs": [], )"
             R"("control_deps": [0]})",
             "[[0, 0, 0]]"));
  EXPECT_EQ(error.kind, ErrorKind::Cycle);
  EXPECT_EQ(error.message, "the graph has a cycle: 'a' -> 'b' -> 'a'");
  EXPECT_EQ(error.place.offset, 11);
  EXPECT_FALSE(error.place.node.isValid());
}

TEST(JsonReader, E_48_OutputAKnownOperatorDoesNotHave) {
  GradcError error =
      readError(fileOf((kX + R"(, {"op": "relu", "name": "y", "inputs": [[0, 2, 0]]})").str(), "[[1, 0, 0]]"));
  EXPECT_EQ(error.kind, ErrorKind::BadEntry);
  EXPECT_EQ(error.message, "input 0 of node 'y' is output 2 of node 'x', which has 1");
  EXPECT_EQ(readError(fileOf(kX, "[[0, 70000, 0]]")).kind, ErrorKind::BadEntry);
}

TEST(JsonReader, REG_19_BadAttributeEndsWithTheNode) {
  GradcError error = readError(
      fileOf((kX + R"(, {"op": "sum_n", "name": "y", "attrs": {"num_args": "many"}, "inputs": [[0, 0, 0]]})").str(),
             "[[1, 0, 0]]"));
  EXPECT_EQ(error.kind, ErrorKind::BadAttribute);
  EXPECT_NE(error.message.find("in operator sum_n(name=\"y\", num_args=\"many\")"), std::string::npos) << error.message;
  EXPECT_EQ(error.place.offset, 54);
}

TEST(JsonReader, E_33_EveryPrefixOfAFileIsRefused) {
  const std::string text = StringRef(readTestFile("testdata/json/everything.json")).rtrim().str();
  for (size_t length = 0; length < text.size(); ++length) {
    GradcError error = readError(StringRef(text).take_front(length));
    ASSERT_EQ(error.kind, ErrorKind::BadJson) << length;
    ASSERT_LE(error.place.offset, static_cast<int64_t>(length));
  }
}

TEST(JsonReader, MutilatedFilesReadOrSayWhy) {
  const std::string original = readTestFile("testdata/json/everything.json");
  uint64_t state = 1;
  auto random = [&](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % bound;
  };
  constexpr StringLiteral kBytes = "0123456789-[]{}\",:\\e.ntf \x01\xff";
  size_t numRead = 0, numRefused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = original;
    for (size_t edits = 1 + random(3); edits > 0; --edits) {
      size_t at = random(text.size());
      if (random(2)) text[at] = kBytes[random(kBytes.size())];
      else text.erase(at, 1 + random(8));
    }
    SmallContext context;
    Expected<LoadedGraph> loaded = readJson(context, text, {});
    if (loaded) {
      ++numRead;
      std::string once = written(loaded->graph);
      ASSERT_EQ(converted(once), once) << text;
    } else {
      ++numRefused;
      consumeError(loaded.takeError());
    }
  }
  EXPECT_GT(numRead, 100u);
  EXPECT_GT(numRefused, 100u);
}

TEST(JsonReader, IR_04_LongChainsNeedNoStack) {
  constexpr int kLength = 1000000;
  for (bool byData : {true, false}) {
    std::string nodes = kX.str();
    for (int i = 1; i < kLength; ++i) {
      std::string before = std::to_string(i - 1);
      nodes += R"(,{"op":"n","name":"","inputs":[)" +
               (byData ? "[" + before + ",0,0]]}" : R"(],"control_deps":[)" + before + "]}");
    }
    SmallContext context;
    LoadedGraph loaded = read(context, fileOf(nodes, "[[" + std::to_string(kLength - 1) + ", 0, 0]]"));
    EXPECT_EQ(loaded.graph.numNodes(), static_cast<uint32_t>(kLength));
  }
}

TEST(JsonReader, DeepValuesNeedNoStack) {
  std::string deep(200000, '[');
  EXPECT_NE(messageOf("{\"x\": " + deep).find("unexpected end of input"), std::string::npos);
  EXPECT_NE(messageOf("{\"attrs\": {\"x\": " + deep).find("unexpected end of input"), std::string::npos);
}

}  // namespace
}  // namespace gradc::testing
