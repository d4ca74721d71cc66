// Gradients of bodies: what they overwrite, draw and take shapes of.
#include "ir/graph/bodies.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/primitives.h"
#include "passes/inference/infer.h"
#include "passes/order/order_mutation.h"
#include "tests/support/runs/loops.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/StringSet.h"

#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

const Binding kNorm[] = {{"x", {2, 4, 1}, {1, 3, 2, -1, 5, 9, 4, 6}},
                         {"s", {4, 1}, {0.5, -1, 2, 0.25}},
                         {"gamma", {1}, {1.5}},
                         {"beta", {1}, {0.5}},
                         {"moving_mean", {1}, {0}},
                         {"moving_var", {1}, {1}}};

// Statistics that a step moves are moved by the forward loop alone.
TEST(BodyGradient, MUT_06_TheGradientMovesNoStatistics) {
  const Graph loop = loopFile("norm_in_loop");
  for (uint32_t order : {1, 2}) expectDerivative(loop, kNorm, order);
  auto meanAfter = [](const Graph &graph) {
    SessionOptions options;
    options.exec.backend = Backend::Reference;
    options.exec.isTraining = true;
    options.infer.floatAs = DType::Float64;
    Session session = cantFail(Session::create(testContext(), graph, arraysOf(kNorm), options));
    cantFail(session.run(0));
    return session.variable(nodeNamed(graph, "moving_mean")).as<double>()[0];
  };
  const GradientResult result = gradientOf(loop, {"x", "gamma"});
  EXPECT_NEAR(meanAfter(loop), 0.9 * (0.1 * 1.25) + 0.1 * 6, 1e-6) << "the momentum is rounded to single precision";
  EXPECT_EQ(meanAfter(result.graph), meanAfter(loop));
  for (uint32_t n = loop.numNodes(); n < result.graph.numNodes(); ++n)
    EXPECT_TRUE(result.graph.kind(NodeId(n)).mutated.isEmpty()) << result.graph.name(NodeId(n)).str();
  const std::string text = written(result.graph);
  EXPECT_EQ(written(read(testContext(), text).graph), text);
}

// A step replaces m by 0.5·m − g, and reads it before or after that: its gradient reads what m was then.
TEST(BodyGradient, MUT_03_AStepReadsWhatItOverwrites) {
  Context &context = testContext();
  auto gradientOfStep = [&](StringRef text, StringRef locations) {
    GraphBuilder builder(context);
    SmallVector<Value, 4> operands;
    for (StringRef name : {"x", "w", "g", "m"}) operands.push_back(builder.addVariable(name, Attrs()));
    operands[3].version = 1;
    const AttrText attrs[] = {
        {"num_args", "4"}, {"num_data", "1"}, {"num_states", "0"}, {"num_out_data", "2"}, {"input_locs", locations}};
    const Graph body = cantFail(parseGraph(context, text));
    const NodeId loop =
        cantFail(builder.add(*context.ops.find("_scan"), operands, {"loop", context.attrs(attrs), NodeId(), body}));
    const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
    const Binding bindings[] = {{"x", {3, 1}, {1, 2, 3}}, {"w", {1}, {9}}, {"g", {1}, {1}}, {"m", {1}, {4}}};
    return run(gradientOf(graph, {"x"}), bindings);
  };
  // Inputs in id order: r, m, w, g.
  EXPECT_EQ(gradientOfStep("y = elemwise_mul(r, m); z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5} ^y; heads y, z",
                           "(0, 3, 1, 2)"),
            (std::vector<Doubles>{{4, 1, -0.5}}));
  // r, then m, before z.
  EXPECT_EQ(
      gradientOfStep("z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5}; y = elemwise_mul(r, m@1) ^z; heads y, z",
                     "(0, 3, 1, 2)"),
      (std::vector<Doubles>{{1, -0.5, -1.25}}));
}

