// Nodes that run as one: which do, that the bits are those of nodes that run one by one, and that plans gain.
#include "runtime/fusion/form_groups.h"

#include "formats/json/reader.h"
#include "passes/gradient/gradient.h"
#include "passes/order/order_mutation.h"
#include "runtime/session/session.h"
#include "tests/support/ops/cells.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/runs/loops.h"
#include "tests/support/small_ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// Small pieces, so that small tensors have several.
FusionOptions small(bool elements = true, bool norms = true) {
  return {.elements = elements, .norms = norms, .minElements = 1, .pieceElements = 3};
}

struct RunSetup {
  FusionOptions fusion = small();
  unsigned threads = 1;
  bool isTraining = true;
  bool allowInplace = true;
  std::vector<Request> requests = {};
  std::vector<std::pair<StringRef, DimsBuffer>> shapes = {};
};

Session open(const Graph &graph, const RunSetup &setup) {
  SessionOptions options;
  for (const auto &[name, dims] : setup.shapes) options.hints.shapes.push_back({nodeNamed(graph, name), dims});
  options.initSeed = 7;
  options.allowInplace = setup.allowInplace;
  options.exec.isTraining = setup.isTraining;
  options.exec.threads = setup.threads;
  options.exec.headRequests = setup.requests;
  options.exec.fusion = setup.fusion;
  Expected<Session> session = Session::create(testContext(), graph, {}, options);
  if (!session) report_fatal_error(session.takeError());
  return std::move(*session);
}

/// The names of the nodes of each group, as the profile has them: "a b, d e".
std::string groupsOf(Session &session, const Graph &graph) {
  session.setProfiling(true);
  cantFail(session.run(0));
  std::vector<std::string> groups;
  for (const Executor::Timing &timing : session.timings())
    if (!timing.fused.empty())
      groups.push_back(join(map_range(timing.fused, [&](NodeId n) { return graph.name(n); }), " "));
  return join(groups, ", ");
}
std::string groupsOf(StringRef text, const RunSetup &setup) {
  TestGraph g(text);
  Session session = open(g, setup);
  return groupsOf(session, g);
}

using Bits = std::vector<std::vector<uint8_t>>;

/// Heads and variables after two steps.
Bits bitsOf(const Graph &graph, const RunSetup &setup) {
  Session session = open(graph, setup);
  for (uint64_t step : {0, 1}) cantFail(session.run(step));
  Bits bits;
  auto add = [&](const TensorRef &tensor) {
    const uint8_t *bytes = tensor.as<const uint8_t>();
    bits.emplace_back(bytes, bytes + (bytes ? tensor.bytes() : 0));
  };
  for (size_t i = 0; i < graph.heads().size(); ++i) add(session.head(i));
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n))) add(session.variable(NodeId(n)));
  return bits;
}

/// The same bits in every way that nodes may run as one, on one thread and on several. Convolutions and products have
/// other bits on another number of threads.
void expectSameBits(const Graph &graph, RunSetup setup) {
  for (unsigned threads : {1u, 3u}) {
    setup.threads = threads;
    setup.fusion = FusionOptions::none();
    const Bits apart = bitsOf(graph, setup);
    for (FusionOptions fusion : {small(true, false), small(false, true), small()}) {
      setup.fusion = fusion;
      EXPECT_TRUE(bitsOf(graph, setup) == apart)
          << "elements " << fusion.elements << ", norms " << fusion.norms << ", threads " << threads;
    }
  }
}

Graph gradientOf(Context &context, const Graph &forward) {
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  return cantFail(buildGradient(context, forward, request, GradientOptions())).graph;
}

const RunSetup kTen{.shapes = {{"x", {10}}}};

// What runs on reference kernels is called that, also where it runs as one.
TEST(Fusion, GroupsAreAsFastAsTheirMembers) {
  for (const auto &[text, numFast] : {std::pair<const char *, uint32_t>{"a = exp(x); y = relu(a)", 2},
                                      {"a = cbrt(x); b = arctan(a); y = exp(b)", 1},
                                      {"a = cbrt(x); y = arctan(a)", 0},
                                      {"a = square(x); y = sgd_mom_update(w, a, m) {lr=0.1}", 2}}) {
    SCOPED_TRACE(text);
    TestGraph g(text);
    Session session = open(g, kTen);
    session.setProfiling(true);
    cantFail(session.run(0));
    ASSERT_EQ(session.timings().size(), 1u);
    const Executor::Timing &timing = session.timings()[0];
    EXPECT_FALSE(timing.fused.empty());
    EXPECT_EQ(timing.numFast, numFast);
    EXPECT_EQ(timing.isFast(), numFast == timing.nodes().size());
  }
}

