// Bodies as part of what a node is: interned, carried by every pass, looked into by those that check and compare.
#include "ir/graph/bodies.h"

#include "formats/json/reader.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/lowering/lower_to.h"
#include "passes/order/order_mutation.h"
#include "tests/support/small_ops.h"
#include "tests/support/test_graph.h"
#include "tools/diff/diff.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

const std::string kBody = fileOf(
    R"({"op": "null", "name": "i", "inputs": []}, {"op": "exp", "name": "j", "inputs": [[0, 0, 0]]})", "[[1, 0, 0]]");
const std::string kOther = fileOf(
    R"({"op": "null", "name": "i", "inputs": []}, {"op": "tanh", "name": "j", "inputs": [[0, 0, 0]]})", "[[1, 0, 0]]");

/// x, then a node per list of bodies, in a chain.
std::string chainOf(StringRef op, std::vector<std::string> bodyLists) {
  std::string nodes = R"({"op": "null", "name": "x", "inputs": []})";
  for (size_t i = 0; i < bodyLists.size(); ++i)
    nodes += ", {\"op\": \"" + op.str() + "\", \"name\": \"f" + std::to_string(i) + "\", \"inputs\": [[" +
             std::to_string(i) + ", 0, 0]], \"subgraphs\": [" + bodyLists[i] + "]}";
  return fileOf(nodes, "[[" + std::to_string(bodyLists.size()) + ", 0, 0]]");
}

Graph readGraph(Context &context, StringRef text) { return cantFail(readJson(context, text, ReadOptions())).graph; }

TEST(Bodies, A_15_EqualBodiesAreOneAndOtherBodiesAnotherKind) {
  TestContext context;
  for (StringRef op : {"for_each", "relu"}) {
    const Graph graph = readGraph(context, chainOf(op, {kBody, kBody, kOther, kBody + ", " + kOther, ""}));
    EXPECT_EQ(graph.kindId(NodeId(1)), graph.kindId(NodeId(2)));
    EXPECT_NE(graph.kindId(NodeId(1)), graph.kindId(NodeId(3)));
    EXPECT_EQ(graph.attrs(NodeId(1)), graph.attrs(NodeId(3)));
    ASSERT_EQ(graph.bodies(NodeId(4)).size(), 2u);
    EXPECT_EQ(&graph.bodies(NodeId(4))[0].columns(), &graph.bodies(NodeId(1))[0].columns());
    EXPECT_EQ(&graph.bodies(NodeId(4))[1].columns(), &graph.bodies(NodeId(3))[0].columns());
    EXPECT_TRUE(graph.bodies(NodeId(5)).empty());
    const std::vector<NestedGraph> all = nestedGraphs(graph);
    ASSERT_EQ(all.size(), 3u) << "each once";
    EXPECT_EQ(all[1].owner, NodeId(1));
    EXPECT_EQ(all[2].owner, NodeId(3));
  }
}

// A builder that knows the kind of a node with bodies does not take it for that of a node without, or with others.
TEST(Bodies, A_15_ABuilderTellsKindsByTheirBodies) {
  TestContext context;
  GraphBuilder builder(context);
  const OpDef &op = *context.ops.find("relu");
  const Graph body = cantFail(parseGraph(context, "y = exp(i)"));
  const KindId with = cantFail(builder.kindId(op, Attrs(), body)), without = cantFail(builder.kindId(op, Attrs()));
  EXPECT_NE(with, without);
  EXPECT_EQ(cantFail(builder.kindId(op, Attrs(), body)), with);
  EXPECT_EQ(cantFail(builder.kindId(op, Attrs())), without);
}

// As many control dependencies, on another node.
TEST(Bodies, A_15_GraphsThatWaitForOtherNodesDiffer) {
  TestContext context;
  const Graph a = cantFail(parseGraph(context, "p = exp(i); q = tanh(i); y = relu(i) ^p; heads p, q, y"));
  const Graph b = cantFail(parseGraph(context, "p = exp(i); q = tanh(i); y = relu(i) ^q; heads p, q, y"));
  EXPECT_FALSE(a == b);
}