// The loop is given m twice: once to overwrite it, once as it was before.
TEST(BodyGradient, MUT_03_ALoopReadsWhatItOverwrites) {
  Context &context = testContext();
  GraphBuilder builder(context);
  SmallVector<Value, 5> operands;
  for (StringRef name : {"x", "w", "g", "m"}) operands.push_back(builder.addVariable(name, Attrs()));
  operands.push_back(operands[3]);
  operands[3].version = 1;
  const AttrText attrs[] = {{"num_args", "5"},
                            {"num_data", "1"},
                            {"num_states", "0"},
                            {"num_out_data", "2"},
                            {"input_locs", "(0, 4, 1, 2, 3)"}};
  const Graph body = cantFail(
      parseGraph(context, "y = elemwise_mul(r, k); z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5}; heads y, z"));
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_scan"), operands, {"loop", context.attrs(attrs), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
  const Binding bindings[] = {{"x", {3, 1}, {1, 2, 3}}, {"w", {1}, {9}}, {"g", {1}, {1}}, {"m", {1}, {4}}};
  const Graph ordered = cantFail(orderMutations(context, graph, OverwrittenPolicy::Save)).graph;
  EXPECT_EQ(runReading(ordered, bindings, "m"), (std::vector<Doubles>{{4, 8, 12}, {-1.25}}));
  EXPECT_EQ(run(gradientOf(ordered, {"x"}), bindings), (std::vector<Doubles>{{4, 4, 4}}));
  EXPECT_NE(describeError(checkMutationOrder(graph)).find("[stale_version]"), std::string::npos);
}

// The gradient of a dropped value is that of the mask drawn at its step.
TEST(BodyGradient, RUN_02_TheGradientHasTheDrawsOfItsStep) {
  Doubles x(4 * 6), h(6);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25 + 0.1 * static_cast<double>(i % 7);
  for (size_t i = 0; i < h.size(); ++i) h[i] = 0.5 - 0.1 * static_cast<double>(i);
  expectDerivative(loopFile("dropout_in_loop"), {{"x", {4, 6}, x}, {"h", {6}, h}}, 1);
}

// What the gradient takes shapes of alone is neither stacked nor computed.
TEST(BodyGradient, A_19_ShapesAloneAreNotStacked) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
  const AttrText attrs[] = {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}};
  const Graph body = cantFail(parseGraph(context, "a = elemwise_add(x, s); n = tanh(a); heads n"));
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_scan"), {x, s}, {"loop", context.attrs(attrs), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
  const GradientResult result = gradientOf(graph, {"x", "s"});
  EXPECT_EQ(result.graph.numOutputs(nodeNamed(result.graph, "loop")), 2u) << "the final state, and tanh of each step";
  expectDerivative(graph, {{"x", {3, 2}, {0.1, -0.2, 0.3, 0.4, 0.5, -0.6}}, {"s", {2}, {0.5, 0.25}}}, 2);
}

// The gradient of CTCLoss reads what the loss read at the second order: of each step, though the first order needs its
// shape alone.
TEST(BodyGradient, CF_19_WhatHigherOrdersReadIsOfTheStep) {
  Doubles x(2 * 3 * 3), s(3 * 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.5 * std::sin(1.7 * static_cast<double>(i));
  for (size_t i = 0; i < s.size(); ++i) s[i] = 0.5 * std::cos(0.9 * static_cast<double>(i));
  const Binding bindings[] = {{"x", {2, 3, 1, 3}, x}, {"s", {3, 1, 3}, s}, {"label", {1, 1}, {1}}};
  const std::pair<StringRef, StringRef> steps[] = {
      {"m = elemwise_add(d, s); y = CTCLoss(m, l); n = sin(m); heads y, n", "(0, 1, 2)"},
      {"y = CTCLoss(s, l); n = elemwise_add(d, s); heads y, n", "(1, 2, 0)"}};
  for (auto [text, locations] : steps) {
    const AttrText attrs[] = {
        {"num_args", "3"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}, {"input_locs", locations}};
    const Graph graph = around("_scan", {"x", "s", "label"}, attrs, body(text), 2);
    for (uint32_t order : {1, 2}) expectDerivative(graph, bindings, order);
  }
}

// E-32: an unknown operator, in a body on the path, with the path to it.
TEST(BodyGradient, E_32_AnOpaqueOperatorInABody) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs());
  const AttrText attrs[] = {{"num_args", "1"}, {"num_outputs", "1"}};
  const Graph body = cantFail(parseGraph(context, "a = exp(x); y = ?mystery(a)"));
  const NodeId call =
      cantFail(builder.add(*context.ops.find("_call"), {x}, {"outer", context.attrs(attrs), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{call}}, {})).graph;
  GradientRequest request;
  request.wrt.push_back({Value{nodeNamed(graph, "x")}});
  const std::string text = describeError(buildGradient(context, graph, request, {}));
  EXPECT_NE(text.find("[unknown_op]"), std::string::npos) << text;
  EXPECT_NE(text.find("node 'outer' > body > "), std::string::npos) << text;
  EXPECT_NE(text.find("mystery"), std::string::npos) << text;
}