TEST(Fusion, ChainsAndTreesOfElementWiseNodesRunAsOne) {
  EXPECT_EQ(groupsOf("a = exp(x); b = tanh(x); c = sqrt(a); d = elemwise_mul(a, c); y = relu(d)", kTen), "a c d y");
  EXPECT_EQ(groupsOf("a = exp(x); y = relu(a)", kTen), "a y");
  EXPECT_EQ(groupsOf("a = _mul_scalar(x) {scalar=2}; b = clip(a) {a_min=0, a_max=1}; y = elemwise_div(b, x)", kTen),
            "a b y");
  EXPECT_EQ(groupsOf("a = _backward_div(x, x, x); y = elemwise_add(a:0, a:1)", kTen), "a y");
}

TEST(Fusion, WhatEndsAGroup) {
  // Another number of elements, and what does not work element by element.
  EXPECT_EQ(groupsOf("a = exp(x); s = sum(a); b = exp(s); c = relu(b); y = broadcast_add(a, c)", kTen), "b c");
  // Nothing in common.
  EXPECT_EQ(groupsOf("a = exp(x); b = relu(z); heads a, b", {.shapes = {{"x", {10}}, {"z", {10}}}}), "");
  EXPECT_EQ(
      groupsOf("a = exp(x); b = relu(a); c = exp(z); d = relu(c); heads b, d", {.shapes = {{"x", {10}}, {"z", {10}}}}),
      "a b, c d");
  // A head that is copied or added right after its node.
  EXPECT_EQ(groupsOf("a = exp(x); b = relu(a); c = exp(b); d = relu(c); heads b, b, d", kTen), "a b, c d");
  RunSetup added = kTen;
  added.requests = {Request::Add, Request::Write};
  EXPECT_EQ(groupsOf("a = exp(x); b = relu(a); c = exp(b); d = relu(c); heads b, d", added), "a b, c d");
  // Few elements.
  RunSetup few = kTen;
  few.fusion.minElements = 11;
  EXPECT_EQ(groupsOf("a = exp(x); y = relu(a)", few), "");
}

TEST(Fusion, GroupsAreOfBoundedSize) {
  std::string text = "a0 = exp(x);";
  for (int i = 1; i < 60; ++i) text += formatv("a{0} = relu(a{1});", i, i - 1).str();
  TestGraph g(text);
  Session session = open(g, kTen);
  const std::string groups = groupsOf(session, g);
  EXPECT_EQ(StringRef(groups).count(','), 2u) << groups;
  EXPECT_EQ(StringRef(groups).count(' ') + 1, 60u) << groups;
}

TEST(Fusion, OptionsTurnItOff) {
  constexpr StringRef text = "n = BatchNorm(x, gamma, beta, mean, var); r = relu(n); a = exp(r); y = relu(a)";
  RunSetup setup{.shapes = {{"x", {2, 3, 2, 2}}}};
  EXPECT_EQ(groupsOf(text, setup), "n r, a y");
  setup.fusion = small(true, false);
  EXPECT_EQ(groupsOf(text, setup), "r a y");
  setup.fusion = small(false, true);
  EXPECT_EQ(groupsOf(text, setup), "n r");
  setup.fusion = FusionOptions::none();
  EXPECT_EQ(groupsOf(text, setup), "");
}

TEST(Fusion, AMonitorSeesEveryNode) {
  TestGraph g("a = exp(x); y = relu(a)");
  SessionOptions options;
  options.hints.shapes.push_back({nodeNamed(g, "x"), {10}});
  options.initSeed = 7;
  options.exec.fusion = small();
  size_t numSeen = 0;
  options.exec.monitorUser = &numSeen;
  options.exec.monitor = [](void *user, NodeId, ArrayRef<TensorRef>) { ++*static_cast<size_t *>(user); };
  Session session = cantFail(Session::create(testContext(), g, {}, options));
  cantFail(session.run(0));
  EXPECT_EQ(numSeen, 2u);
}

