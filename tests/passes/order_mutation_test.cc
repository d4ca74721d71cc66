// Readers of overwritten variables see the version they mean: ordering, saved copies, refusals (§12, §13).
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/order/order_mutation.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

using Numbers = std::vector<double>;

OrderedGraph ordered(TestGraph &g) {
  Expected<OrderedGraph> result = orderMutations(g.context, g, OverwrittenPolicy::Save);
  if (!result) report_fatal_error(StringRef(describeError(result.takeError())));
  return std::move(*result);
}

Numbers firstValues(const Graph &graph, const Bindings &bindings) {
  Numbers values;
  for (const Array &head : evaluate(graph, bindings)) values.push_back(head.values[0]);
  return values;
}

// ---- ordering the forward graph

TEST(OrderMutation, IR_09_WithoutVersionsTheGraphIsReturned) {
  for (StringRef text : {"y = elemwise_add(a, b)", "y = test_accumulate(x, s); z = test_accumulate(y, s)"}) {
    TestGraph g(text);
    OrderedGraph result = ordered(g);
    EXPECT_EQ(&result.graph.columns(), &g.graph.columns());
    EXPECT_EQ(result.newId.size(), g.graph.numNodes());
  }
}

TEST(OrderMutation, IR_09_WriteWaitsForTheReadsBefore) {
  // By its inputs alone m comes first.
  TestGraph g(
      "m = test_accumulate(x, s@1); r = exp(s); q = negative(s); t = elemwise_add(r, q); y = elemwise_add(m, t)");
  EXPECT_EQ(dump(ordered(g).graph), "r = exp(s)\n"
                                    "q = negative(s)\n"
                                    "m = test_accumulate(x, s@1) ^r ^q\n"
                                    "t = elemwise_add(r, q)\n"
                                    "y = elemwise_add(m, t)\n"
                                    "heads y\n");
}

TEST(OrderMutation, IR_09_WriteWaitsForTheLastWriteWhenNobodyReads) {
  TestGraph g("b = test_accumulate(x, s@2); a = test_accumulate(w, s@1); y = elemwise_sub(b, a)");
  Graph graph = ordered(g).graph;
  EXPECT_EQ(dump(graph), "a = test_accumulate(w, s@1)\n"
                         "b = test_accumulate(x, s@2) ^a\n"
                         "y = elemwise_sub(b, a)\n"
                         "heads y\n");
  EXPECT_EQ(firstValues(graph, {{"x", Array(1.0)}, {"w", Array(10.0)}, {"s", Array(100.0)}}), Numbers{111 - 110});
}

TEST(OrderMutation, IR_09_ReadWaitsForTheWriteOfItsVersion) {
  TestGraph g("r = negative(s@1); a = test_accumulate(x, s@1); y = elemwise_mul(r, a)");
  Graph graph = ordered(g).graph;
  EXPECT_EQ(dump(graph), "a = test_accumulate(x, s@1)\n"
                         "r = negative(s@1) ^a\n"
                         "y = elemwise_mul(r, a)\n"
                         "heads y\n");
  EXPECT_EQ(firstValues(graph, {{"x", Array(2.0)}, {"s", Array(3.0)}}), Numbers{-25});
}

TEST(OrderMutation, IR_09_IdsStayWhereTheirOrderIsRight) {
  TestGraph g(
      "r = exp(s); a = test_accumulate(x, s@1); q = negative(s@1); t = elemwise_add(r, a); y = elemwise_add(t, q)");
  OrderedGraph result = ordered(g);
  for (uint32_t n = 0; n < g.graph.numNodes(); ++n) EXPECT_EQ(result.newId[n], NodeId(n));
  EXPECT_EQ(result.numDependencies, 2u);
  EXPECT_EQ(result.numCopies, 0u);
  // No dependency repeats an edge, and a second run adds nothing.
  Expected<OrderedGraph> again = orderMutations(g.context, result.graph, OverwrittenPolicy::Save);
  ASSERT_TRUE(bool(again));
  EXPECT_EQ(&again->graph.columns(), &result.graph.columns());
  TestGraph chained("a = test_accumulate(x, s@1); b = test_accumulate(a, s@2)");
  EXPECT_EQ(ordered(chained).numDependencies, 0u);
}

