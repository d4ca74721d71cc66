// Every pass on graphs that are large in one way each: sixteen times as much takes sixteen times as long (CLI-06). Rows
// are the ways to be large, columns what is done with the graph; each cell runs by itself.
#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ops/control/rebody.h"
#include "ops/registry.h"
#include "passes/gradient/higher_order/retain_inside.h"
#include "passes/gradient/higher_order/mark_inside.h"
#include "passes/lowering/lower_to.h"
#include "passes/memory/plan_memory.h"
#include "passes/optimizer/append_optimizer.h"
#include "passes/order/order_mutation.h"
#include "passes/targets/target.h"
#include "passes/unroll/unroll.h"
#include "runtime/arrays/npy.h"
#include "runtime/session/session.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/verify.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// A graph under construction, all of whose variables have shape (2,).
class Maker {
 public:
  explicit Maker(Context &context) : context(context), builder(context) {}

  KindRef kind(StringRef op, std::initializer_list<AttrText> attrs = {}) {
    return cantFail(
        context.kind(*context.ops.find(op), context.attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size()))));
  }
  Value x(const Twine &name, StringRef shape = "(2,)") {
    const AttrText hint{"__shape__", shape};
    return builder.addVariable(name.str(), context.attrs(ArrayRef<AttrText>(hint)));
  }
  Value emit(const KindRef &kind, ArrayRef<Value> operands, const Twine &name) {
    const Value v{builder.addKind(kind, operands, NodeId())};
    builder.setName(v.node, name.str(), "");
    return v;
  }
  Value sum(ArrayRef<Value> terms) {
    return emit(kind("add_n", {{"num_args", std::to_string(terms.size())}}), terms, "sum");
  }
  Graph graph(ArrayRef<Value> heads) { return cantFail(std::move(builder).freeze(heads, {})).graph; }

  Context &context;
  GraphBuilder builder;
};

/// A chain of operators that targets lack, all with this name.
Graph chainNamed(Context &context, uint32_t n, StringRef name) {
  Maker m(context);
  const KindRef silu = m.kind("silu");
  Value v = m.x("x");
  for (uint32_t i = 0; i < n; ++i) v = m.emit(silu, v, name);
  return m.graph(v);
}
Graph oneName(Context &context, uint32_t n) { return chainNamed(context, n, "s"); }
Graph noNames(Context &context, uint32_t n) { return chainNamed(context, n, ""); }

Graph manyX(Context &context, uint32_t n) {
  Maker m(context);
  const KindRef exp = m.kind("exp"), add = m.kind("elemwise_add");
  Value v = m.x("x");
  for (uint32_t i = 0; i < n; ++i)
    v = m.emit(add, {v, m.emit(exp, m.x("x" + Twine(i)), "y" + Twine(i))}, "s" + Twine(i));
  return m.graph(v);
}

Graph manyHeads(Context &context, uint32_t n) {
  Maker m(context);
  const KindRef silu = m.kind("silu");
  const Value x = m.x("x");
  std::vector<Value> heads;
  for (uint32_t i = 0; i < n; ++i) heads.push_back(m.emit(silu, x, "y" + Twine(i)));
  return m.graph(heads);
}

/// Operands of one node.
Graph manySlots(Context &context, uint32_t n) {
  Maker m(context);
  std::vector<Value> terms;
  for (uint32_t i = 0; i < n; ++i) terms.push_back(m.x("x" + Twine(i)));
  return m.graph(m.sum(terms));
}

std::string positions(uint32_t first, uint32_t count) {
  std::string text = "(";
  for (uint32_t i = 0; i < count; ++i) text += std::to_string(first + i) + ",";
  return text + ")";
}

/// h = inner(h · x) for each row x, where `inner` is a chain of `length` operators with equal names.
Graph loopOver(Context &context, uint32_t rows, uint32_t length) {
  Maker inside(context);
  const Value x = inside.builder.addVariable("x", Attrs()), h = inside.builder.addVariable("h", Attrs());
  Value v = inside.emit(inside.kind("elemwise_mul"), {h, x}, "m");
  const KindRef silu = inside.kind("silu");
  for (uint32_t i = 0; i < length; ++i) v = inside.emit(silu, v, "s");
  const Graph body = inside.graph(v);
  Maker m(context);
  const Value data = m.x("data", "(" + std::to_string(rows) + ",2)"), start = m.x("start");
  const Attrs attrs = context.attrs({{"num_args", "3"},
                                     {"num_outputs", "1"},
                                     {"num_out_data", "0"},
                                     {"in_data_locs", "(0,)"},
                                     {"in_state_locs", "(1,)"},
                                     {"remain_locs", "()"}});
  const NodeId loop =
      cantFail(m.builder.add(*context.ops.find("_foreach"), {data, start}, NodeSpec{"loop", attrs, NodeId(), body}));
  return m.graph(Value{loop});
}
Graph rowsOfALoop(Context &context, uint32_t n) { return loopOver(context, n, 1); }
Graph oneNameInALoop(Context &context, uint32_t n) { return loopOver(context, 3, n); }