TEST(Fusion, WhatOnlyTheGroupReadsIsNotStored) {
  TestGraph g("a = exp(x); b = sqrt(a); c = elemwise_mul(a, b); s = sum(c); t = elemwise_add(c, x); heads s, t");
  RunSetup setup{.shapes = {{"x", {1000}}}};
  Session fused = open(g, setup);
  setup.fusion = FusionOptions::none();
  Session apart = open(g, setup);
  auto offset = [&](StringRef name) { return fused.plan().offset[g.graph.entry(g.at(name))]; };
  EXPECT_EQ(offset("a"), kInside);
  EXPECT_EQ(offset("b"), kInside);
  EXPECT_GE(offset("c"), 0);  // the sum reads it
  EXPECT_EQ(apart.plan().valueBytes, 2 * 4032);
  EXPECT_EQ(fused.plan().valueBytes, 4032);
}

TEST(Fusion, AResultMayTakeOverWhatTheGroupIsDoneWith) {
  // Only a reads s, so y may be written over it.
  TestGraph g("s = cumsum(x); a = exp(s); b = relu(a); y = sqrt(b); z = sum(y); heads z");
  Session fused = open(g, {.shapes = {{"x", {1000}}}});
  const EntryId s = g.graph.entry(g.at("s")), y = g.graph.entry(g.at("y"));
  EXPECT_EQ(fused.plan().inplaceOf[y], s);
  EXPECT_EQ(fused.plan().valueBytes, 4032);
}

TEST(Fusion, RUN_02_WhatIsReadTwiceKeepsItsPlace) {
  // The second reader comes after a node that needs a place of its own; a node behind the group reads it as well.
  expectSameBits(TestGraph("a = exp(x); b = sqrt(a); c = relu(b); d = elemwise_mul(a, c); y = elemwise_add(d, x)"),
                 kTen);
  TestGraph g("a = exp(x); b = sqrt(a); y = elemwise_mul(a, b); s = sum(a); heads y, s");
  expectSameBits(g, kTen);
  Session fused = open(g, kTen);
  EXPECT_GE(fused.plan().offset[g.graph.entry(g.at("a"))], 0);
  EXPECT_EQ(fused.plan().offset[g.graph.entry(g.at("b"))], kInside);
}

TEST(Fusion, RUN_02_HeadsOfTheLastNodeAreCopiedAndAdded) {
  TestGraph g("a = exp(x); b = relu(a); c = exp(b); d = relu(c); heads b, b, d");
  expectSameBits(g, kTen);
  RunSetup added = kTen;
  added.requests = {Request::Add, Request::Write, Request::Add};
  expectSameBits(g, added);
}

/// Two nodes that run as one, with values before and behind them.
struct TwoAsOne {
  TestGraph g{"s = cumsum(x); u = cumsum(s); a = exp(s); c = elemwise_mul(u, a); w = sum(a); z = sum(c); heads z, w"};
  Inference inference;
  RequestTable requests;
  NodeGroups groups;
  PlanOptions options;

  TwoAsOne() {
    InferRequest hints;
    hints.shapes.push_back({nodeNamed(g, "x"), {100}});
    inference = cantFail(infer(g.context, g, hints, InferOptions()));
    requests = countRequests(g, {});
    groups.groups = {{nodeNamed(g, "a").value, nodeNamed(g, "c").value}};
    options.allowInplace = false;
  }
  MemoryPlan plan() { return cantFail(planMemory(g.context, g, inference, requests, options)); }
  std::string check(const MemoryPlan &plan) { return describeError(checkPlan(g, inference, requests, plan, options)); }
  EntryId entry(StringRef name) const { return g.graph.entry(g.at(name)); }
};

TEST(Fusion, MEM_03_WhatAGroupReadsIsInUseUntilItsEnd) {
  TwoAsOne two;
  ASSERT_EQ(two.groups.groups[0].last, two.groups.groups[0].first + 1);
  const MemoryPlan apart = two.plan();
  EXPECT_EQ(two.check(apart), "success");
  two.options.groups = &two.groups;
  EXPECT_NE(StringRef(two.check(apart)).find("is still live"), StringRef::npos) << two.check(apart);
  const MemoryPlan together = two.plan();
  EXPECT_EQ(two.check(together), "success");
  EXPECT_GT(together.valueBytes, apart.valueBytes);
}

