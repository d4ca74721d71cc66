// Freezing: canonical order, what is dropped, the stable prefix over a base, and what is refused.
#include "ir/graph/graph_builder.h"

#include "tests/support/small_ops.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

struct GraphBuilderTest : ::testing::Test {
  SmallContext context;
  GraphBuilder builder{context};

  Value add(StringRef op, ArrayRef<Value> inputs, StringRef name) {
    return Value{cantFail(builder.add(*context.ops.find(op), inputs, {name, Attrs(), NodeId()}))};
  }
  Frozen freeze(ArrayRef<Value> heads) { return cantFail(std::move(builder).freeze(heads, {})); }
  static std::string names(const Graph &graph) {
    std::string text;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) text += graph.name(NodeId(n)).str() + " ";
    return text;
  }
};

TEST_F(GraphBuilderTest, IR_03_PostOrderFromTheHeads) {
  Value d2 = builder.addVariable("unused", Attrs());
  Value b = builder.addVariable("b", Attrs()), a = builder.addVariable("a", Attrs());
  Value c = add("add", {a, b}, "c"), d = add("add", {c, a}, "d");
  Frozen frozen = freeze({d, c});
  EXPECT_EQ(names(frozen.graph), "a b c d ");
  EXPECT_FALSE(frozen.newId[d2.node.value].isValid());
  EXPECT_EQ(frozen(c).node, NodeId(2));
  EXPECT_EQ(frozen.graph.heads()[1], (Value{NodeId(2)}));
}

TEST_F(GraphBuilderTest, IR_03_ControlDependenciesComeAfterInputs) {
  Value late = builder.addVariable("late", Attrs()), x = builder.addVariable("x", Attrs());
  Value y = add("relu", {x}, "y");
  builder.addControlDep(y.node, late.node);
  Frozen frozen = freeze({y});
  EXPECT_EQ(names(frozen.graph), "x late y ");
  EXPECT_EQ(frozen.graph.controlDeps(NodeId(2))[0], NodeId(1));
}

TEST_F(GraphBuilderTest, IR_05_OutputsTakeConsecutiveEntries) {
  Value x = builder.addVariable("x", Attrs());
  NodeId s = add("split3", {x}, "s").node;
  Frozen frozen = freeze({add("add", {Value{s, 2}, Value{s}}, "y")});
  EXPECT_EQ(frozen.graph.numEntries(), 5u);
  EXPECT_EQ(frozen.graph.entry(Value{NodeId(1), 2}), EntryId(3));
  EXPECT_EQ(frozen.graph.firstEntry(NodeId(2)), EntryId(4));
}

TEST_F(GraphBuilderTest, A_4_BaseIdsAreAStablePrefix) {
  Value x = builder.addVariable("x", Attrs());
  Graph base = freeze({add("relu", {x}, "y")}).graph;
  GraphBuilder over(context, base);
  NodeId z =
      cantFail(over.add(*context.ops.find("add"), {Value{NodeId(1)}, Value{NodeId(0)}}, {"z", Attrs(), NodeId(1)}));
  Frozen frozen = cantFail(std::move(over).freeze({base.heads()[0], Value{z}}, {}));
  EXPECT_EQ(names(frozen.graph), "x y z ");
  EXPECT_EQ(frozen.graph.origin(NodeId(2)), NodeId(1));
  EXPECT_FALSE(frozen.graph.origin(NodeId(1)).isValid());
  // Other heads first: the base is renumbered with the rest.
  GraphBuilder other(context, base);
  Value w = other.addVariable("w", Attrs());
  NodeId v = cantFail(other.add(*context.ops.find("add"), {w, Value{NodeId(1)}}, {"v", Attrs(), NodeId()}));
  EXPECT_EQ(names(cantFail(std::move(other).freeze({Value{v}}, {})).graph), "w x y v ");
}

// What became of a graph does not show in it: a dependency and an origin that only dropped nodes had leave nothing
// behind.
TEST_F(GraphBuilderTest, IR_07_EqualGraphsAreEqualHoweverTheyCameAbout) {
  const Value x = builder.addVariable("x", Attrs()), y = add("relu", {x}, "y"), z = add("relu", {y}, "z");
  builder.addControlDep(z.node, x.node);
  builder.setOrigin(z.node, y.node);
  const Frozen all = freeze({y, z});
  const Graph cut = cantFail(GraphBuilder(context, all.graph).freeze({all(y)}, {})).graph;
  GraphBuilder other(context);
  const Value again = other.addVariable("x", Attrs());
  const NodeId relu = cantFail(other.add(*context.ops.find("relu"), again, {"y"}));
  EXPECT_TRUE(cut == cantFail(std::move(other).freeze({Value{relu}}, {})).graph);
}