/// A loop over the rows of n operands, which yields a head for each of them.
Graph slotsOfALoop(Context &context, uint32_t n) {
  Maker inside(context), m(context);
  const Value h = inside.builder.addVariable("h", Attrs());
  const KindRef mul = inside.kind("elemwise_mul"), exp = inside.kind("exp");
  std::vector<Value> heads, operands;
  for (uint32_t i = 0; i < n; ++i) {
    const Value x = inside.builder.addVariable("x" + std::to_string(i), Attrs());
    heads.push_back(inside.emit(mul, {h, x}, "m" + Twine(i)));
    operands.push_back(m.x("x" + Twine(i), "(3,2)"));
  }
  heads.push_back(inside.emit(exp, h, "e"));
  const Graph body = inside.graph(heads);
  operands.push_back(m.x("start"));
  // h is the first input that a head reads.
  const std::string args = std::to_string(n + 2), outputs = std::to_string(n + 1), data = positions(1, n),
                    stacked = std::to_string(n);
  const Attrs attrs = context.attrs({{"num_args", args},
                                     {"num_outputs", outputs},
                                     {"num_out_data", stacked},
                                     {"in_data_locs", data},
                                     {"in_state_locs", "(0,)"},
                                     {"remain_locs", "()"}});
  const NodeId loop =
      cantFail(m.builder.add(*context.ops.find("_foreach"), operands, NodeSpec{"loop", attrs, NodeId(), body}));
  std::vector<Value> all;
  for (uint32_t o = 0; o <= n; ++o) all.push_back(Value{loop, static_cast<uint16_t>(o)});
  return m.graph(all);
}

struct Axis {
  const char *name;
  uint32_t n;
  Graph (*make)(Context &, uint32_t);
};
constexpr Axis kAxes[] = {
    {"OneName", 1000, oneName},
    {"NoNames", 1000, noNames},
    {"ManyX", 1000, manyX},
    {"ManyHeads", 1000, manyHeads},
    {"ManySlots", 2000, manySlots},
    {"RowsOfALoop", 1000, rowsOfALoop},
    {"OneNameInALoop", 1000, oneNameInALoop},
    {"SlotsOfALoop", 500, slotsOfALoop},
};

GradientRequest everyVariable(const Graph &graph) {
  GradientRequest request;
  request.wrt = allTargets(graph, nullptr).targets;
  return request;
}

Graph gradientOf(Context &context, const Graph &graph) {
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  return cantFail(buildGradient(context, graph, everyVariable(graph), options)).graph;
}

Inference inferenceOf(Context &context, const Graph &graph) { return cantFail(infer(context, graph, {}, {})); }

double secondsToDifferentiate(Context &context, const Graph &graph) {
  return secondsOf([&] { gradientOf(context, graph); });
}

double secondsToDifferentiateTwice(Context &context, const Graph &graph) {
  const GradientRequest request = everyVariable(graph);
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  options.unused = UnusedPolicy::None;
  return secondsOf([&] { cantFail(buildGradientOfOrder(context, graph, request, options, 2)); });
}

double secondsToLower(Context &context, const Graph &graph, const Target &target) {
  const Graph gradient = gradientOf(context, graph);
  const Inference known = inferenceOf(context, gradient);
  return secondsOf([&] { cantFail(lowerTo(context, gradient, target, &known)); });
}
double secondsToLowerToMxnet(Context &context, const Graph &graph) {
  return secondsToLower(context, graph, kMxnetTarget);
}
double secondsToLowerToPrimitives(Context &context, const Graph &graph) {
  return secondsToLower(context, graph, kPrimitivesTarget);
}

double secondsToInfer(Context &context, const Graph &graph) {
  const Graph gradient = gradientOf(context, graph);
  return secondsOf([&] { inferenceOf(context, gradient); });
}

