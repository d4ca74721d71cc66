// Gradients of loops, branches and calls, to any order: the rows of the specification by their numbers, everything else by
// central differences in float64.
#include "ir/body_flow.h"
#include "ir/graph_builder.h"
#include "ir/verify.h"
#include "passes/gradient/gradient.h"
#include "runtime/gradcheck/gradcheck.h"
#include "tests/support/small_ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

using Doubles = std::vector<double>;

Graph loopFile(StringRef name) {
  return cantFail(readJson(testContext(), readTestFile(("testdata/loops/" + name + ".json").str()), ReadOptions()))
      .graph;
}

struct Binding {
  StringRef name;
  std::vector<int64_t> shape;
  Doubles values;
};

std::vector<NamedArray> arraysOf(ArrayRef<Binding> bindings) {
  std::vector<NamedArray> arrays;
  for (const Binding &binding : bindings)
    arrays.push_back({binding.name.str(), doubles(binding.shape, binding.values)});
  return arrays;
}

GradientResult gradientOf(const Graph &graph, ArrayRef<StringRef> wrt, uint32_t order = 1) {
  GradientRequest request;
  for (StringRef name : wrt) request.wrt.push_back({Value{nodeNamed(graph, name)}});
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  GradientResult result = cantFail(buildGradientOfOrder(testContext(), graph, request, options, order));
  EXPECT_EQ(describeError(verifyGraph(result.graph, 5)), "success");
  return result;
}

/// The gradients, in the order asked, run with the reference backend.
std::vector<Doubles> run(const GradientResult &result, ArrayRef<Binding> bindings) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  Session session = cantFail(Session::create(testContext(), result.graph, arraysOf(bindings), options));
  cantFail(session.run(0));
  std::vector<Doubles> values;
  for (const GradientSlot &slot : result.wrt)
    for (size_t h = result.graph.heads().size(); h-- > 0;)
      if (result.graph.heads()[h] == slot.value) {
        values.push_back(valuesOf<double>(session.head(h)));
        break;
      }
  return values;
}

/// A graph whose heads are only these of it, so that the others get no gradient.
Graph onlyHead(const Graph &graph, size_t head) {
  return cantFail(GraphBuilder(testContext(), graph).freeze({graph.heads()[head]}, {})).graph;
}

void expectDerivative(const Graph &graph, ArrayRef<Binding> bindings, uint32_t order) {
  GradcheckOptions options;
  options.session.infer.floatAs = DType::Float64;
  options.session.initSeed = 1;  // of head gradients
  options.order = order;
  options.samples = 60;
  if (order > 1) options.rtol = 1e-5, options.atol = 1e-7;
  Expected<GradcheckReport> report = gradcheck(testContext(), graph, arraysOf(bindings), options);
  ASSERT_TRUE(static_cast<bool>(report)) << describeError(report.takeError());
  EXPECT_TRUE(report->passed()) << "order " << order;
  for (const GradcheckRow &row : report->rows)
    EXPECT_EQ(row.failures, 0u) << row.variable << ", order " << order << ": " << row.worstError;
}

const Binding kCf03[] = {{"x", {3}, {0.5, -1, 2}}, {"s", {1}, {0.25}}, {"f", {1}, {1}}};

TEST(LoopGradient, V_23_CF_02_CF_03_Foreach) {
  const Graph outs = onlyHead(loopFile("cf03"), 0);
  EXPECT_EQ(run(gradientOf(outs, {"x", "s", "f"}), kCf03), (std::vector<Doubles>{{6, 4, 2}, {3}, {6}}));
  // With a head of 10 on the final state.
  const Graph graph = loopFile("cf03");
  GradientRequest request;
  for (StringRef name : {"x", "s", "f"}) request.wrt.push_back({Value{nodeNamed(graph, name)}});
  request.heads = {{graph.heads()[0], std::nullopt, ""}, {graph.heads()[1], std::nullopt, "h"}};
  const GradientResult result = cantFail(buildGradient(testContext(), graph, request, {}));
  std::vector<Binding> bindings(std::begin(kCf03), std::end(kCf03));
  bindings.push_back({"h", {1}, {10}});
  EXPECT_EQ(run(result, bindings), (std::vector<Doubles>{{26, 24, 22}, {13}, {36}}));
}