// Bodies as well, at any depth; a body that would come to its inputs in another order is an error.
TEST(OrderMutation, IR_09_BodiesAreOrdered) {
  Context &context = testContext();
  auto callOf = [&](StringRef text, StringRef numArgs, size_t levels) {
    Graph graph = cantFail(parseGraph(context, text));
    for (size_t level = 0; level < levels; ++level) {
      GraphBuilder builder(context);
      SmallVector<Value, 4> operands;
      for (NodeId n : bodyInputs(graph)) operands.push_back(builder.addVariable(graph.name(n), Attrs()));
      const Attrs attrs = context.attrs({{"num_args", numArgs}, {"num_outputs", "1"}});
      const NodeId call = cantFail(builder.add(*context.ops.find("_call"), operands, {"call", attrs, NodeId(), graph}));
      graph = cantFail(std::move(builder).freeze({Value{call}}, {})).graph;
    }
    return graph;
  };
  const StringRef late = "w = test_accumulate(x, s@1); r = exp(s); y = elemwise_add(w, r)";
  for (size_t levels : {1, 2}) {
    const Graph graph = callOf(late, "2", levels);
    const std::string refused = describeError(checkMutationOrder(graph));
    EXPECT_NE(refused.find("[stale_version] node 'call' > body > "), std::string::npos) << refused;
    const Graph made = cantFail(orderMutations(context, graph, OverwrittenPolicy::Save)).graph;
    EXPECT_EQ(describeError(checkMutationOrder(made)), "success");
    Graph inner = made;
    for (size_t level = 0; level < levels; ++level) inner = Graph(inner.bodies(inner.heads()[0].node)[0]);
    EXPECT_EQ(dump(inner), "r = exp(s)\nw = test_accumulate(x, s@1) ^r\ny = elemwise_add(w, r)\nheads y\n");
    EXPECT_EQ(keyOf(cantFail(orderMutations(context, made, OverwrittenPolicy::Save)).graph), keyOf(made));
  }
  const Graph graph = callOf("w = test_accumulate(x, s@1); a = elemwise_add(w, k); r = elemwise_mul(t, s); "
                             "y = elemwise_add(a, r)",
                             "4", 1);
  size_t numErrors = 0;
  handleAllErrors(orderMutations(context, graph, OverwrittenPolicy::Save).takeError(), [&](const GradcError &refused) {
    ++numErrors;
    EXPECT_EQ(refused.kind, ErrorKind::StaleVersion);
    EXPECT_EQ(StringRef(refused.message).substr(0, 21), "node 'call' > body > ") << refused.message;
    ASSERT_EQ(refused.notes.size(), 1u);
    EXPECT_EQ(StringRef(refused.notes[0].text).substr(0, 40), "in that order, the inputs of the body wo");
  });
  EXPECT_EQ(numErrors, 1u);
}

// Ids in errors are those of the builder's base, where nodes that no head needs are counted too.
TEST(OrderMutation, IR_09_ErrorsOfAFrozenGraphNameNodesOfTheBase) {
  Context &context = testContext();
  // Its inputs would have to trade places.
  const Graph inner = cantFail(parseGraph(context, "w = test_accumulate(x, s@1); a = elemwise_add(w, k); "
                                                   "r = elemwise_mul(t, s); y = elemwise_add(a, r)"));
  GraphBuilder builder(context);
  const KindRef exp = cantFail(context.kind(*context.ops.find("exp"), Attrs()));
  const Value unread = builder.addVariable("unread", Attrs());
  builder.addKind(exp, unread, NodeId());
  SmallVector<Value, 4> operands;
  for (NodeId n : bodyInputs(inner)) operands.push_back(builder.addVariable(inner.name(n), Attrs()));
  const Attrs attrs = context.attrs({{"num_args", "4"}, {"num_outputs", "1"}});
  const NodeId call = cantFail(builder.add(*context.ops.find("_call"), operands, {"call", attrs, NodeId(), inner}));
  Expected<Frozen> frozen = freezeInOrder(std::move(builder), Graph(), Value{call}, OverwrittenPolicy::Save);
  ASSERT_FALSE(bool(frozen));
  handleAllErrors(frozen.takeError(), [&](const GradcError &info) {
    EXPECT_EQ(info.kind, ErrorKind::StaleVersion);
    ASSERT_EQ(info.place.path.size(), 1u);
    EXPECT_EQ(info.place.path[0].owner, call);
    EXPECT_EQ(info.place.node, nodeNamed(inner, "r"));
  });
}