double secondsToPlan(Context &context, const Graph &graph) {
  const Graph gradient = gradientOf(context, graph);
  const Inference known = inferenceOf(context, gradient);
  return secondsOf([&] {
    const RequestTable requests = countRequests(gradient, {});
    const MemoryPlan plan = cantFail(planMemory(context, gradient, known, requests, PlanOptions()));
    cantFail(checkPlan(gradient, known, requests, plan, PlanOptions()));
  });
}

template <Expected<Unrolled> (*pass)(Context &, const Graph &, const UnrollOptions &)>
double secondsToExpand(Context &context, const Graph &graph) {
  const Inference known = inferenceOf(context, graph);
  UnrollOptions options;
  options.known = &known;
  options.rowOps = builtinRowOps();
  return secondsOf([&] { cantFail(pass(context, graph, options)); });
}

double secondsToOrder(Context &context, const Graph &graph) {
  const Graph gradient = gradientOf(context, graph);
  return secondsOf([&] {
    cantFail(orderMutations(context, gradient, OverwrittenPolicy::Save));
    cantFail(verifyGraph(gradient, 5));
  });
}

double secondsToWrite(Context &context, const Graph &graph) {
  const Graph gradient = gradientOf(context, graph);
  return secondsOf([&] {
    std::string text;
    raw_string_ostream os(text);
    writeJson(os, gradient);
  });
}

double secondsToRead(Context &context, const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, gradientOf(context, graph));
  return secondsOf([&] { cantFail(readJson(context, text, ReadOptions())); });
}

double secondsToOptimize(Context &context, const Graph &graph) {
  const Graph gradient = gradientOf(context, graph);
  return secondsOf([&] { cantFail(appendOptimizer(context, gradient, {})); });
}

double secondsOfASession(Context &context, const Graph &graph) {
  const Graph gradient = gradientOf(context, graph);
  SessionOptions options;
  options.initSeed = 1;
  options.exec.backend = Backend::Reference;
  return secondsOf([&] {
    Session session = cantFail(Session::create(context, gradient, {}, options));
    cantFail(session.run(0));
  });
}

struct Verb {
  const char *name;
  double (*seconds)(Context &, const Graph &);
};
constexpr Verb kVerbs[] = {
    {"Differentiate", secondsToDifferentiate},
    {"DifferentiateTwice", secondsToDifferentiateTwice},
    {"LowerToMxnet", secondsToLowerToMxnet},
    {"LowerToPrimitives", secondsToLowerToPrimitives},
    {"Infer", secondsToInfer},
    {"Plan", secondsToPlan},
    {"Inline", secondsToExpand<inlineCalls>},
    {"Unroll", secondsToExpand<unrollLoops>},
    {"Order", secondsToOrder},
    {"Write", secondsToWrite},
    {"Read", secondsToRead},
    {"Optimize", secondsToOptimize},
    {"Session", secondsOfASession},
};

class ScaleAxes : public ::testing::TestWithParam<std::tuple<Axis, Verb>> {};

TEST_P(ScaleAxes, CLI_06) {
  const auto &[axis, verb] = GetParam();
  expectLinear(axis.n, [&, make = axis.make, seconds = verb.seconds](uint32_t n) {
    TestContext context;
    return seconds(context, make(context, n));
  });
}

INSTANTIATE_TEST_SUITE_P(Cells, ScaleAxes, ::testing::Combine(::testing::ValuesIn(kAxes), ::testing::ValuesIn(kVerbs)),
                         [](const ::testing::TestParamInfo<std::tuple<Axis, Verb>> &info) {
                           return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
                         });

// The nodes of the second loop wait for the writes of the first.
TEST(ScaleAxes, CLI_06_MUT_06_LoopsThatOverwriteOneVariable) {
  expectLinear(500, [](uint32_t n) {
    TestContext context;
    Maker inside(context);
    const Value x = inside.builder.addVariable("x", Attrs()), s = inside.builder.addVariable("s", Attrs()),
                w = inside.builder.addVariable("w", Attrs());
    const Value written{cantFail(inside.builder.add(*context.ops.find("_assign"), {w, x}, NodeSpec{"as"}))};
    const Graph body = inside.graph(inside.emit(inside.kind("elemwise_add"), {written, s}, "t"));
    std::string data, state, whole;
    for (auto [i, input] : enumerate(bodyInputs(body)))
      (body.name(input) == "x" ? data : body.name(input) == "s" ? state : whole) = "(" + std::to_string(i) + ",)";
    const Attrs attrs = context.attrs({{"num_args", "4"},
                                       {"num_outputs", "1"},
                                       {"num_out_data", "0"},
                                       {"in_data_locs", data},
                                       {"in_state_locs", state},
                                       {"remain_locs", whole}});
    Maker m(context);
    const Value rows = m.x("rows", "(" + std::to_string(n) + ",2)"), start = m.x("start"), variable = m.x("w");
    std::vector<Value> ends;
    for (const char *name : {"first", "second"})
      ends.push_back(Value{cantFail(m.builder.add(*context.ops.find("_foreach"), {rows, start, variable},
                                                  NodeSpec{name, attrs, NodeId(), body}))});
    const Graph graph = cantFail(orderMutations(context, m.graph(ends), OverwrittenPolicy::Save)).graph;
    EXPECT_EQ(graph.controlDeps(graph.heads()[1].node).size(), 1u);
    return secondsToExpand<unrollLoops>(context, graph);
  });
}