TEST(LoopGradient, V_23_CF_07_CF_08_While) {
  EXPECT_EQ(run(gradientOf(onlyHead(loopFile("squares"), 1), {"x"}), {{"x", {1}, {2}}, {"i", {1}, {0}}}),
            (std::vector<Doubles>{{1024}}));
  EXPECT_EQ(
      run(gradientOf(onlyHead(loopFile("powers"), 0), {"x", "w"}), {{"x", {1}, {2}}, {"i", {1}, {0}}, {"w", {1}, {3}}}),
      (std::vector<Doubles>{{27}, {54}}));
  EXPECT_EQ(run(gradientOf(onlyHead(loopFile("cf08"), 0), {"x", "i"}), {{"x", {1}, {1}}, {"i", {1}, {1}}}),
            (std::vector<Doubles>{{1}, {2}}));
}

TEST(LoopGradient, V_25_CF_05_D_09_NoStepsPassHeadsOn) {
  EXPECT_EQ(
      run(gradientOf(onlyHead(loopFile("powers"), 0), {"x", "w"}), {{"x", {1}, {2}}, {"i", {1}, {7}}, {"w", {1}, {3}}}),
      (std::vector<Doubles>{{1}, {0}}));
  EXPECT_EQ(run(gradientOf(loopFile("only_states"), {"s", "x"}), {{"x", {0, 1}, {}}, {"s", {1}, {7}}}),
            (std::vector<Doubles>{{1}, {}}));
}

