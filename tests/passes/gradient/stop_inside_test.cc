// Nodes in bodies, named by paths: gradients that stop there, and taps that gradients pass.
#include "passes/gradient/higher_order/mark_inside.h"

#include "ir/graph/bodies.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/registry.h"
#include "passes/inference/infer.h"
#include "passes/unroll/unroll.h"
#include "tests/support/runs/loops.h"

using namespace llvm;

namespace gradc::testing {
namespace {

// A call in a loop: paths lead through both.
Graph nested() {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs()), s = builder.addVariable("s", Attrs());
  GraphBuilder step(context);
  const Value r = step.addVariable("r", Attrs()), t = step.addVariable("t", Attrs());
  const Graph inner = cantFail(parseGraph(context, "a = square(p); b = exp(q); y = elemwise_mul(a, b)"));
  const AttrText callAttrs[] = {{"num_args", "2"}, {"num_outputs", "1"}};
  const NodeId call =
      cantFail(step.add(*context.ops.find("_call"), {r, t}, {"inner/call", context.attrs(callAttrs), NodeId(), inner}));
  const Graph body = cantFail(std::move(step).freeze({Value{call}}, {})).graph;
  const AttrText attrs[] = {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}};
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_scan"), {x, s}, {"loop", context.attrs(attrs), NodeId(), body}));
  return cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
}

// y = r²·exp(t) over rows 2 and 3 from t = 0: t1 = 4, y = 9·exp(4).
TEST(StopInside, NG_01_EntriesInsideBodies) {
  const Graph graph = nested();
  const Binding bindings[] = {{"x", {2, 1}, {2, 3}}, {"s", {1}, {0}}};
  const double e4 = std::exp(4.);
  auto gradientWithout = [&](ArrayRef<StringRef> paths) {
    std::vector<NodeInside> nodes;
    for (StringRef path : paths) nodes.push_back(*cantFail(findInside(graph, path)));
    const Graph stopped = cantFail(stopInside(testContext(), graph, nodes));
    EXPECT_EQ(stopped.numNodes(), graph.numNodes());
    return run(gradientOf(stopped, {"x", "s"}), bindings);
  };
  auto expectNear = [](const std::vector<Doubles> &found, const std::vector<Doubles> &expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t k = 0; k < expected[i].size(); ++k)
        EXPECT_NEAR(found[i][k], expected[i][k], 1e-9 * (1 + expected[i][k]));
  };
  expectNear(gradientWithout({}), {{9 * e4 * 4, 6 * e4}, {9 * e4 * 4}});
  // Nothing through the state, then nothing through the rows.
  expectNear(gradientWithout({"loop/0/inner/call/0/b"}), {{0, 6 * e4}, {0}});
  expectNear(gradientWithout({"loop/0/inner/call/0/a"}), {{0, 0}, {9 * e4 * 4}});
  expectNear(gradientWithout({"loop/0/t"}), {{0, 6 * e4}, {0}});
  expectNear(gradientWithout({"loop/0/inner/call/0/b", "loop/0/inner/call/0/a"}), {{0, 0}, {0}});
  for (StringRef path : {"loop/0/q", "loop/1/t", "loop/t", "loop/0/", "other/0/t", "loop/0/inner/call/0/c", "loop"})
    EXPECT_FALSE(cantFail(findInside(graph, path))) << path.str();
}

// As outside: several nodes of one name are told apart by their number.
TEST(StopInside, E_34_AmbiguousNamesInside) {
  GraphBuilder inside(testContext());
  Value v = inside.addVariable("x", Attrs());
  for (StringRef op : {"exp", "tanh"})
    v = Value{cantFail(inside.add(*testContext().ops.find(op), {v}, {"h", Attrs()}))};
  const Graph loop = around("_call", {"x"}, {{"num_args", "1"}, {"num_outputs", "1"}},
                            cantFail(std::move(inside).freeze({v}, {})).graph, 1);
  const GradcError error = errorOf(findInside(loop, "loop/0/h").takeError());
  EXPECT_EQ(error.kind, ErrorKind::AmbiguousName);
  EXPECT_EQ(error.message, "node 'loop' > body > name 'h' is ambiguous: 2 nodes have this name");
  const std::optional<NodeInside> first = cantFail(findInside(loop, "loop/0/h#1")),
                                  second = cantFail(findInside(loop, "loop/0/h#2"));
  ASSERT_TRUE(first && second);
  EXPECT_LT(first->node.value, second->node.value);
  EXPECT_FALSE(cantFail(findInside(loop, "loop/0/h#3")));
}

