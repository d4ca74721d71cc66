// Unrolled and inlined graphs apart from their values: names of new nodes, nodes that remain and why, kernels that
// fail, a loop of a host, and the time it takes.
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/runs/unrolled.h"
#include "ir/rules/flow_inference.h"
#include "ir/rules/run_flow.h"

#include <gtest/gtest.h>

#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

// Two inputs of a body may have one name: the order that the call gives them in is not that of the body.
TEST(UnrollNames, A_19_InputsOfOneNameInABody) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value r = builder.addVariable("x", Attrs()), s = builder.addVariable("x", Attrs());
  const NodeId call =
      cantFail(builder.add(*context.ops.find("_call"), {r, s},
                           {"call", context.attrs({{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(1, 0)"}}),
                            NodeId(), body("d = elemwise_sub(a, b)")}));
  const Graph step = cantFail(std::move(builder).freeze({Value{call}, Value{call}}, {})).graph;
  const Graph graph =
      around("_scan", {"rows", "start"},
             {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}}, step, 2);
  const Bindings bindings = {{"rows", {2, 1}, {1, 10}}, {"start", {1}, {100}}};
  const Unrolled made = cantFail(inlineCalls(context, graph, UnrollOptions()));
  EXPECT_EQ(runReading(made.graph, bindings, "start"), (std::vector<Doubles>{{99, 89}, {89}, {100}}));
  EXPECT_EQ(made.kept, (std::vector<std::string>{
                           "node 'loop' > body > all: after expansion, its inputs would be in another order"}));
}

// The names of bodies, behind that of their node, may be those of other nodes, of another body, or equal.
TEST(UnrollNames, NAME_09_A_19_NamesThatAreTaken) {
  auto names = [](const Graph &graph) {
    std::vector<std::string> found;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) found.push_back(graph.name(NodeId(n)).str());
    return found;
  };
  auto expectDistinct = [&](const Graph &graph, StringRef expected) {
    const std::vector<std::string> found = names(graph);
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), found.size());
    EXPECT_TRUE(is_contained(found, expected)) << expected.str() << " is not in " << dump(graph);
  };
  Context &context = testContext();
  // A step that yields one of its inputs, beside variables with the names of what unrolling makes.
  const Graph step = body("y = exp(s); z = sin(y); heads y, r, z");
  GraphBuilder builder(context);
  const Value rows = builder.addVariable("rows", Attrs()), state = builder.addVariable("loop[1]/y", Attrs()),
              split = builder.addVariable("loop_rows0", Attrs());
  const Value loop = {cantFail(builder.add(*context.ops.find("_scan"), {rows, state},
                                           {"loop",
                                            context.attrs({{"num_args", "2"},
                                                           {"num_data", "1"},
                                                           {"num_states", "1"},
                                                           {"num_out_data", "2"},
                                                           {"input_locs", "(1, 0)"}}),
                                            NodeId(), step}))};
  const Value sum = {
      cantFail(builder.add(*context.ops.find("broadcast_add"), {Value{loop.node, 2, 0}, split}, {"loop_output0"}))};
  const Graph graph = cantFail(std::move(builder).freeze({loop, Value{loop.node, 1, 0}, sum}, {})).graph;
  const Graph flat = unrolled(graph, {{"rows", {2, 1}, {}}, {"loop[1]/y", {1}, {}}, {"loop_rows0", {1}, {}}});
  expectDistinct(flat, "loop[1]/y_1");
  expectDistinct(flat, "loop_rows0_1");
  expectDistinct(flat, "loop_output0_1");
  // Names of a body that are equal, or taken by the caller; those of the caller stay.
  const Graph twice = body("a = exp(x); b = sin(a); heads a, b");
  GraphBuilder outer(context);
  const Value x = outer.addVariable("call/a", Attrs());
  const Value call = {
      cantFail(outer.add(*context.ops.find("_call"), x,
                         {"call", context.attrs({{"num_args", "1"}, {"num_outputs", "2"}}), NodeId(), twice}))};
  const Value last = {
      cantFail(outer.add(*context.ops.find("elemwise_add"), {call, Value{call.node, 1, 0}}, {"call/a_1"}))};
  const Graph inlined =
      cantFail(inlineCalls(context, cantFail(std::move(outer).freeze({last}, {})).graph, UnrollOptions())).graph;
  EXPECT_EQ(dump(inlined), "call/a_2 = exp(call/a)\ncall/b = sin(call/a_2)\n"
                           "call/a_1 = elemwise_add(call/a_2, call/b)\nheads call/a_1\n");
}