/// The gradient of a loop toward its rows, with the gradients of n nodes of its body, of which a gradient reaches all
/// or none.
double secondsToRetain(uint32_t n, bool areReached) {
  TestContext context;
  Maker inside(context);
  const Value x = inside.builder.addVariable("x", Attrs()), h = inside.builder.addVariable("h", Attrs());
  const KindRef exp = inside.kind("exp");
  std::vector<Value> side = {h};
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < n; ++i) {
    side.push_back(inside.emit(exp, side.back(), "n" + Twine(i)));
    paths.push_back("loop/0/n" + std::to_string(i));
  }
  const Value y = inside.emit(inside.kind("elemwise_mul"), {x, x}, "y");
  const Graph body = inside.graph({y, side.back()});
  Maker m(context);
  const Value data = m.x("data", "(3,2)"), start = m.x("start");
  const Attrs attrs = context.attrs(
      {{"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}, {"input_locs", "(0, 1)"}});
  const NodeId loop =
      cantFail(m.builder.add(*context.ops.find("_scan"), {data, start}, NodeSpec{"loop", attrs, NodeId(), body}));
  const Graph graph = m.graph({Value{loop}, Value{loop, 1}});
  return secondsOf([&] {
    PathIndex index(graph);
    std::vector<NodeInside> nodes;
    for (const std::string &path : paths) nodes.push_back(*cantFail(index.find(path)));
    const Graph marked = cantFail(markRetained(context, graph, nodes));
    GradientRequest request = everyVariable(marked);
    request.heads.push_back({marked.heads()[areReached], std::nullopt, "dy"});
    GradientOptions options;
    options.unused = UnusedPolicy::Zeros;
    const GradientResult made =
        cantFail(buildGradientRetaining(context, marked, request, options, 1, paths, withBodies));
    EXPECT_GT(made.graph.heads().size(), n);
  });
}

TEST(ScaleAxes, CLI_06_NL_01_ManyRetained) {
  expectLinear(250, [](uint32_t n) { return secondsToRetain(n, true); });
}

TEST(ScaleAxes, CLI_06_NL_02_ManyRetainedThatNoGradientReaches) {
  expectLinear(250, [](uint32_t n) { return secondsToRetain(n, false); });
}

// Slots of gradients move to other heads where something is retained.
TEST(ScaleAxes, CLI_06_NL_01_ManyXBesideARetainedPath) {
  expectLinear(2000, [](uint32_t n) {
    TestContext context;
    Maker m(context);
    const KindRef exp = m.kind("exp"), add = m.kind("elemwise_add");
    Value v = m.x("x");
    for (uint32_t i = 0; i < n; ++i) v = m.emit(add, {v, m.emit(exp, m.x("x" + Twine(i)), "")}, "");
    const Attrs attrs = context.attrs({{"num_args", "1"}, {"num_outputs", "1"}});
    const Graph body = cantFail(parseGraph(context, "e = exp(a); s = sin(e)"));
    const NodeId call = cantFail(m.builder.add(*context.ops.find("_call"), v, NodeSpec{"call", attrs, NodeId(), body}));
    const Graph graph = m.graph(Value{call});
    const std::string paths[] = {"call/0/e"};
    const Graph marked = cantFail(markRetained(context, graph, *cantFail(findInside(graph, paths[0]))));
    const GradientRequest request = everyVariable(marked);
    GradientOptions options;
    options.headPolicy = HeadPolicy::Ones;
    return secondsOf(
        [&] { cantFail(buildGradientRetaining(context, marked, request, options, 1, paths, withBodies)); });
  });
}

}  // namespace
}  // namespace gradc