TEST_F(GraphBuilderTest, NamesMayBeSetLaterAndFromTheirOwnArena) {
  Value x = builder.addVariable("x", Attrs());
  NodeId n = builder.addKind(cantFail(context.opaqueKind("op", Attrs(), 1)), {x}, NodeId());
  EXPECT_EQ(builder.name(n), "");
  builder.setName(n, builder.name(x.node), "_grad");
  EXPECT_EQ(builder.name(n), "x_grad");
  for (int i = 0; i < 1000; ++i) {  // the arena moves while the name is read from it
    NodeId next = builder.addKind(cantFail(context.opaqueKind("op", Attrs(), 1)), {x}, NodeId());
    builder.setName(next, builder.name(n), "y");
    ASSERT_EQ(builder.name(next), builder.name(n).str() + "y");
    n = next;
  }
  for (int i = 0; i < 1000; ++i) {
    NodeId next = builder.addKind(cantFail(context.opaqueKind("op", Attrs(), 1)), {x}, NodeId());
    builder.setName(next, "z", builder.name(n));
    ASSERT_EQ(builder.name(next), "z" + builder.name(n).str());
    n = next;
  }
}

TEST_F(GraphBuilderTest, E_43_CycleThroughAForwardReference) {
  Value x = builder.addVariable("x", Attrs());
  Value a = add("relu", {x}, "a"), b = add("relu", {a}, "b");
  builder.setInput(a.node, 0, b);
  // A reader outside the cycle is not part of it.
  Expected<Frozen> frozen = std::move(builder).freeze({add("relu", {b}, "c")}, {});
  ASSERT_FALSE(frozen);
  EXPECT_EQ(toString(frozen.takeError()), "the graph has a cycle: 'b' -> 'a' -> 'b' [cycle]");
}

TEST_F(GraphBuilderTest, E_43_LongCyclesAreClipped) {
  Value first = builder.addVariable("", Attrs()), v = first;
  std::vector<Value> chain;
  for (int i = 0; i < 100; ++i) chain.push_back(v = add("relu", {v}, "n" + std::to_string(i)));
  builder.addControlDep(chain.front().node, v.node);
  Expected<Frozen> frozen = std::move(builder).freeze({v}, {});
  ASSERT_FALSE(frozen);
  std::string text = toString(frozen.takeError());
  EXPECT_NE(text.find("90 more"), std::string::npos) << text;
}

TEST_F(GraphBuilderTest, E_42_E_48_AddChecksItsInputs) {
  Value x = builder.addVariable("x", Attrs());
  Expected<NodeId> wrong = builder.add(*context.ops.find("add"), {x}, {"y", Attrs(), NodeId()});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(toString(wrong.takeError()), "node 'y': operator 'add' takes 2 inputs, got 1 [arity]");
  wrong = builder.add(*context.ops.find("relu"), {Value{x.node, 1}}, {"y", Attrs(), NodeId()});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(toString(wrong.takeError()), "input 0 of node 'y' is output 1 of node 'x', which has 1 [bad_entry]");
}

TEST_F(GraphBuilderTest, IR_08_ComposingTakesTheLatestVersion) {
  Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
  Value before = add("relu", {s}, "before"), first = add("bump", {x, s}, "first");
  Value between = add("add", {s, x}, "between"), second = add("bump", {between, s}, "second");
  Graph graph = freeze({before, first, second}).graph;
  auto version = [&](uint32_t node, size_t input) { return graph.inputs(NodeId(node))[input].version; };
  EXPECT_EQ(names(graph), "s before x first between second ");
  EXPECT_EQ(version(1, 0), 0);
  EXPECT_EQ(version(3, 1), 1) << "its own entry carries the number it makes";
  EXPECT_EQ(version(3, 0), 0) << "nobody overwrites x";
  EXPECT_EQ(version(4, 0), 1);
  EXPECT_EQ(version(5, 1), 2);
  // Nodes added over a graph continue its version numbers.
  GraphBuilder over(context, graph);
  NodeId third =
      cantFail(over.add(*context.ops.find("bump"), {Value{NodeId(5)}, Value{NodeId(0)}}, {"third", Attrs(), NodeId()}));
  EXPECT_EQ(over.inputs(third)[1].version, 3);
}