// A state that the body replaces without reading it: its gradient is zero after any step, and its head without one.
TEST(LoopGradient, CF_05_AStateNobodyReads) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
  const AttrText attrs[] = {
      {"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"input_locs", "(0,)"}};
  const Graph body = cantFail(parseGraph(context, "n = square(r)"));
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_scan"), {x, s}, {"loop", context.attrs(attrs), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
  EXPECT_EQ(run(gradientOf(graph, {"s", "x"}), {{"x", {2, 1}, {3, 4}}, {"s", {1}, {5}}}),
            (std::vector<Doubles>{{0}, {0, 8}}));
  EXPECT_EQ(run(gradientOf(graph, {"s"}), {{"x", {0, 1}, {}}, {"s", {1}, {5}}}), (std::vector<Doubles>{{1}}));
}

TEST(LoopGradient, V_24_CF_09_Cond) {
  const Graph graph = loopFile("cond");
  for (double p : {1., -1.})
    EXPECT_EQ(run(gradientOf(graph, {"a", "b", "c", "p"}),
                  {{"p", {1}, {p}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}),
              p > 0 ? (std::vector<Doubles>{{3}, {2}, {0}, {0}}) : (std::vector<Doubles>{{0}, {0}, {10}, {0}}));
}

const Binding kCf11[] = {{"x", {1}, {1}}, {"w", {1}, {2}}, {"n", {3, 1}, {0, 0, 0}}, {"m", {2, 1}, {0, 0}}};

TEST(LoopGradient, V_23_CF_11_LoopsInLoops) {
  EXPECT_EQ(run(gradientOf(loopFile("cf11"), {"x", "w"}), kCf11), (std::vector<Doubles>{{64}, {225}}));
}

const Binding kCf12[] = {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}};

TEST(LoopGradient, V_23_CF_12_Rnn) {
  const std::vector<Doubles> values = run(gradientOf(onlyHead(loopFile("cf12"), 1), {"x", "h", "w"}), kCf12);
  EXPECT_NEAR(values[0][0], 0.565325, 1e-6);
  EXPECT_NEAR(values[0][1], 0.972256, 1e-6);
  EXPECT_NEAR(values[1][0], 0.452260, 1e-6);
  EXPECT_NEAR(values[2][0], 0.564697, 1e-6);
  // The state matters though its start is not asked for.
  EXPECT_EQ(run(gradientOf(onlyHead(loopFile("cf12"), 1), {"w"}), kCf12), (std::vector<Doubles>{values[2]}));
}

// CF-19: the gradient of a loop is a loop, so it has a gradient.
TEST(LoopGradient, CF_19_CF_20_HigherOrders) {
  for (uint32_t order : {1, 2, 3}) {
    expectDerivative(loopFile("cf12"), kCf12, order);
    expectDerivative(loopFile("cf11"), kCf11, order);
    // A counter between whole numbers, so that no difference changes the number of steps.
    expectDerivative(loopFile("powers"), {{"x", {1}, {2}}, {"i", {1}, {0.5}}, {"w", {1}, {1.5}}}, order);
    expectDerivative(loopFile("squares"), {{"x", {1}, {1.1}}, {"i", {1}, {0.5}}}, order);
    for (double p : {1., -1.})
      expectDerivative(loopFile("cond"), {{"p", {1}, {p}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}, order);
  }
}

// A loop with as many steps as its values ask for, in a loop; a branch in a loop.
TEST(LoopGradient, CF_11_CF_20_OneInTheOther) {
  for (uint32_t order : {1, 2}) {
    expectDerivative(loopFile("while_in_foreach"),
                     {{"x", {3, 2}, {0.1, 0.2, 0.3, 0.1, 0.2, 0.4}}, {"h", {2}, {0.5, 0.25}}, {"w", {2}, {0.75, 1.5}}},
                     order);
    expectDerivative(loopFile("branch_in_loop"),
                     {{"x", {4, 2}, {1, 0.5, 1, 0.5, 1, 0.5, 1, 0.5}}, {"s", {2}, {0.1, 0.2}}, {"w", {2}, {0.5, 0.25}}},
                     order);
  }
}

// CF-04, D-08: the gradient carries no state for what is not asked for.
TEST(LoopGradient, CF_04_D_08_AnInputNobodyAsksForIsNoState) {
  const Graph loop = loopFile("cf12");
  auto numStates = [&](ArrayRef<StringRef> names) {
    const GradientResult result = gradientOf(loop, names);
    for (uint32_t n = loop.numNodes(); n < result.graph.numNodes(); ++n)
      if (result.graph.kind(NodeId(n)).flow) return result.graph.kind(NodeId(n)).flow->states.size();
    return size_t{0};
  };
  EXPECT_EQ(numStates({"x", "h"}), 1u);
  EXPECT_EQ(numStates({"x", "h", "w"}), 2u);
}

// CF-16: a state unrelated to what is differentiated is left out of the gradient.
TEST(LoopGradient, CF_16_AnUnrelatedStateIsPruned) {
  const GradientResult result = gradientOf(onlyHead(loopFile("two_states"), 3), {"t", "w"});
  const Graph &graph = result.graph;
  std::vector<size_t> numStates;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.kind(NodeId(n)).flow && graph.kind(NodeId(n)).flow->isReverse)
      numStates.push_back(graph.kind(NodeId(n)).flow->states.size());
  EXPECT_EQ(numStates, std::vector<size_t>{2}) << "that of t, and the sum for w";
}

std::vector<Binding> lstmBindings() {
  std::vector<Binding> bindings = {{"x", {4, 2, 5}, {}},        {"h", {2, 3}, {}},      {"c", {2, 3}, {}},
                                   {"i2h_weight", {12, 5}, {}}, {"i2h_bias", {12}, {}}, {"h2h_weight", {12, 3}, {}},
                                   {"h2h_bias", {12}, {}}};
  double value = 0.1;
  for (Binding &binding : bindings) {
    int64_t size = 1;
    for (int64_t dim : binding.shape) size *= dim;
    for (int64_t i = 0; i < size; ++i) binding.values.push_back((value = 3.7 * value * (1 - value)) - 0.5);
  }
  return bindings;
}

// Nothing is hidden between the loop and its gradient, so both run as often as one likes.
TEST(LoopGradient, RET_06_D_10_ASecondRunGivesTheSame) {
  auto expectSame = [](StringRef file, StringRef x, ArrayRef<Binding> bindings) {
    const GradientResult result = gradientOf(loopFile(file), {x});
    SessionOptions options;
    options.infer.floatAs = DType::Float64;
    Session session = cantFail(Session::create(testContext(), result.graph, arraysOf(bindings), options));
    cantFail(session.run(0));
    const size_t head = result.graph.heads().size() - 1;
    const Doubles first = valuesOf<double>(session.head(head));
    cantFail(session.run(0));
    EXPECT_EQ(valuesOf<double>(session.head(head)), first) << file.str();
    EXPECT_NE(first, Doubles(first.size(), 0)) << file.str();
  };
  expectSame("cf12", "w", kCf12);
  expectSame("lstm", "i2h_weight", lstmBindings());
}

// CF-22: saved outputs and gradient loops are in the file.
TEST(LoopGradient, CF_22_FilesKeepThem) {
  for (StringRef name : {"cf12", "powers", "cf11"}) {
    const Graph graph = gradientOf(loopFile(name), {"w"}, 2).graph;
    const std::string text = written(graph);
    EXPECT_EQ(written(read(testContext(), text).graph), text) << name.str();
  }
}

// Toward what the sums of both have in one order, equal bits: those of the weights are added from the last step on.
TEST(LoopGradient, A_19_ALoopIsItsUnrolledGraph) {
  const std::vector<Binding> bindings = lstmBindings();
  const Graph loop = loopFile("lstm"), unrolled = loopFile("lstm_unrolled");
  const StringRef names[] = {"x", "h", "c", "i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"};
  const std::vector<Doubles> a = run(gradientOf(loop, names), bindings), b = run(gradientOf(unrolled, names), bindings);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size()) << names[i].str();
    for (size_t k = 0; k < a[i].size(); ++k) EXPECT_NEAR(a[i][k], b[i][k], 1e-12) << names[i].str() << " " << k;
  }
  for (size_t i : {0, 1, 2}) EXPECT_EQ(a[i], b[i]) << names[i].str();
}