TEST(OrderMutation, IR_09_UsersDependenciesStayFirst) {
  TestGraph g("c = exp(k); r = exp(s); m = test_accumulate(x, s@1) ^c; y = elemwise_add(r, m)");
  EXPECT_NE(dump(ordered(g).graph).find("m = test_accumulate(x, s@1) ^c ^r\n"), std::string::npos);
}

TEST(OrderMutation, VersionsNobodyWritesAreExternal) {
  TestGraph alone("y = test_accumulate(x, s@2)");
  EXPECT_EQ(&ordered(alone).graph.columns(), &alone.graph.columns());
  // A read between two writes stays there, whichever node wrote its version.
  TestGraph between(
      "c = test_accumulate(x, s@9); r = exp(s@5); a = test_accumulate(w, s@1); y = add_n(c, r, a) {num_args=3}");
  std::string text = dump(ordered(between).graph);
  EXPECT_NE(text.find("r = exp(s@5) ^a\n"), std::string::npos) << text;
  EXPECT_NE(text.find("c = test_accumulate(x, s@9) ^r\n"), std::string::npos) << text;
}

TEST(OrderMutation, ReaderBehindTheWriteGetsACopyWhereWaitingClosesACycle) {
  TestGraph g(
      "s_version0 = exp(k); m = test_accumulate(x, s@1); y = elemwise_mul(m, s); z = elemwise_add(y, s_version0)");
  EXPECT_NE(describeError(checkMutationOrder(g)), "success");
  OrderedGraph result = ordered(g);
  EXPECT_EQ(dump(result.graph), "s_version0_1 = _copy(s)\n"
                                "m = test_accumulate(x, s@1) ^s_version0_1\n"
                                "y = elemwise_mul(m, s_version0_1)\n"
                                "s_version0 = exp(k)\n"
                                "z = elemwise_add(y, s_version0)\n"
                                "heads z\n");
  EXPECT_EQ(result.numCopies, 1u);
  EXPECT_EQ(result.newId[g.at("m").node.value], nodeNamed(result.graph, "m"));
  EXPECT_EQ(describeError(checkMutationOrder(result.graph)), "success");
  EXPECT_EQ(firstValues(result.graph, {{"x", Array(2.0)}, {"s", Array(3.0)}, {"k", Array(0.0)}}), Numbers{16});
}

TEST(OrderMutation, IR_01_VersionsOfOneVariableAreDifferentValues) {
  // y reads s before and after m: no order of the two serves both.
  TestGraph g("m = test_accumulate(x, s@1); y = elemwise_mul(s, s@1); z = elemwise_sub(y, m)");
  OrderedGraph result = ordered(g);
  EXPECT_EQ(dump(result.graph), "s_version0 = _copy(s)\n"
                                "m = test_accumulate(x, s@1) ^s_version0\n"
                                "y = elemwise_mul(s_version0, s@1) ^m\n"
                                "z = elemwise_sub(y, m)\n"
                                "heads z\n");
  EXPECT_EQ(firstValues(result.graph, {{"x", Array(2.0)}, {"s", Array(3.0)}}), Numbers{3 * 5 - 5});
}