// Loops without rows do not run, wherever they are in a group, and take no workspace.
TEST(Fusion, MEM_03_WhatDoesNotRunTakesNoWorkspace) {
  Context &context = testContext();
  GraphBuilder builder(context);
  const auto add = [&](StringRef op, Value x) { return Value{cantFail(builder.add(*context.ops.find(op), x, {}))}; };
  const AttrText attrs[] = {{"num_args", "1"}, {"num_data", "1"}, {"num_states", "0"}, {"num_out_data", "1"}};
  const Graph inner = body("a = exp(row); b = sum(a); y = broadcast_mul(row, b)");
  const Value x = builder.addVariable("x", Attrs()), rows = builder.addVariable("rows", Attrs());
  std::vector<Value> heads = {add("relu", add("exp", x))};
  for (StringRef name : {"first", "second"}) {
    heads.push_back(Value{cantFail(
        builder.add(*context.ops.find("_scan"), {rows}, {name, context.attrs(ArrayRef(attrs)), NodeId(), inner}))});
    builder.addControlDep(heads.front().node, heads.back().node);  // so that it comes between exp and relu
  }
  const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
  Session session = open(graph, {.shapes = {{"x", {10}}, {"rows", {0, 4}}}});
  EXPECT_NE(groupsOf(session, graph), "");
}

TEST(Fusion, MEM_03_WhatIsNotStoredIsReadInItsGroupAlone) {
  TwoAsOne two;
  two.options.groups = &two.groups;
  two.groups.inside = {two.entry("a")};
  EXPECT_NE(StringRef(two.check(two.plan())).find("has no place, but is read after its group"), StringRef::npos);
  const MemoryPlan plan = two.plan();
  two.options.groups = nullptr;
  EXPECT_NE(StringRef(two.check(plan)).find("is marked inside a group, but is in none"), StringRef::npos);
}

TEST(Fusion, MEM_05_OnlyWhatTheGroupIsDoneWithIsTakenOver) {
  TwoAsOne two;
  two.options.groups = &two.groups;
  two.groups.pairs = {{two.entry("c"), two.entry("s")}};  // which a reads last
  MemoryPlan plan = two.plan();
  plan.inplaceOf[two.entry("c")] = two.entry("s");
  plan.offset[two.entry("c")] = plan.offset[two.entry("s")];
  EXPECT_EQ(two.check(plan), "success");
  two.groups.pairs = {{two.entry("a"), two.entry("u")}};  // which c reads afterwards
  plan = two.plan();
  plan.inplaceOf[two.entry("a")] = two.entry("u");
  plan.offset[two.entry("a")] = plan.offset[two.entry("u")];
  EXPECT_NE(StringRef(two.check(plan)).find("which its group or a later node still reads"), StringRef::npos)
      << two.check(plan);
}

TEST(Fusion, BatchNormWithSumAndRelu) {
  const RunSetup setup{.shapes = {{"x", {2, 3, 2, 2}}}};
  const std::string norm = "n = BatchNorm(x, gamma, beta, mean, var);";
  EXPECT_EQ(groupsOf(norm + "y = Activation(n) {act_type=relu}", setup), "n y");
  EXPECT_EQ(groupsOf(norm + "y = elemwise_add(z, n)", setup), "n y");
  EXPECT_EQ(groupsOf(norm + "a = elemwise_add(n, z); y = relu(a)", setup), "n a y");
  EXPECT_EQ(groupsOf(norm + "y = Activation(n) {act_type=tanh}", setup), "");
  EXPECT_EQ(groupsOf(norm + "y = relu(n); heads y, n", setup), "");
  EXPECT_EQ(groupsOf(norm + "y = relu(n); s = sum(n); heads y, s", setup), "");
  EXPECT_EQ(groupsOf(norm + "y = elemwise_add(n, n)", setup), "");
}