TEST_F(GraphBuilderTest, IR_08_E_30_OnlyVariablesAreOverwritten) {
  Value x = builder.addVariable("x", Attrs()), y = add("relu", {x}, "y");
  Expected<NodeId> wrong = builder.add(*context.ops.find("bump"), {x, y}, {"b", Attrs(), NodeId()});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(toString(wrong.takeError()),
            "node 'b' (bump) overwrites input 1, expected a variable there, found node 'y' (relu) [bad_mutation]");
}

TEST_F(GraphBuilderTest, IR_08_VersionsRunOut) {
  Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
  for (uint32_t i = 0; i < kMaxIndex; ++i) add("bump", {x, s}, "b");
  Expected<NodeId> wrong = builder.add(*context.ops.find("bump"), {x, s}, {"b", Attrs(), NodeId()});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(toString(wrong.takeError()),
            "node 'b' makes version 65536 of variable 's', but the largest possible is 65535 [bad_mutation]");
}

TEST_F(GraphBuilderTest, CD_05_E_43_CyclesThroughDependenciesAndEdges) {
  Value x = builder.addVariable("x", Attrs()), a = add("relu", {x}, "a"), b = add("relu", {a}, "b");
  builder.addControlDep(a.node, b.node);
  Expected<Frozen> frozen = std::move(builder).freeze({b}, {});
  ASSERT_FALSE(frozen);
  EXPECT_EQ(toString(frozen.takeError()), "the graph has a cycle: 'b' -> 'a' -> 'b' [cycle]");
}

TEST_F(GraphBuilderTest, CD_04_CopiedNodesKeepTheirDependencies) {
  Value x = builder.addVariable("x", Attrs()), late = add("relu", {x}, "late"), y = add("relu", {x}, "y");
  builder.addControlDep(y.node, late.node);
  Graph base = freeze({y}).graph;
  // Over the base with another order of heads, so that every node moves.
  GraphBuilder over(context, base);
  Value w = over.addVariable("w", Attrs());
  Graph moved = cantFail(std::move(over).freeze({w, base.heads()[0]}, {})).graph;
  EXPECT_EQ(names(moved), "w x late y ");
  ASSERT_EQ(moved.controlDeps(NodeId(3)).size(), 1u);
  EXPECT_EQ(moved.controlDeps(NodeId(3))[0], NodeId(2));
}

TEST_F(GraphBuilderTest, IR_17_EqualNamesAreLegal) {
  Value a = builder.addVariable("w", Attrs()), b = builder.addVariable("w", Attrs());
  Graph graph = freeze({add("add", {a, b}, "y")}).graph;
  EXPECT_EQ(graph.numNodes(), 3u);
  EXPECT_NE(graph.inputs(NodeId(2))[0], graph.inputs(NodeId(2))[1]);
}

TEST_F(GraphBuilderTest, IR_01_ValuesAreNodeIndexAndVersion) {
  const Value v{NodeId(3), 1, 2};
  EXPECT_EQ(v, (Value{NodeId(3), 1, 2}));
  for (Value other : {Value{NodeId(4), 1, 2}, Value{NodeId(3), 0, 2}, Value{NodeId(3), 1, 0}}) EXPECT_NE(v, other);
}

TEST_F(GraphBuilderTest, IR_07_IR_04_FreezingAgainGivesTheSameIds) {
  Value x = builder.addVariable("x", Attrs());
  Value s = add("split3", {x}, "s");
  Graph once = freeze({add("add", {Value{s.node, 1}, x}, "y")}).graph;
  Graph again = cantFail(GraphBuilder(context, once).freeze(once.heads(), {})).graph;
  EXPECT_EQ(ArrayRef(again.columns().kinds), ArrayRef(once.columns().kinds));
  EXPECT_EQ(ArrayRef(again.columns().inputs), ArrayRef(once.columns().inputs));
  EXPECT_EQ(names(again), names(once));
}

TEST(GraphBuilder, CountsHave32Bits) {
  TestContext context;
  auto freeze = [&](size_t numNodes) {
    GraphBuilder builder(context);
    const Value x = builder.addVariable("x", Attrs());
    const KindId kind =
        cantFail(builder.kindId(*context.ops.find("SliceChannel"), context.attrs({{"num_outputs", "65535"}})));
    std::vector<Value> heads;
    for (size_t i = 0; i < numNodes; ++i) heads.push_back(Value{builder.addKind(kind, {x}, NodeId())});
    return std::move(builder).freeze(heads, {});
  };
  EXPECT_EQ(cantFail(freeze(65536)).graph.numEntries(), 65536u * 65535 + 1);
  EXPECT_EQ(describeError(freeze(65538)),
            "[too_large] the graph would have 4295032831 outputs of nodes, more than 4294967280");
}

}  // namespace
}  // namespace gradc::testing