// The same nodes under another table are another body, though both share their columns.
TEST(Bodies, A_15_TablesTellBodiesApart) {
  TestContext context;
  const Graph body = cantFail(parseGraph(context, "y = exp(i)"));
  GraphTable table = body.table();
  table.mxnetVersion = 10700;
  const Graph stamped = body.withTable(table);
  ASSERT_EQ(&body.columns(), &stamped.columns());
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs());
  SmallVector<Value, 2> heads;
  for (const Graph &each : {body, stamped, body})
    heads.push_back(Value{builder.addKind(cantFail(context.opaqueKind("loop", Attrs(), 1, each)), x, NodeId())});
  const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
  EXPECT_NE(graph.kindId(heads[0].node), graph.kindId(heads[1].node));
  EXPECT_EQ(graph.kindId(heads[0].node), graph.kindId(heads[2].node));
  EXPECT_EQ(nestedGraphs(graph).size(), 3u);
  const Graph again = readGraph(context, written(graph));
  EXPECT_EQ(again.bodies(heads[0].node)[0].table().mxnetVersion, body.table().mxnetVersion);
  EXPECT_EQ(again.bodies(heads[1].node)[0].table().mxnetVersion, 10700);
}

// Names, heads, control dependencies and graph-level attributes are part of what a body is.
TEST(Bodies, A_15_WhatTellsBodiesApart) {
  TestContext context;
  const std::string nodes =
      R"({"op": "null", "name": "i", "inputs": []}, {"op": "exp", "name": "j", "inputs": [[0, 0, 0]]})";
  const std::string named =
      R"({"op": "null", "name": "i", "inputs": []}, {"op": "exp", "name": "k", "inputs": [[0, 0, 0]]})";
  const std::string waits =
      R"({"op": "null", "name": "i", "inputs": []}, {"op": "exp", "name": "j", "inputs": [[0, 0, 0]], )"
      R"("control_deps": [0]})";
  const std::string other =
      "{\"nodes\": [" + nodes + "], \"arg_nodes\": [], \"heads\": [[1, 0, 0]], \"attrs\": {\"a\": [\"int\", 1]}}";
  const Graph graph = readGraph(
      context, chainOf("loop", {fileOf(nodes, "[[1, 0, 0]]"), fileOf(named, "[[1, 0, 0]]"),
                                fileOf(waits, "[[1, 0, 0]]"), fileOf(nodes, "[[1, 0, 0], [1, 0, 0]]"), other}));
  EXPECT_EQ(nestedGraphs(graph).size(), 6u);
}

TEST(Bodies, E_33_NestingIsBounded) {
  TestContext context;
  Graph graph = readGraph(context, kBody);
  const OpDef &op = *context.ops.find("relu");
  for (uint32_t level = 1; level <= kMaxBodyNesting + 1; ++level) {
    GraphBuilder builder(context);
    const Value x = builder.addVariable("x", Attrs());
    Expected<NodeId> n = builder.add(op, x, {.name = "n", .attrs = Attrs(), .origin = NodeId(), .bodies = graph});
    if (level > kMaxBodyNesting) {
      EXPECT_EQ(describeError(n.takeError()),
                "[bad_json] operator 'relu' would have bodies nested more than 64 levels deep "
                "in operator relu(name=\"n\")");
      EXPECT_EQ(describeError(context.opaqueKind("mystery", Attrs(), 1, graph)),
                "[bad_json] operator 'mystery' would have bodies nested more than 64 levels deep");
      return;
    }
    graph = cantFail(std::move(builder).freeze({Value{cantFail(std::move(n))}}, {})).graph;
    EXPECT_EQ(graph.kind(NodeId(1)).nesting, level);
    EXPECT_EQ(nestedGraphs(graph).size(), level + 1);
  }
}