// Stands for a hook that doubles what it sees.
constinit const OpDef kDoublingTap = {
    .name = "test_doubling_tap",
    .inputs = {"data"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.clone(); },
    .decompose =
        [](DecomposeRule &d) { d.y(0, d.emit(*d.context().ops.find("_mul_scalar"), {d.x(0)}, {{"scalar", "2"}})); },
    .kernel =
        [](const KernelCall &call) {
          for (int64_t i = 0; i < call.in[0].size(); ++i)
            call.out[0].as<double>()[i] = 2 * call.in[0].as<const double>()[i];
        },
};

// HOOK-02: the tap runs in every step, as one for each step of the unrolled graph does.
TEST(StopInside, HOOK_02_TapsInsideBodies) {
  Context context;
  registerBuiltinOps(context.ops);
  cantFail(context.ops.add(kDoublingTap));
  context.ops.wellKnown.tap = &kDoublingTap;
  const Graph loop = cantFail(readJson(context, readTestFile("testdata/loops/cf12.json"), ReadOptions())).graph;
  const Binding bindings[] = {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}};
  InferRequest hints{{{nodeNamed(loop, "x"), {2}}}, {}};
  const Inference known = cantFail(infer(context, loop, hints, {}));
  UnrollOptions unrolling;
  unrolling.known = &known;
  unrolling.rowOps = builtinRowOps();
  const Graph steps = cantFail(unrollLoops(context, loop, unrolling)).graph;
  auto gradients = [&](const Graph &graph, ArrayRef<Value> taps) {
    GradientRequest request;
    for (StringRef name : {"x", "h", "w"}) request.wrt.push_back({Value{nodeNamed(graph, name)}});
    request.taps = taps.vec();
    const GradientResult result = cantFail(buildGradient(context, graph, request, {}));
    SessionOptions options;
    options.exec.backend = Backend::Reference;
    options.infer.floatAs = DType::Float64;
    Session session = cantFail(Session::create(context, result.graph, arraysOf(bindings), options));
    cantFail(session.run(0));
    std::vector<Doubles> values;
    for (size_t h = graph.heads().size(); h < result.graph.heads().size(); ++h)
      values.push_back(valuesOf<double>(session.head(h)));
    return std::pair(values, result.graph);
  };
  std::vector<std::vector<Doubles>> all = {gradients(loop, {}).first};
  for (StringRef name : {"_mul0", "tanh0"}) {
    const NodeInside inside = *cantFail(findInside(loop, ("_foreach0/0/" + name).str()));
    const Graph tapped = cantFail(tapInside(context, loop, inside));
    EXPECT_EQ(tapped.numNodes(), loop.numNodes());
    const auto [values, graph] = gradients(tapped, {});
    const auto expected = gradients(steps, {Value{nodeNamed(steps, ("_foreach0[0]/" + name).str())},
                                            Value{nodeNamed(steps, ("_foreach0[1]/" + name).str())}});
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t k = 0; k < values[i].size(); ++k) EXPECT_NEAR(values[i][k], expected.first[i][k], 1e-12);
    all.push_back(values);
    size_t numTaps = 0;
    for (const NestedGraph &nested : nestedGraphs(graph))
      for (uint32_t n = 0; n < nested.graph.numNodes(); ++n)
        if (nested.graph.op(NodeId(n)) == &kDoublingTap) {
          ++numTaps;
          EXPECT_EQ(nested.graph.name(NodeId(n)), (name + "_tap").str());
          EXPECT_TRUE(graph.name(nested.owner).starts_with("_foreach0_backward"));
        }
    EXPECT_EQ(numTaps, 1u);
  }
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[1], all[2]);
}

// An unknown operator is stopped at by the path that the error names.
TEST(StopInside, E_32_AnOpaqueOperatorInABody) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const Value x = builder.addVariable("x", Attrs());
  const AttrText attrs[] = {{"num_args", "1"}, {"num_outputs", "1"}};
  const Graph body = cantFail(parseGraph(context, "a = ?mystery(p); b = exp(p); y = elemwise_add(a, b)"));
  const NodeId call =
      cantFail(builder.add(*context.ops.find("_call"), {x}, {"outer", context.attrs(attrs), NodeId(), body}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{call}}, {})).graph;
  GradientRequest request;
  request.wrt.push_back({Value{nodeNamed(graph, "x")}});
  Expected<GradientResult> refused = buildGradient(context, graph, request, {});
  ASSERT_FALSE(static_cast<bool>(refused));
  std::string subject;
  handleAllErrors(refused.takeError(), [&](const GradcError &error) {
    for (const Note &note : error.notes)
      if (note.remedy == Remedy::StopGradient) subject = note.subject;
  });
  EXPECT_EQ(subject, "outer/0/a");
  const Graph stopped = cantFail(stopInside(context, graph, {*cantFail(findInside(graph, subject))}));
  EXPECT_EQ(describeError(buildGradient(context, stopped, request, {})), "success");
}

}  // namespace
}  // namespace gradc::testing
