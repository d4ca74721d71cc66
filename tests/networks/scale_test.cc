// Many heads, many parts, many parameters: what grows with the graph in number rather than in depth (CLI-06). Processor
// time for sixteen times as much is compared with sixteen times the processor time.
#include "passes/inference/backward_link.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"
#include "passes/memory/plan_memory.h"
#include "passes/optimizer/append_optimizer.h"
#include "passes/targets/target.h"
#include "runtime/executor/executor.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/test_graph.h"

#include "ir/graph/graph_builder.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

KindRef kindOf(Context &context, StringRef op, std::initializer_list<AttrText> attrs = {}) {
  return cantFail(context.kind(*context.ops.find(op), context.attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size()))));
}

/// y<i> = exp(x<i>), all of them heads.
Graph manyHeads(Context &context, uint32_t n) {
  GraphBuilder builder(context);
  AttrText shape{"__shape__", "(2,)"};
  const KindRef exp = kindOf(context, "exp");
  std::vector<Value> heads;
  for (uint32_t i = 0; i < n; ++i) {
    const Value x = builder.addVariable("x" + std::to_string(i), context.attrs(ArrayRef<AttrText>(shape)));
    heads.push_back(Value{builder.addKind(exp, {x}, NodeId())});
    builder.setName(heads.back().node, "y", std::to_string(i));
  }
  return cantFail(std::move(builder).freeze(heads, {})).graph;
}

GradientRequest everyVariable(const Graph &graph) {
  GradientRequest request;
  request.wrt = allTargets(graph, nullptr).targets;
  return request;
}

TEST(Scale, CLI_06_HeadsWithVariablesOfTheirOwn) {
  expectLinear(2000, [](uint32_t n) {
    TestContext context;
    const Graph graph = manyHeads(context, n);
    GradientRequest request = everyVariable(graph);
    for (uint32_t i = 0; i < n; ++i)
      request.heads.push_back({graph.heads()[i], std::nullopt, "dy" + std::to_string(i)});
    return secondsOf([&] { cantFail(buildGradient(context, graph, request, {})); });
  });
}

// All but the last: that some y carries gradient is known when the first one is found that does.
TEST(Scale, CLI_06_HeadsBesideEntriesThatAreCut) {
  expectLinear(8000, [](uint32_t n) {
    TestContext context;
    const Graph graph = manyHeads(context, 2 * n);
    GradientRequest request = everyVariable(graph);
    for (Value y : graph.heads().drop_back()) request.noGrad.push_back(y);
    GradientOptions options;
    options.unused = UnusedPolicy::None;
    return secondsOf([&] { cantFail(buildGradient(context, graph, request, options)); });
  });
}

TEST(Scale, CLI_06_SummaryOfASplitIntoManyParts) {
  expectLinear(4000, [](uint32_t n) {
    return secondsOf([&] {
      TestContext context;
      RuleSummaries summaries(context);
      const RuleSummary &summary = summaries.of(kindOf(context, "SliceChannel", {{"num_outputs", std::to_string(n)}}));
      ASSERT_EQ(summary.nodes.size(), 1u);
      EXPECT_EQ(summary.nodes[0].fromOutputs.size(), n);
    });
  });
}

TEST(Scale, CLI_06_SummaryOfASumOfManyTerms) {
  expectLinear(4000, [](uint32_t n) {
    return secondsOf([&] {
      TestContext context;
      RuleSummaries summaries(context);
      EXPECT_EQ(summaries.of(kindOf(context, "add_n", {{"num_args", std::to_string(n)}})).nodes.size(), 1u);
    });
  });
}

// One node each way: neither the parts nor their gradients are cut out one by one.
TEST(Scale, CLI_06_HO_02_SecondOrderOfAWideConcat) {
  expectLinear(1000, [](uint32_t n) {
    TestContext context;
    GraphBuilder builder(context);
    std::vector<Value> parts;
    for (uint32_t i = 0; i < n; ++i) parts.push_back(builder.addVariable("x" + std::to_string(i), Attrs()));
    const Value all{builder.addKind(kindOf(context, "Concat", {{"num_args", std::to_string(n)}}), parts, NodeId())};
    const Value y{builder.addKind(kindOf(context, "square"), {all}, NodeId())};
    const Graph graph = cantFail(std::move(builder).freeze({y}, {})).graph;
    return secondsOf([&] { cantFail(buildGradientOfOrder(context, graph, everyVariable(graph), {}, 2)); });
  });
}