TEST(Bodies, CF_22_FilesKeepThem) {
  TestContext context;
  const Graph graph = readGraph(context, chainOf("loop", {kBody + ", " + chainOf("inner", {kOther}), kBody}));
  const std::string once = written(graph);
  const Graph again = readGraph(context, once);
  EXPECT_EQ(written(again), once);
  EXPECT_TRUE(graph == again);
}

// A pass that copies a graph with changes keeps the bodies of its nodes: they are part of the kind.
TEST(Bodies, A_15_EveryPassKeepsThem) {
  TestContext context;
  const Graph graph = readGraph(context, chainOf("exp", {kBody, kOther}));
  GradientRequest request;
  request.wrt = {{Value{NodeId(0)}}};
  const Graph gradient = cantFail(buildGradient(context, graph, request, {})).graph;
  const Graph ordered = cantFail(orderMutations(context, gradient, OverwrittenPolicy::Save)).graph;
  const Graph lowered = cantFail(lowerTo(context, ordered, kMxnetTarget, nullptr));
  for (const Graph &emitted : {gradient, ordered, lowered})
    for (StringRef name : {"f0", "f1"}) {
      ArrayRef<Graph> bodies = emitted.bodies(nodeNamed(emitted, name));
      ASSERT_EQ(bodies.size(), 1u) << name.str();
      EXPECT_EQ(&bodies[0].columns(), &graph.bodies(nodeNamed(graph, name))[0].columns());
    }
}

TEST(Bodies, DiffGoesInside) {
  TestContext context;
  auto texts = [&](StringRef left, StringRef right) {
    std::vector<std::string> lines;
    for (const Difference &difference : diffGraphs(readGraph(context, left), readGraph(context, right), {}).differences)
      lines.push_back(difference.text);
    return lines;
  };
  const std::string left = chainOf("loop", {kBody + ", " + chainOf("inner", {kBody}), kBody});
  const std::string right = chainOf("loop", {kBody + ", " + chainOf("inner", {kOther}), kOther});
  const std::string difference = "node 'j' (exp) on the left, node 'j' (tanh) on the right";
  EXPECT_EQ(texts(left, left), std::vector<std::string>());
  // The pair of the last bodies is met first; it is the same as the inner one's.
  EXPECT_EQ(texts(left, right), (std::vector<std::string>{"node 'f1' (loop) > body > " + difference}));
  EXPECT_EQ(texts(chainOf("loop", {chainOf("inner", {kBody})}), chainOf("loop", {chainOf("inner", {kOther})})),
            (std::vector<std::string>{"node 'f0' (loop) > body > node 'f0' (inner) > body > " + difference}));
  EXPECT_EQ(texts(left, chainOf("loop", {kBody, kBody})),
            (std::vector<std::string>{"node 'f0' (loop): number of bodies: 2 on the left, 1 on the right"}));
}

TEST(Bodies, ErrorsNameThePath) {
  TestContext context;
  const Graph graph = readGraph(context, chainOf("loop", {kOther, kOther + ", " + chainOf("inner", {kBody})}));
  const std::vector<NestedGraph> all = nestedGraphs(graph);
  Error error =
      withinBody(Failure(ErrorKind::InferConflict, "node 'j' (exp) is wrong").at(NodeId(1)), all, all.size() - 1);
  handleAllErrors(std::move(error), [&](const GradcError &info) {
    EXPECT_EQ(info.message, "node 'f1' > body 1 > node 'f0' > body > node 'j' (exp) is wrong");
    EXPECT_EQ(info.place.path, (std::vector<BodyStep>{{NodeId(2), 1}, {NodeId(1), 0}}));
    EXPECT_EQ(info.place.node, NodeId(1));
  });
  EXPECT_FALSE(withinBody(Error::success(), all, 1)) << "success stays success";
}

}  // namespace
}  // namespace gradc::testing