// y = rows · x²; what its gradient operator decomposes to needs the number of rows.
constinit const OpDef kBackwardRowsTimesSquare = {
    .name = "backward_rows_times_square",
    .inputs = {"dy", "x"},
    .shape = shapes::same,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const Value product = d.emit(kElemwiseMul, {d.x(0), d.x(1)});
          d.y(0, d.emit(kMulScalar, {product}, {{"scalar", d.number(2 * d.size(d.x(1), 0))}}));
        },
};
constinit const OpDef kRowsTimesSquare = {
    .name = "rows_times_square",
    .inputs = {"x"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.fused(kBackwardRowsTimesSquare, {g.dy(0), g.x(0)}); },
};

// A rule that needs a size has it at every order, inside bodies as well.
TEST(BodyGradient, CF_19_ShapesInsideBodiesAtHigherOrders) {
  TestContext context;
  for (const OpDef *op : {&kRowsTimesSquare, &kBackwardRowsTimesSquare}) cantFail(context.ops.add(*op));
  const Graph flat = cantFail(parseGraph(context, "y = rows_times_square(x); heads y"));
  GraphBuilder builder(context);
  const AttrText attrs[] = {{"num_args", "1"}, {"num_outputs", "1"}};
  const NodeId call = cantFail(builder.add(*context.ops.find("_call"), {builder.addVariable("x", Attrs())},
                                           {"outer", context.attrs(attrs), NodeId(), flat}));
  const Graph nested = cantFail(std::move(builder).freeze({Value{call}}, {})).graph;
  for (const Graph *graph : {&flat, &nested}) {
    GradientRequest request;
    request.wrt.push_back({Value{nodeNamed(*graph, "x")}});
    const std::string text = describeError(buildGradientOfOrder(context, *graph, request, {}, 2));
    EXPECT_NE(text.find("needs the size of axis 0"), std::string::npos) << text;
    const Inference known = cantFail(infer(context, *graph, {{{nodeNamed(*graph, "x"), {3, 1}}}, {}}, {}));
    GradientOptions options;
    options.inference = &known;
    for (uint32_t order : {2, 3})
      EXPECT_EQ(describeError(buildGradientOfOrder(context, *graph, request, options, order)), "success") << order;
  }
}

TEST(BodyGradient, E_13_DrawsThatWouldBeMadeAgainAreRefused) {
  Context &context = testContext();
  const AttrText attrs[] = {{"num_args", "3"}, {"num_outputs", "1"}};
  for (StringRef p : {"0", "0.5"}) {
    const Graph body = cantFail(parseGraph(
        context, "y = RNN(x, w, h) {mode=rnn_tanh, state_size=2, num_layers=2, p=" + p.str() + "}; heads y"));
    GraphBuilder builder(context);
    SmallVector<Value, 4> given;
    for (StringRef name : {"x", "w", "h"}) given.push_back(builder.addVariable(name, Attrs()));
    const NodeId call =
        cantFail(builder.add(*context.ops.find("_call"), given, {"outer", context.attrs(attrs), NodeId(), body}));
    const Graph graph = cantFail(std::move(builder).freeze({Value{call}}, {})).graph;
    GradientRequest request;
    request.wrt.push_back({Value{nodeNamed(graph, "x")}});
    const std::string text = describeError(buildGradient(context, graph, request, {}));
    EXPECT_EQ(text.find("draws the numbers of its forward node again") != std::string::npos, p != "0") << text;
  }
}