TEST(OrderMutation, CD_05_E_43_VersionsThatContradictTheEdges) {
  TestGraph g("r = exp(s@1); m = test_accumulate(r, s@1)");
  EXPECT_EQ(describeError(orderMutations(g.context, g, OverwrittenPolicy::Save)),
            "[cycle] the graph has a cycle: 'm' -> 'r' -> 'm'");
}

TEST(OrderMutation, E_30_OnlyVariablesAreOverwritten) {
  TestGraph g("a = exp(x); y = test_accumulate(x, a)");
  EXPECT_EQ(describeError(orderMutations(g.context, g, OverwrittenPolicy::Save)),
            "[bad_mutation] node 'y' (test_accumulate) overwrites node 'a' (exp), expected a variable there");
}

TEST(OrderMutation, E_31_NothingRunsAgainstItsVersions) {
  TestGraph late("m = test_accumulate(x, s@1); r = exp(s); y = elemwise_add(m, r)");
  EXPECT_EQ(
      describeError(checkMutationOrder(late)),
      "[stale_version] node 'r' (exp) needs version 0 of variable 's', which node 'm' (test_accumulate) has already "
      "overwritten with version 1");
  TestGraph early("r = exp(s@1); m = test_accumulate(x, s@1); y = elemwise_add(m, r)");
  EXPECT_EQ(describeError(checkMutationOrder(early)), "success") << "m comes first by its place among y's inputs";
  TestGraph wrong("r = exp(s@1); m = test_accumulate(x, s@1); y = elemwise_add(r, m)");
  EXPECT_EQ(describeError(checkMutationOrder(wrong)),
            "[stale_version] node 'r' (exp) needs what node 'm' (test_accumulate) writes, but runs before it");
}

TEST(OrderMutation, CLI_06_ManyReadersCostLinearTime) {
  constexpr int kReaders = 100000;
  TestContext context;
  GraphBuilder builder(context);
  Value s = builder.addVariable("s", Attrs()), x = builder.addVariable("x", Attrs());
  KindRef bump = cantFail(context.kind(*context.ops.find("test_accumulate"), Attrs()));
  KindRef exp = cantFail(context.kind(*context.ops.find("exp"), Attrs()));
  std::vector<Value> heads{Value{builder.addKind(bump, {x, Value{s.node, 0, 1}}, NodeId())}};
  for (int i = 0; i < kReaders; ++i) heads.push_back(Value{builder.addKind(exp, {s}, NodeId())});
  Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
  OrderedGraph once = cantFail(orderMutations(context, graph, OverwrittenPolicy::Save));
  EXPECT_EQ(once.numDependencies, uint32_t{kReaders});
  EXPECT_EQ(cantFail(orderMutations(context, once.graph, OverwrittenPolicy::Save)).numDependencies, 0u);
}

// ---- gradients of graphs that overwrite variables

class StaleGradient : public ::testing::Test {
 protected:
  // r reads s before the write, q after it.
  TestGraph g{"r = elemwise_mul(x, s); m = test_accumulate(x, s@1); t = elemwise_add(r, m); q = elemwise_mul(t, s@1)"};
  Bindings bindings{{"x", Array(2.0)}, {"s", Array(3.0)}};
  GradientOptions options;

  Expected<GradientResult> build() { return buildGradient(g.context, g, wrt(g, {"x"}), options); }
};

TEST_F(StaleGradient, MUT_03_ReadsTheVersionTheForwardNodeRead) {
  GradientResult result = cantFail(build());
  EXPECT_EQ(describeError(verifyGraph(result.graph, 10)), "success");
  // d/dx (x·s0 + x + s0)·s1 with s1 held: (s0 + 1)·s1
  EXPECT_EQ(firstValues(result.graph, bindings).back(), (3 + 1) * 5.0);
  EXPECT_EQ(countOps(result.graph, "_copy"), 1u);
  const Graph &graph = result.graph;
  NodeId saved = nodeNamed(graph, "s_version0"), write = nodeNamed(graph, "m");
  EXPECT_LT(saved, write);
  EXPECT_EQ(graph.controlDeps(write).back(), saved);
  EXPECT_EQ(graph.inputs(nodeNamed(graph, "r_backward")).back(), Value{saved});
  // The forward node reads the variable itself, and the final version needs no copy.
  EXPECT_EQ(graph.inputs(nodeNamed(graph, "r"))[1], Value{nodeNamed(graph, "s")});
  EXPECT_EQ(graph.inputs(nodeNamed(graph, "q_backward")).back(), (Value{nodeNamed(graph, "s"), 0, 1}));
}