const Binding kNorm[] = {{"x", {2, 4, 1}, {1, 3, 2, -1, 5, 9, 4, 6}},
                         {"s", {4, 1}, {0.5, -1, 2, 0.25}},
                         {"gamma", {1}, {1.5}},
                         {"beta", {1}, {0.5}},
                         {"moving_mean", {1}, {0}},
                         {"moving_var", {1}, {1}}};

// Statistics that a step moves are moved by the forward loop alone.
TEST(LoopGradient, MUT_06_TheGradientMovesNoStatistics) {
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

// A step reads m, then replaces it by 0.5·m − g: each step's gradient reads what m was before.
TEST(LoopGradient, MUT_03_AStepReadsWhatItThenOverwrites) {
  Context &context = testContext();
  GraphBuilder builder(context);
  SmallVector<Value, 4> operands;
  for (StringRef name : {"x", "w", "g", "m"}) operands.push_back(builder.addVariable(name, Attrs()));
  operands[3].version = 1;
  const AttrText attrs[] = {{"num_args", "4"}, {"num_data", "1"}, {"num_states", "0"}, {"num_out_data", "2"}};
  const Graph body = cantFail(
      parseGraph(context, "y = elemwise_mul(r, m); z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5} ^y; heads y, z"));
  // Inputs in id order: r, m, w, g.
  const AttrText locations[] = {attrs[0], attrs[1], attrs[2], attrs[3], {"input_locs", "(0, 3, 1, 2)"}};
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_scan"), operands, {"loop", context.attrs(locations), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
  const Binding bindings[] = {{"x", {3, 1}, {1, 2, 3}}, {"w", {1}, {9}}, {"g", {1}, {1}}, {"m", {1}, {4}}};
  EXPECT_EQ(run(gradientOf(graph, {"x"}), bindings), (std::vector<Doubles>{{4, 1, -0.5}}));
}

// The gradient of a dropped value is that of the mask drawn at its step.
TEST(LoopGradient, RUN_02_TheGradientHasTheDrawsOfItsStep) {
  Doubles x(4 * 6), h(6);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25 + 0.1 * static_cast<double>(i % 7);
  for (size_t i = 0; i < h.size(); ++i) h[i] = 0.5 - 0.1 * static_cast<double>(i);
  expectDerivative(loopFile("dropout_in_loop"), {{"x", {4, 6}, x}, {"h", {6}, h}}, 1);
}

// What the gradient takes shapes of alone is neither stacked nor computed.
TEST(LoopGradient, A_19_ShapesAloneAreNotStacked) {
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

// E-32: an operator nobody knows, in a body on the path, with the path to it.
TEST(LoopGradient, E_32_AnOpaqueOperatorInABody) {
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

// A rule inside a body that needs the length of a sequence has it at every order.
TEST(LoopGradient, CF_19_ShapesInsideBodiesAtHigherOrders) {
  Context &context = testContext();
  GraphBuilder builder(context);
  SmallVector<Value, 4> operands;
  for (StringRef name : {"x", "w", "h"}) operands.push_back(builder.addVariable(name, Attrs()));
  const AttrText attrs[] = {{"num_args", "3"}, {"num_outputs", "1"}};
  const Graph body =
      cantFail(parseGraph(context, "y = RNN(x, w, h) {mode=rnn_tanh, state_size=2, num_layers=1}; heads y"));
  const NodeId call =
      cantFail(builder.add(*context.ops.find("_call"), operands, {"outer", context.attrs(attrs), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{call}}, {})).graph;
  const InferRequest hints{{{nodeNamed(graph, "x"), {3, 1, 2}}}, {}};
  const Inference known = cantFail(infer(context, graph, hints, {}));
  GradientOptions options;
  options.inference = &known;
  GradientRequest request;
  request.wrt.push_back({Value{nodeNamed(graph, "x")}});
  for (uint32_t order : {2, 3})
    EXPECT_EQ(describeError(buildGradientOfOrder(context, graph, request, options, order)), "success") << order;
}

TEST(LoopGradient, E_13_DrawsThatWouldBeMadeAgainAreRefused) {
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

TEST(LoopGradient, A_19_TheGradientOfALongLoopHasAsManyNodes) {
  const Graph loop = loopFile("lstm");
  const GradientResult first = gradientOf(loop, {"h2h_weight"});
  EXPECT_EQ(first.stats.numForwardNodes, loop.numNodes());
  EXPECT_LT(first.graph.numNodes(), loop.numNodes() + 20);
}

}  // namespace
}  // namespace gradc::testing