TEST(Fusion, GradientsOfReluAndBatchNorm) {
  RunSetup setup;
  for (StringRef name : {"x", "h"}) setup.shapes.push_back({name, {2, 3, 2, 2}});
  auto groups = [&](StringRef between, StringRef gradients) {
    return groupsOf(
        ("n = BatchNorm(x, gamma, beta, mean, var) {fix_gamma=False}; y = relu(n);" + between + gradients).str(),
        setup);
  };
  const std::string norm = "d = _backward_BatchNorm(r, n:1, n:2, x, gamma, beta, mean, var) {fix_gamma=False};";
  const std::string relu = "r = _backward_relu(h, y);", both = relu + norm;
  EXPECT_EQ(groups("", both + "heads y, d"), "n y, r d");
  EXPECT_EQ(groups("", "r = _backward_Activation(h, y) {act_type=relu};" + norm + "heads y, d"), "n y, r d");
  // Somebody else reads the relu's gradient.
  EXPECT_EQ(groups("", both + "heads y, d, r"), "n y");
  // Another function, other operands and attributes than those that the relu's operand was computed from.
  EXPECT_EQ(groups("", "r = _backward_Activation(h, y, n) {act_type=sigmoid};" + norm + "heads y, d"), "n y");
  EXPECT_EQ(groups("", "r = _backward_relu(h, x);" + norm + "heads y, d"), "n y");
  for (StringRef other : {"r, n:2, n:2, x, gamma, beta", "r, n:1, n:1, x, gamma, beta", "r, n:1, n:2, h, gamma, beta",
                          "r, n:1, n:2, x, beta, beta", "r, n:1, n:2, x, gamma, gamma"})
    EXPECT_EQ(
        groups("", relu + "d = _backward_BatchNorm(" + other.str() + ", mean, var) {fix_gamma=False}; heads y, d"),
        "n y")
        << other.str();
  EXPECT_EQ(groups("", relu + "d = _backward_BatchNorm(r, n:1, n:2, x, gamma, beta, mean, var); heads y, d"), "n y");
  // beta is overwritten before.
  EXPECT_EQ(groups("w = _assign(beta, gamma);", both + "heads y, w, d"), "n y");
  EXPECT_EQ(groups("", both + "w = _assign(beta, gamma); heads y, d, w"), "n y, r d");
}

TEST(Fusion, RUN_02_BatchNormsHaveTheBitsOfNodesOneByOne) {
  TestContext context;
  for (StringRef shape : {"small", "rows", "blocks"})
    for (StringRef tail : {"y = Activation(n) {act_type=relu}", "y = elemwise_add(z, n)", "y = elemwise_add(n, z)",
                           "a = broadcast_add(n, z); y = Activation(a) {act_type=relu}"})
      for (bool isTraining : {true, false}) {
        SCOPED_TRACE((shape + " " + tail).str());
        RunSetup setup;
        setup.isTraining = isTraining;
        DimsBuffer dims{9, 2, 100, 100};
        if (shape == "small") dims = {2, 3, 5, 7};
        else if (shape == "rows") dims = {50, 33};
        setup.shapes = {{"x", dims}};
        if (tail.contains("z")) setup.shapes.push_back({"z", dims});
        TestGraph g("n = BatchNorm(x, gamma, beta, mean, var) {fix_gamma=False};" + tail.str());
        expectSameBits(g, setup);
        expectSameBits(gradientOf(context, g), setup);
      }
}

TEST(Fusion, RUN_02_NetworksHaveTheBitsOfNodesOneByOne) {
  for (auto [name, shape] : {std::pair<StringRef, DimsBuffer>{"lenet", {2, 1, 28, 28}}, {"resnet18", {2, 3, 32, 32}}}) {
    SCOPED_TRACE(name.str());
    TestContext context;
    const Graph forward =
        cantFail(readJson(context, readTestFile(("testdata/demo/" + name + ".json").str()), ReadOptions())).graph;
    RunSetup setup;
    setup.shapes = {{"data", shape}};
    expectSameBits(gradientOf(context, forward), setup);
    setup.allowInplace = false;
    expectSameBits(gradientOf(context, forward), setup);
  }
}

// Every operator with a kernel that takes parts, its gradients, and a group around it.
class FusedSamples : public ::testing::TestWithParam<Sample> {};

TEST_P(FusedSamples, RUN_02_HaveTheBitsOfNodesOneByOne) {
  TestContext context;
  SampleGraph sample(context, GetParam());
  const Orders orders(context, sample, std::min(2u, GetParam().orders));
  for (const Graph &graph : orders.graphs)
    for (DType type : {DType::Float32, DType::Float64}) {
      FastOptions options;
      options.run = sample.options;
      options.run.floatAs = type;
      const FastResult apart = runFast(graph, orders.bindings, options);
      options.fusion = small();
      const FastResult fused = runFast(graph, orders.bindings, options);
      for (size_t i = 0; i < apart.heads.size(); ++i)
        for (size_t k = 0; k < apart.heads[i].values.size(); ++k) {
          const double a = apart.heads[i].values[k], b = fused.heads[i].values[k];
          EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << "head " << i << ", element " << k;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Samples, FusedSamples, ::testing::ValuesIn(tableSamples()),
                         [](const ::testing::TestParamInfo<Sample> &info) {
                           return cellName(info.param.op, info.index);
                         });

}  // namespace
}  // namespace gradc