// By name, the nodes that are no part of a forward graph, without what copies, adds up and starts.
std::map<std::string, std::string> gradientNodes(const Graph &graph, const Graph &forward) {
  StringSet<> known;
  for (uint32_t n = 0; n < forward.numNodes(); ++n) known.insert(forward.name(NodeId(n)));
  std::map<std::string, std::string> made;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const StringRef op = graph.opName(NodeId(n));
    const bool isPlain = is_contained({"null", "_copy", "_grad_add", "_identity_with_attr_like_rhs"}, op);
    if (!isPlain && !known.contains(graph.name(NodeId(n)))) made[graph.name(NodeId(n)).str()] = op.str();
  }
  return made;
}

// The gradient of a step is what the same recursion makes of its body, names included.
TEST(BodyGradient, CF_18_AStepsGradientIsThatOfItsBody) {
  const Graph loop = loopFile("lstm");
  const GradientResult whole = gradientOf(loop, {"x", "h", "c", "i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"});
  NodeId forward, backward;
  for (uint32_t n = 0; n < whole.graph.numNodes(); ++n)
    if (whole.graph.kind(NodeId(n)).flow) (n < loop.numNodes() ? forward : backward) = NodeId(n);
  ASSERT_TRUE(forward.isValid() && backward.isValid());
  const Graph step = loop.bodies(forward)[0];
  GradientRequest request;
  for (size_t h = 0; h < step.heads().size(); ++h)
    request.heads.push_back({step.heads()[h], std::nullopt, "head_grad_" + std::to_string(h)});
  for (NodeId n : bodyInputs(step)) request.wrt.push_back({Value{n}});
  GradientOptions options;
  options.duplicates = DuplicatePolicy::Allow;
  const Graph alone = cantFail(buildGradient(testContext(), step, request, options)).graph;
  EXPECT_GT(gradientNodes(alone, step).size(), 10u);
  EXPECT_EQ(gradientNodes(whole.graph.bodies(backward)[0], step), gradientNodes(alone, step));
}

// One counter for all that is made in a graph: names in bodies are unique whatever the style outside, at every depth
// and order.
TEST(BodyGradient, CF_18_OneCounterOfNamesInABody) {
  for (StringRef file : {"lstm", "cf11", "while_in_foreach", "branch_in_loop"})
    for (uint32_t order : {1, 2}) {
      const Graph loop = loopFile(file);
      GradientRequest request;
      request.wrt = allTargets(loop, nullptr).targets;
      GradientOptions options;
      options.naming = NamingStyle::Mxnet;
      options.unused = UnusedPolicy::Zeros;
      const Graph graph = cantFail(buildGradientOfOrder(testContext(), loop, request, options, order)).graph;
      const std::vector<NestedGraph> all = nestedGraphs(graph);
      for (const NestedGraph &nested : ArrayRef(all).drop_front()) {
        StringSet<> names;
        for (uint32_t n = 0; n < nested.graph.numNodes(); ++n)
          EXPECT_TRUE(names.insert(nested.graph.name(NodeId(n))).second)
              << file.str() << ": " << nested.graph.name(NodeId(n)).str();
      }
    }
}

// A start that gets no gradient does not stop the loop: the state of later steps leads to w.
TEST(BodyGradient, D_28_AStoppedStartStopsNothingElse) {
  const Graph loop = loopFile("cf12");
  const Binding bindings[] = {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}};
  GradientRequest request;
  request.heads = {{loop.heads()[1], std::nullopt, ""}};
  for (StringRef name : {"x", "w"}) request.wrt.push_back({Value{nodeNamed(loop, name)}});
  const std::vector<Doubles> free = run(cantFail(buildGradient(testContext(), loop, request, {})), bindings);
  request.noGrad = {Value{nodeNamed(loop, "h")}};
  EXPECT_EQ(run(cantFail(buildGradient(testContext(), loop, request, {})), bindings), free);
  EXPECT_NEAR(free[1][0], 0.564697, 1e-6);
}

}  // namespace
}  // namespace gradc::testing
