// Operators of our own in MXNet's words, or a refusal.
#include "formats/json/graph_table.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"
#include "passes/lowering/lower_to.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(LowerMxnet, A_14_GraphsMxnetKnowsStayAndAreStamped) {
  TestGraph g("a = exp(w); y = relu(x) ^a; s = test_split3(y); heads s:1, y");
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  Graph lowered = cantFail(lowerTo(g.context, graph, kMxnetTarget, nullptr));
  EXPECT_EQ(dump(lowered), dump(graph));
  EXPECT_EQ(graphAttrsOf(lowered).at("mxnet_version").number, 10901);
}

// MXNet would compute b into the sum, where its loops overwrite.
TEST(LowerMxnet, A_14_RunningSumsAreSums) {
  TestGraph g("a = exp(x); b = sin(x); y = _grad_add(a, b)");
  EXPECT_EQ(dump(cantFail(lowerTo(g.context, g, kMxnetTarget, nullptr))),
            "a = exp(x)\nb = sin(x)\ny = elemwise_add(a, b)\nheads y\n");
}

TEST(LowerMxnet, A_14_LossesReadTheOutputAgain) {
  TestGraph g("f = FullyConnected(x, w, b) {num_hidden=3}; y = SoftmaxOutput(f, label)");
  Graph graph = gradientOf(g.context, g, {"w", "b"}, 1).graph;
  EXPECT_EQ(countOps(graph, "_SoftmaxOutput_grad"), 1u);
  Graph lowered = cantFail(lowerTo(g.context, graph, kMxnetTarget, nullptr));
  EXPECT_EQ(dumpFrom(lowered, 6, 1), "y_backward = _backward_SoftmaxOutput(y, label) ^y\n"
                                     "f_backward = _backward_FullyConnected(y_backward, x, w) ^f\n"
                                     "heads f_backward:1, f_backward:2\n");
  Bindings bindings{{"x", Array(std::vector<int64_t>{2, 2}, {1, 2, 3, -4})},
                    {"w", Array(std::vector<int64_t>{3, 2}, {1, -1, 0.5, 2, -0.25, 1})},
                    {"b", Array(std::vector<double>{0.1, 0.2, 0.3})},
                    {"label", Array(std::vector<double>{2, 0})}};
  std::vector<Array> before = evaluate(graph, bindings), after = evaluate(lowered, bindings);
  for (size_t head = 0; head < 3; ++head)
    for (size_t i = 0; i < before[head].values.size(); ++i)
      EXPECT_NEAR(before[head].values[i], after[head].values[i], 1e-14);
}

// Found by fuzzing: where the last axis is empty, the number of rows cannot be inferred from that of the elements.
TEST(LowerMxnet, A_14_MatricesWithoutColumnsKeepTheirRows) {
  for (const DimsBuffer &dims : {DimsBuffer{0}, DimsBuffer{3, 0}, DimsBuffer{2, 1, 2, 0}, DimsBuffer{0, 2, 3}}) {
    TestGraph g("y = _as_rows(x)");
    auto shapeOfHead = [&](const Graph &graph, const Inference &known) {
      return toString(known.shapeOf(graph.entry(graph.heads()[0])));
    };
    auto inferred = [&](const Graph &graph) {
      return cantFail(infer(g.context, graph, {{{nodeNamed(graph, "x"), dims}}, {}}, InferOptions()));
    };
    const Inference known = inferred(g);
    const Graph lowered = cantFail(lowerTo(g.context, g, kMxnetTarget, &known));
    EXPECT_EQ(shapeOfHead(lowered, inferred(lowered)), shapeOfHead(g, known)) << dump(lowered);
  }
}

// Found by fuzzing: what a gradient operator waits for first is its forward node, and this one has none.
TEST(LowerMxnet, INF_08_AGradientWithoutForwardNodeWaitsForNothing) {
  TestGraph g("a = exp(w); y = _scatter_nd(x, u, i) {reduction=add} ^a");
  const InferRequest hints{{{nodeNamed(g, "x"), {3}}, {nodeNamed(g, "u"), {2}}, {nodeNamed(g, "i"), {1, 2}}}, {}};
  InferOptions options;
  options.allowUnknown = true;
  const Inference known = cantFail(infer(g.context, g, hints, options));
  const Graph lowered = cantFail(lowerTo(g.context, g, kMxnetTarget, &known));
  EXPECT_EQ(dump(lowered), "a = exp(w)\ny_0 = _copy(u) ^a\ny_1 = _backward_gather_nd(y_0, i)\n"
                           "y = elemwise_add(x, y_1) ^a\nheads y\n");
  EXPECT_TRUE(bool(infer(g.context, lowered, {}, options)));
}