TEST_F(StaleGradient, MUT_03_ForwardNodesNeverWaitForTheBackwardPart) {
  GradientResult result = cantFail(build());
  EXPECT_EQ(result.stats.numForwardNodes, g.graph.numNodes() + 1);
  ASSERT_EQ(result.forwardIds.size(), g.graph.numNodes());
  for (uint32_t n = 0; n < g.graph.numNodes(); ++n) {
    EXPECT_LT(result.forwardIds[n].value, result.stats.numForwardNodes);
    EXPECT_EQ(result.graph.name(result.forwardIds[n]), g.graph.name(NodeId(n)));
  }
  std::optional<GradientTable> table = cantFail(readGradientTable(result.graph));
  EXPECT_EQ(table->heads.back().ofNode, nodeNamed(result.graph, "x"));
}

TEST_F(StaleGradient, E_31_RefusedWhenCopiesAreNotWanted) {
  options.overwritten = OverwrittenPolicy::Error;
  Expected<GradientResult> result = build();
  ASSERT_FALSE(bool(result));
  handleAllErrors(result.takeError(), [&](const GradcError &info) {
    EXPECT_EQ(info.kind, ErrorKind::StaleVersion);
    EXPECT_EQ(info.message, "node 'r_backward' (elemwise_mul) needs version 0 of variable 's', which node 'm' "
                            "(test_accumulate) has already overwritten with version 1");
    EXPECT_EQ(info.place.node, g.at("r").node);
    ASSERT_EQ(info.notes.size(), 1u);
    EXPECT_EQ(info.notes[0].text, "OverwrittenPolicy::Save keeps a copy of what the gradient needs");
  });
}

TEST_F(StaleGradient, E_31_RefusedWithoutACopyOperator) {
  g.context.ops.wellKnown.copy = nullptr;
  EXPECT_EQ(describeError(build()).substr(0, 16), "[stale_version] ");
}

TEST(GradientVersions, MUT_03_EmittedAloneTheWriteStaysWithItsReaders) {
  // Nothing but the version read keeps m: the rules here read neither outputs nor forward nodes after it.
  TestGraph g("m = test_accumulate(x, s@1); q = test_forgetful(m, s@1); k = exp(h); heads q, k");
  GradientOptions options;
  options.gradientOnly = true;
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("q"), g.at("h"), ""}};
  Graph graph = cantFail(buildGradient(g.context, g, request, options)).graph;
  EXPECT_EQ(countOps(graph, "test_forgetful"), 0u);
  EXPECT_EQ(firstValues(graph, {{"x", Array(2.0)}, {"s", Array(3.0)}, {"h", Array(10.0)}}), Numbers{10.0 * 5});
}

TEST_F(StaleGradient, MUT_03_HigherOrders) {
  Graph second = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, 2)).graph;
  EXPECT_EQ(describeError(checkMutationOrder(second)), "success");
  // m comes first by its place in y: keeping the versions gives x another id, which the second order has to follow.
  TestGraph square(
      "m = test_accumulate(w, s@1); r = elemwise_mul(x, s); c = elemwise_mul(r, r); y = elemwise_add(m, c)");
  GradientResult result = gradientOf(square.context, square, {"x"}, 2);
  // y = x²·s0² + w + s0, so 2·x·s0² and 2·s0²
  EXPECT_EQ(firstValues(result.graph, {{"x", Array(2.0)}, {"s", Array(3.0)}, {"w", Array(1.0)}}),
            (Numbers{36 + 4, 2 * 2 * 9, 18}));
}