// A host's kernel that leaves an error, or throws: what it would compute is not known, and the graph stays as it is.
TEST(UnrollNames, A_10_KernelsThatFailTellNothing) {
  static bool fails, throws;
  static const OpDef op = [] {
    OpDef op;
    op.name = "test_deciding";
    op.inputs = {"data"};
    op.shape = shapes::same;
    op.kernel = [](const KernelCall &call) {
      if (throws) throw KernelError{"the host refuses"};
      if (fails) {
        *call.failure = Failure(ErrorKind::Io, "the host refuses");
        return;
      }
      std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
    };
    return op;
  }();
  Context &context = testContext();
  if (!context.ops.find("test_deciding")) cantFail(context.ops.add(op));
  const Graph graph =
      around("_cond", {"a"},
             {{"num_args", "4"},
              {"num_outputs", "1"},
              {"cond_input_locs", "()"},
              {"then_input_locs", "(0,)"},
              {"else_input_locs", "(0,)"}},
             {body("o = _ones() {shape=(1,)}; p = test_deciding(o)"), body("t = exp(a)"), body("e = sin(a)")}, 1);
  for (int outcome = 0; outcome < 3; ++outcome) {
    fails = outcome == 1, throws = outcome == 2;
    const Unrolled made = cantFail(apply(inlineCalls, graph, {{"a", {2}, {}}}));
    EXPECT_EQ(countFlows(made.graph), outcome ? 1u : 0u);
    const std::vector<std::string> why = {"branch 'loop': the branch taken is known only at run time"};
    EXPECT_EQ(made.kept, outcome ? why : std::vector<std::string>());
  }
}

TEST(UnrollNames, WhatStaysSaysWhy) {
  const Graph graph = loopFile("cf03");
  auto reason = [&](const Bindings &bindings) {
    const Unrolled kept = cantFail(apply(unrollLoops, graph, bindings));
    EXPECT_EQ(dump(kept.graph), dump(graph));
    return kept.kept.empty() ? "" : kept.kept[0];
  };
  EXPECT_EQ(reason({}), "loop '_foreach0': the length of its sliced inputs is not known");
  EXPECT_EQ(reason({{"x", {70000}, {}}}), "loop '_foreach0': it has 70000 rows, and at most 65535 are unrolled");
  const GradcError error = errorOf(apply(unrollLoops, graph, {{"x", {3000}, {}}}, 1000));
  EXPECT_EQ(error.kind, ErrorKind::TooLarge);
  EXPECT_NE(error.message.find("node '_foreach0["), std::string::npos) << error.message;
}

// A loop that a host adds: it raises its first input to a power by repeated multiplication.
struct PowerParams {
  int64_t exponent;
};
constexpr AttrSpec kPowerAttrs[] = {required<&PowerParams::exponent>("exponent", "number of steps").atLeast(0)};

TEST(UnrollNames, A_19_ALoopOfAHost) {
  static const OpDef op = [] {
    OpDef def;
    def.name = "host_power";
    def.inputs = {"x", "one"};
    def.attrs = kPowerAttrs;
    def.params = paramsOf<PowerParams>();
    def.flow = [](const NodeKind &kind) -> Expected<BodyFlow> {
      FlowBuilder flow(kind, BodyFlow::Form::Loop);
      flow.flow().maxSteps = kind.params<PowerParams>().exponent;
      flow.addOperands(BodyFlow::Operand::Whole, 1);
      flow.addOperands(BodyFlow::Operand::State, 1);
      flow.addBody("bodies", {1, 0});
      flow.addState(1, 0);
      return std::move(flow).finish();
    };
    def.shape = inferFlowShapes;
    def.dtype = inferFlowTypes;
    def.ignored = isUnreadInside;
    def.kernel = runFlow;
    return def;
  }();
  TestContext context;
  cantFail(context.ops.add(op));
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), one = builder.addVariable("one", Attrs());
  const AttrText attrs[] = {{"exponent", "3"}};
  const Graph step = cantFail(parseGraph(context, "y = elemwise_mul(p, x)"));
  const NodeId n = cantFail(builder.add(op, {x, one}, {"cube", context.attrs(attrs), NodeId(), step}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
  const Inference known = cantFail(infer(context, graph, {{{nodeNamed(graph, "x"), {2}}}, {}}, {}));
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  EXPECT_EQ(dump(cantFail(unrollLoops(context, graph, options)).graph), "cube[0]/y = elemwise_mul(one, x)\n"
                                                                        "cube[1]/y = elemwise_mul(cube[0]/y, x)\n"
                                                                        "cube[2]/y = elemwise_mul(cube[1]/y, x)\n"
                                                                        "heads cube[2]/y\n");
}

TEST(UnrollNames, A_19_LinearInTheNumberOfSteps) {
  const Graph graph = loopFile("cf12");
  expectLinear(2000, [&](uint32_t steps) {
    return secondsOf([&] {
      const Unrolled made = cantFail(apply(unrollLoops, graph, {{"x", {steps}, {}}, {"h", {1}, {}}, {"w", {1}, {}}}));
      EXPECT_EQ(made.graph.numNodes(), 3 + 1 + 4 * static_cast<size_t>(steps) + 1);
    });
  });
}
}  // namespace
}  // namespace gradc::testing