// Each part is cut out of the head by its bounds, without reading the others.
TEST(Scale, CLI_06_A_17_GradientOfAWideConcatInPrimitives) {
  expectLinear(500, [](uint32_t n) {
    TestContext context;
    GraphBuilder builder(context);
    const AttrText shape{"__shape__", "(2,3)"};
    std::vector<Value> parts;
    for (uint32_t i = 0; i < n; ++i)
      parts.push_back(builder.addVariable("x" + std::to_string(i), context.attrs(ArrayRef<AttrText>(shape))));
    const Value all{builder.addKind(kindOf(context, "Concat", {{"num_args", std::to_string(n)}}), parts, NodeId())};
    const Graph graph = cantFail(std::move(builder).freeze({all}, {})).graph;
    const Graph gradients = cantFail(buildGradient(context, graph, everyVariable(graph), {})).graph;
    const Inference inference = cantFail(infer(context, gradients, {}, InferOptions()));
    return secondsOf([&] { cantFail(lowerTo(context, gradients, kPrimitivesTarget, &inference)); });
  });
}

// The shape of x is known through z alone, after the sweep. It goes along the chain node by node, and each of them is
// read by one node that can never be finished.
TEST(Scale, CLI_06_ShapesThatReachAWideNodeOneByOne) {
  expectLinear(1000, [](uint32_t n) {
    TestContext context;
    GraphBuilder builder(context);
    AttrText shape{"__shape__", "(2,3)"};
    const Value x = builder.addVariable("x", Attrs()),
                w = builder.addVariable("w", context.attrs(ArrayRef<AttrText>(shape)));
    const KindRef relu = kindOf(context, "relu");
    std::vector<Value> parts;
    for (uint32_t i = 0; i < n; ++i)
      parts.push_back(Value{builder.addKind(relu, {parts.empty() ? x : parts.back()}, NodeId())});
    const Value all{builder.addKind(cantFail(context.opaqueKind("mystery", Attrs(), 1)), parts, NodeId())};
    const Value z{builder.addKind(kindOf(context, "elemwise_add"), {x, w}, NodeId())};
    const Graph graph = cantFail(std::move(builder).freeze({all, z}, {})).graph;
    InferOptions options;
    options.allowUnknown = true;
    return secondsOf([&] { EXPECT_EQ(cantFail(infer(context, graph, {}, options)).numUnknownShapes, 1u); });
  });
}

TEST(Scale, CLI_06_ParametersBesideHeads) {
  expectLinear(4000, [](uint32_t n) {
    TestContext context;
    const Graph graph = manyHeads(context, n);
    const Graph gradients = cantFail(buildGradient(context, graph, everyVariable(graph), {})).graph;
    return secondsOf([&] { EXPECT_EQ(cantFail(appendOptimizer(context, gradients, {})).parameters.size(), n); });
  });
}

/// What is needed to run the heads of a graph.
struct Planned {
  Graph graph;
  Inference inference;
  RequestTable requests;
  MemoryPlan plan;

  Planned(Context &context, GraphBuilder &builder, Value head)
      : graph(cantFail(std::move(builder).freeze({head}, {})).graph),
        inference(cantFail(infer(context, graph, {}, InferOptions()))), requests(countRequests(graph, {})),
        plan(cantFail(planMemory(context, graph, inference, requests, PlanOptions()))) {}
};

// Each output of the node in the middle is looked for among what the node takes over, not among its inputs.
TEST(Scale, CLI_06_InstructionOfAsManyOutputsAsInputs) {
  expectLinear(2000, [](uint32_t n) {
    TestContext context;
    GraphBuilder builder(context);
    const AttrText shape{"__shape__", "(1,)"};
    std::vector<Value> in, out;
    for (uint32_t i = 0; i < n; ++i)
      in.push_back(builder.addVariable("x" + std::to_string(i), context.attrs(ArrayRef<AttrText>(shape))));
    const NodeId cast =
        builder.addKind(kindOf(context, "amp_multicast", {{"num_outputs", std::to_string(n)}}), in, NodeId());
    for (uint32_t i = 0; i < n; ++i) out.push_back(Value{cast, static_cast<uint16_t>(i)});
    const Value y{builder.addKind(kindOf(context, "add_n", {{"num_args", std::to_string(n)}}), out, NodeId())};
    const Planned planned(context, builder, y);
    ExecOptions options;
    options.backend = Backend::Reference;
    return secondsOf(
        [&] { cantFail(Executor::create(planned.graph, planned.inference, planned.requests, planned.plan, options)); });
  });
}

