// The canonical form: one node per line, everything the file said, the same bytes again.
#include "formats/json/reader.h"
#include "formats/json/writer.h"

#include "ir/graph/graph_builder.h"
#include "tests/support/small_ops.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

TEST(JsonWriter, IR_14_CF_22_ConvertIsAFixedPoint) {
  for (StringRef file : {"testdata/json/everything.json", "testdata/json/shuffled.json", "testdata/json/old.json"}) {
    std::string once = converted(readTestFile(file));
    EXPECT_EQ(converted(once), once) << file.str();
  }
}

TEST(JsonWriter, IR_14_CF_22_NothingOfAReachableNodeIsLost) {
  EXPECT_EQ(converted(readTestFile("testdata/json/everything.json")),
            readTestFile("testdata/json/everything.canonical.json"));
}

TEST(JsonWriter, EscapesAreTheFiveHostsRead) {
  SmallContext context;
  GraphBuilder builder(context);
  Value x = builder.addVariable("a\"\\\n\r\t/é", Attrs());
  const std::string text = written(cantFail(std::move(builder).freeze({x}, {})).graph);
  EXPECT_NE(text.find("\"name\": \"a\\\"\\\\\\n\\r\\t/é\""), std::string::npos) << text;
}

TEST(JsonWriter, OriginTakesItsSortedPlace) {
  SmallContext context;
  GraphBuilder builder(context);
  Value x = builder.addVariable("x", Attrs());
  const OpDef &relu = *context.ops.find("relu");
  Attrs attrs = context.attrs({AttrText{"a", "1"}, AttrText{"Z", "2"}});
  NodeId plain = cantFail(builder.add(relu, {x}, {"plain", Attrs(), x.node}));
  NodeId both = cantFail(builder.add(relu, {Value{plain}}, {"both", attrs, plain}));
  const std::string text = written(cantFail(std::move(builder).freeze({Value{both}}, {})).graph);
  EXPECT_NE(text.find(R"({"op": "relu", "name": "plain", "attrs": {"__origin__": "0"}, "inputs": [[0, 0, 0]]},)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("attrs": {"Z": "2", "__origin__": "1", "a": "1"})"), std::string::npos) << text;
}

// Without a version, `axis` = -1 of argmax means all axes when it is read (docs/format.md).
TEST(JsonWriter, IR_14_AGraphOfNoFileIsReadAsItIs) {
  TestContext context;
  const auto textOfArgmax = [&](StringRef axis) {
    GraphBuilder builder(context);
    const Value x = builder.addVariable("x", Attrs());
    const NodeId y = cantFail(builder.add(*context.ops.find("argmax"), {x}, {"", context.attrs({{"axis", axis}})}));
    return written(cantFail(std::move(builder).freeze({Value{y}}, {})).graph);
  };
  EXPECT_FALSE(StringRef(textOfArgmax("0")).contains("mxnet_version"));
  const std::string text = textOfArgmax("-1");
  const Graph again = cantFail(readJson(context, text, ReadOptions())).graph;
  EXPECT_EQ(again.attrs(again.heads()[0].node).get("axis"), StringRef("-1")) << text;
}

TEST(JsonWriter, EmptyGraph) {
  const StringRef empty = "{\n  \"nodes\": [],\n  \"arg_nodes\": [],\n  \"node_row_ptr\": [0],\n  \"heads\": []\n}\n";
  EXPECT_EQ(converted(R"({"nodes": [], "arg_nodes": [], "heads": []})"), empty);
}

TEST(JsonWriter, LargeFilesPassTheBufferWhole) {
  std::string nodes = R"({"op": "null", "name": "x", "inputs": []})";
  for (int i = 1; i < 5000; ++i)
    nodes += R"(, {"op": "relu", "name": "relu)" + std::to_string(i) + R"(", "inputs": [[)" + std::to_string(i - 1) +
             ", 0, 0]]}";
  std::string once = converted(fileOf(nodes, "[[4999, 0, 0]]"));
  EXPECT_GT(once.size(), size_t{1} << 17);
  EXPECT_EQ(converted(once), once);
}

}  // namespace
}  // namespace gradc::testing