// Found by fuzzing: _take_along_axis tells the shape of what it reads, gather_nd does not.
TEST(LowerMxnet, A_14_INF_01_ShapesThatAReaderToldAreKept) {
  auto lowered = [](StringRef text) {
    TestGraph g(text);
    const InferRequest hints{{{nodeNamed(g, "x"), {8}}, {nodeNamed(g, "i"), {2, 2, 2}}}, {}};
    const Inference known = cantFail(infer(g.context, g, hints, {}));
    const Graph made = cantFail(lowerTo(g.context, g, kMxnetTarget, &known));
    const InferRequest again{{{nodeNamed(made, "x"), {8}}, {nodeNamed(made, "i"), {2, 2, 2}}}, {}};
    EXPECT_TRUE(bool(infer(g.context, made, again, {})));
    const NodeId reshape = nodeNamed(made, "r");
    return made.attrs(reshape).get("shape").value_or("").str();
  };
  EXPECT_EQ(lowered("r = Reshape(x); y = _take_along_axis(r, i) {axis=0}"), "(2, 2, 2)");
  EXPECT_EQ(lowered("r = Reshape(x); y = _take_along_axis(r, i) {axis=0}; z = elemwise_add(r, i); heads y, z"), "");
  EXPECT_EQ(lowered("r = Reshape(x) {shape=(2,-1,2)}; y = _take_along_axis(r, i) {axis=0}"), "(2,-1,2)");
}

// MXNet's operator leaves the gradient of the input that only gives the shape as it finds it.
TEST(LowerMxnet, A_14_TheGradientOfAShapeIsZeros) {
  TestGraph g("y = _contrib_BilinearResize2D(x, s) {mode=like}");
  const Bindings bindings{{"x", Array(std::vector<int64_t>{1, 1, 2, 2}, {1, 2, 3, -4})},
                          {"s", Array(std::vector<int64_t>{1, 1, 1, 3}, {7, 8, 9})}};
  auto lowered = [&](ArrayRef<StringRef> wrt) {
    const Graph graph = gradientOf(g.context, g, wrt, 1).graph;
    const Graph made = cantFail(lowerTo(g.context, graph, kMxnetTarget, nullptr));
    const std::vector<Array> before = evaluate(graph, bindings), after = evaluate(made, bindings);
    for (size_t head = 0; head < before.size(); ++head) EXPECT_EQ(before[head].values, after[head].values);
    return dump(made);
  };
  const std::string forward = "y = _contrib_BilinearResize2D(x, s)\n_head_grad_0 = ones_like(y)\n",
                    resized = "y_backward = _backward_contrib_BilinearResize2D(_head_grad_0) ^y\n";
  EXPECT_EQ(lowered({"x"}), forward + resized + "heads y, y_backward\n");
  EXPECT_EQ(lowered({"x", "s"}),
            forward + resized + "y_backward_0 = zeros_like(s) ^y\nheads y, y_backward, y_backward_0\n");
  EXPECT_EQ(lowered({"s"}),
            "y = _contrib_BilinearResize2D(x, s)\ny_backward = zeros_like(s) ^y\nheads y, y_backward\n");
}

TEST(LowerMxnet, A_14_TheSideTableFollowsTheNodes) {
  TestGraph g("y = SoftmaxOutput(x, label)");
  Graph lowered = cantFail(lowerTo(g.context, gradientOf(g.context, g, {"x"}, 1).graph, kMxnetTarget, nullptr));
  Expected<std::optional<GradientTable>> table = readGradientTable(lowered);
  ASSERT_TRUE(table && *table);
  EXPECT_EQ((*table)->heads[1].ofNode, nodeNamed(lowered, "x"));
}

TEST(LowerMxnet, A_14_RefusalNamesNodeAndOperator) {
  TestGraph g("c = Convolution(x, w) {kernel=(2,2), num_filter=2, no_bias=True}; y = tanh(c)");
  Graph graph = gradientOf(g.context, g, {"w", "x"}, 2).graph;
  std::string error = describeError(lowerTo(g.context, graph, kMxnetTarget, nullptr));
  EXPECT_EQ(error.substr(0, 24), "[unknown_op] operator '_");
  EXPECT_NE(error.find("of node 'c_backward"), std::string::npos);
}

TEST(LowerMxnet, NAME_11_ScopeAndDeviceFollowIntoReplacements) {
  TestGraph g("m = max(x) {axis=1, __ctx_group__=dev1, __profiler_scope__=net:}; y = square(m)");
  Graph graph = gradientOf(g.context, g, {"x"}, 2).graph;
  ASSERT_EQ(countOps(graph, "_repeat_axes_like"), 1u);
  Graph lowered = cantFail(lowerTo(g.context, graph, kMxnetTarget, nullptr));
  EXPECT_EQ(countOps(lowered, "broadcast_like"), 1u);
  for (uint32_t n = 0; n < lowered.numNodes(); ++n) {
    NodeId id(n);
    StringRef origin = lowered.origin(id).isValid() ? lowered.name(lowered.origin(id)) : lowered.name(id);
    EXPECT_EQ(lowered.attrs(id).get("__ctx_group__").value_or("-"), origin == "m" ? "dev1" : "-");
    EXPECT_EQ(lowered.attrs(id).get("__profiler_scope__").value_or("-"), origin == "m" ? "net:" : "-");
  }
  Bindings bindings{{"x", Array(std::vector<int64_t>{2, 2}, {1, 2, 3, -4})}};
  std::vector<Array> before = evaluate(graph, bindings), after = evaluate(lowered, bindings);
  ASSERT_EQ(before.size(), after.size());
  for (size_t head = 0; head < before.size(); ++head) EXPECT_EQ(before[head].values, after[head].values);
}