// Many copies of one value in the same bytes, all of which die at once.
TEST(Scale, CLI_06_MEM_03_CheckOfAPlanOfManyCopies) {
  expectLinear(4000, [](uint32_t n) {
    TestContext context;
    GraphBuilder builder(context);
    const AttrText shape{"__shape__", "(4,)"};
    const Value x = builder.addVariable("x", context.attrs(ArrayRef<AttrText>(shape)));
    const Value e{builder.addKind(kindOf(context, "exp"), {x}, NodeId())};
    const KindRef copy = kindOf(context, "_copy");
    std::vector<Value> copies;
    for (uint32_t i = 0; i < n; ++i) copies.push_back(Value{builder.addKind(copy, {e}, NodeId())});
    const Value y{builder.addKind(kindOf(context, "add_n", {{"num_args", std::to_string(n)}}), copies, NodeId())};
    const Planned planned(context, builder, y);
    EXPECT_EQ(planned.plan.offset[planned.graph.entry(planned.graph.inputs(planned.graph.heads()[0].node)[1])],
              planned.plan.offset[planned.graph.entry(planned.graph.inputs(planned.graph.heads()[0].node)[0])]);
    return secondsOf(
        [&] { cantFail(checkPlan(planned.graph, planned.inference, planned.requests, planned.plan, PlanOptions())); });
  });
}

/// A loop of n states, each of which is next what the one before it was.
Graph shiftRegister(Context &context, uint32_t n) {
  GraphBuilder body(context);
  const KindRef tanh = kindOf(context, "tanh");
  std::vector<Value> states, heads;
  const Value row = body.addVariable("row", Attrs());
  for (uint32_t i = 0; i < n; ++i) states.push_back(body.addVariable("s" + std::to_string(i), Attrs()));
  heads.push_back(Value{body.addKind(tanh, {states.back()}, NodeId())});
  for (uint32_t i = 0; i < n; ++i) heads.push_back(Value{body.addKind(tanh, {i ? states[i - 1] : row}, NodeId())});
  // The last state is the first that a head reads.
  std::string places = "(" + std::to_string(n);
  for (uint32_t i = 0; i < n; ++i) places += "," + std::to_string(i);
  places += ")";
  const std::string numStates = std::to_string(n), numArgs = std::to_string(n + 1);
  const Attrs attrs = context.attrs({{"num_args", numArgs},
                                     {"num_data", "1"},
                                     {"num_states", numStates},
                                     {"num_out_data", "1"},
                                     {"input_locs", places}});
  const Graph step = cantFail(std::move(body).freeze(heads, {})).graph;
  GraphBuilder builder(context);
  std::vector<Value> operands;
  for (uint32_t i = 0; i <= n; ++i) operands.push_back(builder.addVariable("x" + std::to_string(i), Attrs()));
  const NodeId loop = cantFail(builder.add(*context.ops.find("_scan"), operands, {"loop", attrs, NodeId(), step}));
  return cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
}

// Each state becomes known by the one before it.
TEST(Scale, CLI_06_INF_16_ShapesThroughAChainOfStates) {
  expectLinear(150, [](uint32_t n) {
    TestContext context;
    const Graph graph = shiftRegister(context, n);
    InferRequest request;
    request.shapes.push_back({graph.inputs(graph.heads()[0].node)[0].node, DimsBuffer({3, 2})});
    return secondsOf([&] { cantFail(infer(context, graph, request, {})); });
  });
}

TEST(Scale, CLI_06_CF_12_GradientThroughAChainOfStates) {
  expectLinear(400, [](uint32_t n) {
    TestContext context;
    const Graph graph = shiftRegister(context, n);
    GradientRequest request;
    request.wrt = {{graph.inputs(graph.heads()[0].node)[0]}};
    return secondsOf([&] { cantFail(buildGradient(context, graph, request, {})); });
  });
}

}  // namespace
}  // namespace gradc
