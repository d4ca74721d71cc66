// Gradients of loops, branches and calls, to any order: the rows of the specification by their numbers, everything else
// by central differences in float64.
#include "ir/graph/body_flow.h"
#include "ir/graph/graph_builder.h"
#include "ir/op/attr_spec.h"
#include "ops/registry.h"
#include "passes/memory/plan_memory.h"
#include "passes/unroll/unroll.h"
#include "tests/support/runs/loops.h"
#include "tests/support/small_ops.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

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

TEST(LoopGradient, V_24_CF_09_ASK_05_Cond) {
  const Graph graph = loopFile("cond");
  for (double p : {1., -1.})
    EXPECT_EQ(run(gradientOf(graph, {"a", "b", "c", "p"}),
                  {{"p", {1}, {p}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}),
              p > 0 ? (std::vector<Doubles>{{3}, {2}, {0}, {0}}) : (std::vector<Doubles>{{0}, {0}, {10}, {0}}));
}

// First the body that decides, then those it decides about, in the file, in the forward node and in its gradient.
TEST(LoopGradient, IR_10_BodiesKeepTheirOrder) {
  auto operators = [](const NodeKind &kind) {
    std::vector<std::string> names;
    for (const Graph &body : kind.bodies) names.push_back(body.opName(body.heads()[0].node).str());
    return names;
  };
  auto flowsOf = [](const Graph &graph) {
    std::vector<const NodeKind *> kinds;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.kind(NodeId(n)).flow) kinds.push_back(&graph.kind(NodeId(n)));
    return kinds;
  };
  EXPECT_EQ(operators(*flowsOf(loopFile("powers"))[0]), (std::vector<std::string>{"_lesser_scalar", "elemwise_mul"}));
  const Graph branch = loopFile("cond");
  const GradientResult result = gradientOf(branch, {"a", "c"});
  const std::vector<const NodeKind *> flows = flowsOf(result.graph);
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(operators(*flows[0]), operators(*flowsOf(branch)[0]));
  ASSERT_EQ(flows[1]->bodies.size(), 3u);
  EXPECT_EQ(flows[1]->bodies[0].numNodes(), 1u) << "the decision is that of the forward node";
  // The first branch is a·b, the second c².
  for (double p : {1., -1.})
    EXPECT_EQ(run(result, {{"p", {1}, {p}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}),
              p > 0 ? (std::vector<Doubles>{{3}, {0}}) : (std::vector<Doubles>{{0}, {10}}));
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
  // The state matters though its start is not requested.
  EXPECT_EQ(run(gradientOf(onlyHead(loopFile("cf12"), 1), {"w"}), kCf12), (std::vector<Doubles>{values[2]}));
}

// CF-19: the gradient of a loop is a loop, so it has a gradient.
TEST(LoopGradient, CF_19_CF_20_ASK_03_ASK_04_HigherOrders) {
  for (uint32_t order : {1, 2, 3}) {
    expectDerivative(loopFile("cf12"), kCf12, order);
    expectDerivative(loopFile("cf11"), kCf11, order);
    expectDerivative(loopFile("powers"), {{"x", {1}, {2}}, {"i", {1}, {0}}, {"w", {1}, {1.5}}}, order);
    expectDerivative(loopFile("squares"), {{"x", {1}, {1.1}}, {"i", {1}, {0}}}, order);
    for (double p : {1., -1.})
      expectDerivative(loopFile("curved_cond"), {{"p", {1}, {p}}, {"a", {1}, {2}}, {"b", {1}, {0.5}}}, order);
  }
}

// A loop with as many steps as its values ask for, in a loop; a branch in a loop.
// The gradient toward u of that toward v, which reads other values of the body: those of both are saved.
Graph gradientOfGradient(const Graph &graph, StringRef v, StringRef u) {
  const GradientResult first = gradientOf(graph, {v});
  GradientRequest request;
  request.heads = {{first.wrt[0].value, std::nullopt, ""}};
  request.wrt = {{Value{nodeNamed(first.graph, u)}}};
  return cantFail(buildGradient(testContext(), first.graph, request, {})).graph;
}

TEST(LoopGradient, CF_19_CF_20_ASecondGradientSavesMore) {
  // Σ v·sin(exp(u·x)), and v·sin(exp(u·x)) or v·u·x.
  const std::string first = "p = elemwise_mul(x, u); q = exp(p); t = sin(q); z = elemwise_mul(t, v); heads z";
  const Graph loop = gradientOfGradient(around("_foreach", {"x", "u", "v"},
                                               {{"num_args", "4"},
                                                {"num_outputs", "1"},
                                                {"num_out_data", "1"},
                                                {"in_data_locs", "(0,)"},
                                                {"in_state_locs", "()"},
                                                {"remain_locs", "(1, 2)"}},
                                               body(first), 1),
                                        "v", "u");
  EXPECT_EQ(loop.attrs(nodeNamed(loop, "loop")).get("__saved__"), std::optional<StringRef>("(1,1,)"));
  const double u = 0.3;
  auto inner = [&](double x) { return std::sin(std::exp(u * x)); };
  auto slope = [&](double x) { return std::cos(std::exp(u * x)) * std::exp(u * x) * x; };
  std::vector<Doubles> found = runReading(loop, {{"x", {2, 1}, {0.5, -1}}, {"u", {1}, {u}}, {"v", {1}, {1.5}}}, "u");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_NEAR(found[1][0], inner(0.5) + inner(-1), 1e-14);
  EXPECT_NEAR(found[2][0], slope(0.5) + slope(-1), 1e-14);
  const Graph branch = gradientOfGradient(
      around("_cond", {"p", "x", "u", "v"},
             {{"num_args", "7"},
              {"num_outputs", "1"},
              {"cond_input_locs", "(0,)"},
              {"then_input_locs", "(1, 2, 3)"},
              {"else_input_locs", "(1, 2, 3)"}},
             {body("q = _copy(p)"), body(first), body("p = elemwise_mul(x, u); z = elemwise_mul(p, v); heads z")}, 1),
      "v", "u");
  EXPECT_EQ(branch.attrs(nodeNamed(branch, "loop")).get("__saved__"), std::optional<StringRef>("(1,1,1,0,)"));
  for (bool isFirst : {true, false}) {
    found = runReading(branch, {{"p", {1}, {isFirst ? 1. : 0.}}, {"x", {1}, {0.5}}, {"u", {1}, {u}}, {"v", {1}, {1.5}}},
                       "u");
    ASSERT_EQ(found.size(), 4u);
    EXPECT_NEAR(found[1][0], isFirst ? inner(0.5) : u * 0.5, 1e-14);
    EXPECT_NEAR(found[2][0], isFirst ? slope(0.5) : 0.5, 1e-14);
  }
}

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

// CF-04, D-08: the gradient carries no state for what is not requested.
TEST(LoopGradient, CF_04_D_08_ASK_09_AnInputNobodyAsksForIsNoState) {
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

/// Whether a loop saves values, and so one runs backward.
bool isSaving(const Graph &loop, const GradientRequest &request) {
  const Graph graph = cantFail(buildGradient(testContext(), loop, request, GradientOptions())).graph;
  bool saves = false, runsBackward = false;
  for (const KindRef &kind : graph.kinds()) {
    saves |= kind->attrs.get("__saved__").has_value();
    runsBackward |= kind->flow && kind->flow->isReverse;
  }
  EXPECT_EQ(saves, runsBackward);
  return saves;
}

// Nothing flows into a loop whose output is stopped, by request or by an operator: it saves nothing, and no loop runs
// backward.
TEST(LoopGradient, STOP_01_STOP_03_A_19_AStoppedLoopSavesNothing) {
  const Graph loop = loopFile("cf12");  // for the gradient of w each step saves the state it began with
  for (Value head : loop.heads())
    for (StringRef op : {"", "_copy", "BlockGrad", "zeros_like"}) {
      GraphBuilder builder(testContext(), loop);
      const auto add = [&](StringRef name, Value of) {
        return Value{cantFail(builder.add(*testContext().ops.find(name), {of}, {}))};
      };
      const Value heads[] = {op.empty() ? head : add(op, head), add("exp", Value{nodeNamed(loop, "w")})};
      const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
      GradientRequest request;
      for (Value y : graph.heads()) request.heads.push_back({y, std::nullopt, ""});
      request.wrt = {{Value{nodeNamed(graph, "w")}}};
      EXPECT_EQ(isSaving(graph, request), op.empty() || op == "_copy") << op.str();
      request.stop = {op.empty() ? graph.heads()[0] : graph.inputs(graph.heads()[0].node)[0]};
      EXPECT_FALSE(isSaving(graph, request)) << op.str();
    }
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

TEST(LoopGradient, A_19_TheGradientOfALongLoopHasAsManyNodes) {
  const Graph loop = loopFile("lstm");
  const GradientResult first = gradientOf(loop, {"h2h_weight"});
  EXPECT_EQ(first.stats.numForwardNodes, loop.numNodes());
  EXPECT_LT(first.graph.numNodes(), loop.numNodes() + 20);
}

// What the gradient of a loop plans is what it stacks and one body: no more than the same steps unrolled.
TEST(LoopGradient, MEM_03_TheGradientOfALoopPlansNoMoreThanThatOfItsSteps) {
  Context &context = testContext();
  std::string text = readTestFile("testdata/loops/lstm.json");
  for (size_t at = text.find("\"12\""); at != std::string::npos; at = text.find("\"12\""))
    text.replace(at, 4, "\"256\"");
  const Graph loop = cantFail(readJson(context, text, ReadOptions())).graph;
  auto hintsOf = [](const Graph &graph) {
    return InferRequest{{{nodeNamed(graph, "x"), {100, 1, 64}}, {nodeNamed(graph, "h"), {1, 64}}}, {}};
  };
  const Inference known = cantFail(infer(context, loop, hintsOf(loop), {}));
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  const Graph unrolled = cantFail(unrollLoops(context, loop, options)).graph;
  auto plannedBytes = [&](const Graph &graph) {
    const Graph gradient = gradientOf(graph, {"x", "i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"}).graph;
    const Inference inference = cantFail(infer(context, gradient, hintsOf(gradient), {}));
    return cantFail(planMemory(context, gradient, inference, countRequests(gradient, {}), {})).plannedBytes;
  };
  EXPECT_LE(static_cast<double>(plannedBytes(loop)), 1.05 * static_cast<double>(plannedBytes(unrolled)));
}

// The gradient of what a loop stacked has its shape already; that of x, a vector whose rows have an axis, has not.
TEST(LoopGradient, CF_01_CF_19_GradientsOfStacksAreNotReshaped) {
  const Graph loop = onlyHead(loopFile("cf12"), 1);
  EXPECT_EQ(countOps(gradientOf(loop, {"w"}, 2).graph, "reshape_like"), 0u);
  EXPECT_EQ(countOps(gradientOf(loop, {"x"}).graph, "reshape_like"), 1u);
}

// The gradient of a head is ones like the head, so it depends on x by rules that give zeros: no loop saves for those.
TEST(LoopGradient, CF_20_WhatALoopSavesIsRead) {
  for (StringRef name : {"cf03", "cf12", "curved_cond", "lacking_branch", "squares", "two_states", "lstm"}) {
    const Graph graph = loopFile(name);
    GradientRequest request;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n))) request.wrt.push_back({Value{NodeId(n)}});
    GradientOptions options;
    options.headPolicy = HeadPolicy::Ones;
    options.unused = UnusedPolicy::Zeros;
    const Graph third = cantFail(buildGradientOfOrder(testContext(), graph, request, options, 3)).graph;
    std::set<std::pair<uint32_t, uint16_t>> read;
    for (uint32_t n = 0; n < third.numNodes(); ++n)
      for (Value v : third.inputs(NodeId(n))) read.insert({v.node.value, v.index});
    for (Value v : third.heads()) read.insert({v.node.value, v.index});
    size_t numSaved = 0;
    for (uint32_t n = 0; n < third.numNodes(); ++n) {
      const std::optional<StringRef> saved = third.attrs(NodeId(n)).get("__saved__");
      SmallVector<StringRef, 8> counts;
      if (saved) {
        ASSERT_TRUE(splitList(*saved, counts));
      }
      uint32_t added = 0;
      for (StringRef count : counts) added += static_cast<uint32_t>(std::stoul(count.trim().str()));
      for (uint32_t o = third.numOutputs(NodeId(n)) - added; o < third.numOutputs(NodeId(n)); ++o, ++numSaved)
        EXPECT_TRUE(read.count({n, static_cast<uint16_t>(o)}))
            << name.str() << ": output " << o << " of " << third.describe(NodeId(n));
    }
    if (name != "cf03") {
      EXPECT_GT(numSaved, 0u) << name.str();
    }
  }
}