TEST(GradientVersions, MUT_03_OperatorNeedsTheStateItOverwrites) {
  // y = x·s, s := s + 1, twice: the second reads what the first wrote.
  for (StringRef text :
       {"a = test_scale(x, s@1); y = test_scale(a, s@2)", "a = test_scale(x, s); y = test_scale(a, s)"}) {
    TestGraph g(text);
    GradientResult result = gradientOf(g.context, g, {"x"}, 1);
    const Graph &graph = result.graph;
    EXPECT_EQ(countOps(graph, "_copy"), 2u);
    for (StringRef version : {"0", "1"}) {  // where the file counts versions, the copy says which one it is
      Value source = graph.inputs(nodeNamed(graph, ("s_version" + version).str()))[0];
      EXPECT_EQ(std::to_string(source.version), text.contains('@') ? version.str() : "0");
    }
    EXPECT_EQ(firstValues(result.graph, {{"x", Array(7.0)}, {"s", Array(3.0)}}), (Numbers{7 * 3 * 4, 3 * 4}))
        << text.str();
  }
}

TEST(GradientVersions, MUT_03_OldFilesGoByIdOrder) {
  // Without numbers r reads what is there when it runs: a's work.
  TestGraph g("a = test_accumulate(x, s); r = elemwise_mul(a, s); b = test_accumulate(r, s); y = elemwise_add(r, b)");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  // a = x + s; s1 = a; r = a·s1, and only the first factor carries; b = r + s1; y = 2·r + s1: dx = 2·s1
  EXPECT_EQ(firstValues(result.graph, {{"x", Array(2.0)}, {"s", Array(3.0)}}), (Numbers{55, 10}));
}

TEST(GradientVersions, IR_09_IgnoredStatesAreNoReads) {
  // The gradient of batch norm lists the moving statistics and does not look at them.
  TestGraph g("a = BatchNorm(x, g, b, m@1, v@1) {fix_gamma=False}; y = BatchNorm(a, g, b, m@2, v@2) {fix_gamma=False}");
  GradientResult result = gradientOf(g.context, g, {"x"}, 1);
  EXPECT_EQ(countOps(result.graph, "_copy"), 0u);
  EXPECT_TRUE(result.forwardIds.empty());
  EXPECT_EQ(ordered(g).numDependencies, 0u);
}

TEST(GradientVersions, A_GraphWithoutMutationIsFrozenAsItIs) {
  TestGraph g("y = elemwise_mul(a, b@3)");
  EXPECT_TRUE(gradientOf(g.context, g, {"a"}, 1).forwardIds.empty());
}

// Each order saves versions for its own readers, and forward nodes move each time.
TEST(GradientVersions, MUT_03_EveryOrderSaysWhereNodesWent) {
  TestGraph g("y = test_scale(x, s@1); z = elemwise_mul(y, y); k = exp(u); heads z, k");
  GradientRequest request = wrt(g, {"x"});
  request.heads = {{g.at("z"), std::nullopt, ""}};
  request.retained = {{g.at("u"), Request::Write}};
  GradientOptions options;
  options.zeroTerms = ZeroPolicy::Keep;
  for (uint32_t order : {1u, 2u, 3u}) {
    GradientResult result = cantFail(buildGradientOfOrder(g.context, g, request, options, order));
    ASSERT_EQ(result.forwardIds.size(), g.graph.numNodes());
    for (uint32_t n = 0; n < g.graph.numNodes(); ++n)
      EXPECT_EQ(result.graph.name(result.forwardIds[n]), g.graph.name(NodeId(n))) << order;
    const std::optional<GradientTable> table = cantFail(readGradientTable(result.graph));
    for (const GradientTable::Head &head : table->heads) {
      if (!head.ofNode.isValid()) continue;
      EXPECT_EQ(result.graph.name(head.ofNode), head.of) << order;
    }
  }
}

}  // namespace
}  // namespace gradc