TEST(LowerMxnet, NAME_11_OneOfSeveralReplacementsTakesAllAttributes) {
  TestGraph g("y = SoftmaxOutput(x, label) {out_grad=True, __ctx_group__=dev1, __lr_mult__=2}");
  Graph lowered = cantFail(lowerTo(g.context, gradientOf(g.context, g, {"x"}, 1).graph, kMxnetTarget, nullptr));
  auto attr = [&](const char *node, StringRef key) {
    return lowered.attrs(nodeNamed(lowered, node)).get(key).value_or("-").str();
  };
  EXPECT_EQ(attr("y_backward_0", "__ctx_group__") + attr("y_backward", "__ctx_group__"), "dev1dev1");
  EXPECT_EQ(attr("y_backward_0", "__lr_mult__") + attr("y_backward", "__lr_mult__"), "2-");
}

TEST(LowerMxnet, NAME_09_NodesOfReplacementsHaveNamesOfTheirOwn) {
  TestGraph g("y_backward_0 = exp(x); y = SoftmaxOutput(y_backward_0, label) {out_grad=True}");
  Graph lowered = cantFail(lowerTo(g.context, gradientOf(g.context, g, {"x"}, 1).graph, kMxnetTarget, nullptr));
  EXPECT_EQ(lowered.opName(nodeNamed(lowered, "y_backward_0")), "exp");
  EXPECT_EQ(lowered.opName(nodeNamed(lowered, "y_backward_1")), "_backward_SoftmaxOutput");
  EXPECT_EQ(lowered.opName(nodeNamed(lowered, "y_backward")), "elemwise_mul");
}

TEST(LowerMxnet, EqualRandomAndMutatingNodesStayApart) {
  TestGraph g("a = Dropout(x); b = Dropout(x); c = BatchNorm(x, s, t, m@1, v@1); d = BatchNorm(x, s, t, m@2, v@2);"
              "y = add_n(a, b, c, d) {num_args=4}");
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph,
        lowered = cantFail(lowerTo(g.context, graph, kMxnetTarget, nullptr));
  for (const Graph *emitted : {&graph, &lowered})
    for (const char *op : {"Dropout", "BatchNorm", "_backward_Dropout", "_backward_BatchNorm"})
      EXPECT_EQ(countOps(*emitted, op), 2u) << op;
}

// Rows of a vector have an axis there.
TEST(LowerMxnet, CF_01_StacksOfValuesWithoutAxes) {
  TestContext context;
  const Graph step = cantFail(
      parseGraph(context, "e = sum(x); p = reshape_like(e, s); q = elemwise_mul(p, s); n = sin(q); heads n, n"));
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
  const Attrs attrs = context.attrs({{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}});
  const NodeId loop = cantFail(builder.add(*context.ops.find("_scan"), {x, s}, {"loop", attrs, NodeId(), step}));
  const Graph forward = cantFail(std::move(builder).freeze({Value{loop}, Value{loop, 1}}, {})).graph;
  const Graph graph = gradientOf(context, forward, {"x", "s"}, 1).graph;
  for (bool hasAxis : {true, false}) {
    const DimsBuffer state(hasAxis ? 1 : 0, 1);
    const InferRequest hints{{{nodeNamed(graph, "x"), {3, 2}}, {nodeNamed(graph, "s"), state}}, {}};
    const Inference known = cantFail(infer(context, graph, hints, {}));
    const std::string outcome = describeError(lowerTo(context, graph, kMxnetTarget, &known));
    if (hasAxis) EXPECT_EQ(outcome, "success");
    else
      EXPECT_NE(outcome.find("reads values without axes that a loop stacked as input"), std::string::npos) << outcome;
  }
}

TEST(LowerMxnet, ListsOverEntriesAreDropped) {
  TestGraph g("x = var {__shape__=(2,3)}; y = SoftmaxOutput(x, label)");
  Graph graph = gradientOf(g.context, g, {"x"}, 1).graph;
  Graph lowered =
      cantFail(lowerTo(g.context, annotate(graph, cantFail(infer(g.context, graph, {}, {}))), kMxnetTarget, nullptr));
  EXPECT_EQ(graphAttrsOf(lowered).count("shape"), 0u);
}

}  // namespace
}  // namespace gradc