// s' = w, w' = softrelu(s): after two steps s is softrelu of the start, which the stacked output has as well. Where no
// gradient flows through that output, none may flow through what the gradient reads of it at the next order.
TEST(LoopGradient, NG_01_HO_03_AnOutputThatIsCutIsNotReadForTheGradient) {
  const std::vector<AttrText> attrs = {
      {"num_args", "2"}, {"num_data", "0"}, {"num_states", "2"}, {"num_out_data", "1"}, {"length", "2"}};
  const Graph loop = around("_scan", {"s", "w"}, attrs,
                            body("v = var; w = var; n = Activation(v) {act_type=softrelu}; heads n, w, n"), 2);
  const Graph graph = onlyHead(loop, 1);
  const NodeId n = nodeNamed(graph, "loop");
  GradientRequest request;
  request.wrt = {{Value{nodeNamed(graph, "s")}}};
  request.noGrad = {Value{n, 0}};
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  const GradientResult second = cantFail(buildGradientOfOrder(testContext(), graph, request, options, 2));
  const double s = 0.7, slope = 1 / (1 + std::exp(-s));
  EXPECT_NEAR(run(second, {{"s", {1}, {s}}, {"w", {1}, {0.3}}}).back()[0], slope * (1 - slope), 1e-12);
}

}  // namespace
}  // namespace gradc::testing
