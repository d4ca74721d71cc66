// Schedules other than id order: what is one, plans and checks under it, and the same bits from every one.
#include "passes/memory/lifetimes.h"
#include "passes/order/order_mutation.h"
#include "runtime/session/session.h"
#include "tests/support/ops/naive.h"
#include "tests/support/runs/draw_schedule.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;
using namespace gradc::testing;

namespace gradc {
namespace {

// ---- what is a schedule

const char *const kTwoBranches = "a = exp(x) ; b = sum(a); c = exp(w); d = sum(c) ^a; y = elemwise_add(b, d)";

std::string verdict(const Graph &graph, ArrayRef<StringRef> names) {
  return describeError(verifySchedule(graph, scheduleOf(graph, names)));
}

TEST(Schedule, APermutationInWhichNodesFollowWhatTheyNeed) {
  TestGraph g(kTwoBranches);
  EXPECT_EQ(describeError(verifySchedule(g, Schedule())), "success");
  EXPECT_EQ(verdict(g, {"w", "c", "x", "a", "d", "b", "y"}), "success");
  const Schedule schedule = scheduleOf(g, {"w", "c", "x", "a", "d", "b", "y"});
  EXPECT_EQ(schedule.nodeAt(1), nodeNamed(g, "c"));
  EXPECT_EQ(schedule.stepOf(nodeNamed(g, "c")), 1u);
}

TEST(Schedule, NoPermutation) {
  TestGraph g(kTwoBranches);
  EXPECT_EQ(verdict(g, {"x", "a", "b"}), "[bad_plan] the schedule has 3 nodes, the graph has 7");
  EXPECT_EQ(verdict(g, {"x", "a", "b", "w", "c", "b", "y"}),
            "[bad_plan] the schedule runs node 'b' (sum) twice, at steps 2 and 5");
  std::vector<NodeId> order;
  for (uint32_t n = 1; n <= 7; ++n) order.push_back(NodeId(n));
  EXPECT_EQ(describeError(verifySchedule(g, Schedule(order))),
            "[bad_plan] the schedule runs node 7 at step 6, the graph has 7 nodes");
}

TEST(Schedule, NodesThatRunTooEarly) {
  TestGraph g(kTwoBranches);
  EXPECT_EQ(verdict(g, {"x", "b", "a", "w", "c", "d", "y"}),
            "[bad_plan] the schedule runs node 'b' (sum) at step 1, before node 'a' (exp), which it reads, at step 2");
  EXPECT_EQ(verdict(g, {"w", "c", "d", "x", "a", "b", "y"}),
            "[bad_plan] the schedule runs node 'd' (sum) at step 2, before node 'a' (exp), which it waits for, at step "
            "4");
  EXPECT_EQ(verdict(g, {"a", "x", "b", "w", "c", "d", "y"}),
            "[bad_plan] the schedule runs node 'a' (exp) at step 0, before variable 'x', which it reads, at step 1");
}

// ---- plans

struct Scheduled {
  const Graph &graph;
  Inference inference;
  RequestTable requests;
  PlanOptions options;
  MemoryPlan plan;

  Scheduled(const Graph &graph, PlanOptions planOptions) : graph(graph), options(std::move(planOptions)) {
    inference = cantFail(infer(testContext(), graph, {}, {}));
    requests = countRequests(graph, {});
    plan = cantFail(planMemory(testContext(), graph, inference, requests, options));
  }
  std::string check() const { return describeError(checkPlan(graph, inference, requests, plan, options)); }
  int64_t offset(StringRef name) const { return plan.offset[graph.firstEntry(nodeNamed(graph, name))]; }
};

// Units of 64 bytes: a 3, b 1, c 2, d 1.
const char *const kUnits = "x = var {__shape__=(2,24)}; w = var {__shape__=(2,16)}; a = exp(x); b = sum(a); c = exp(w);"
                           "d = sum(c); y = elemwise_add(b, d)";

TEST(Schedule, MEM_14_LifetimesAndBoundAreThoseOfTheSchedule) {
  TestGraph g(kUnits);
  const Scheduled byId(g, {});
  // x +a +b -a w +c +d -c …
  EXPECT_EQ(byId.plan.boundBytes, 64 * (3 + 1));
  EXPECT_EQ(byId.plan.peakNode, nodeNamed(g, "b"));
  const Scheduled both(g, {.schedule = scheduleOf(g, {"w", "x", "c", "a", "d", "b", "y"})});
  // w x +c +a +d -c +b -a y
  EXPECT_EQ(both.plan.liveBytes, (std::vector<int64_t>{0, 0, 128, 320, 384, 320, 128}));
  EXPECT_EQ(both.plan.boundBytes, 384);
  EXPECT_EQ(both.plan.peakNode, nodeNamed(g, "d"));
  EXPECT_EQ(both.plan.externalBytes, byId.plan.externalBytes);
  EXPECT_EQ(both.check(), "success");
  const Lifetimes lifetimes = cantFail(computeLifetimes(g, both.inference, both.requests, both.options));
  ASSERT_EQ(lifetimes.intervals.size(), 4u);
  const StringRef roots[] = {"c", "a", "d", "b"};
  const std::pair<uint32_t, uint32_t> spans[] = {{2, 4}, {3, 5}, {4, 6}, {5, 6}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lifetimes.intervals[i].root, g.graph.entry(g.at(roots[i])));
    EXPECT_EQ(std::pair(lifetimes.intervals[i].begin, lifetimes.intervals[i].end), spans[i]);
  }
}

TEST(Schedule, MEM_03_APlanIsOneForItsSchedule) {
  TestGraph g(kUnits);
  Scheduled p(g, {});
  p.options.schedule = scheduleOf(g, {"x", "w", "a", "c", "b", "d", "y"});
  EXPECT_EQ(p.check(),
            "[bad_plan] at node 'c' (exp): output 'c_output' takes bytes [0, 128), where entry 1 is still live");
}

TEST(Schedule, MEM_04_WhoMayTakeOverAnInputDependsOnTheSchedule) {
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); s = sum(a); r = relu(a); t = sum(r); y = elemwise_add(s, t)");
  Scheduled p(g, {});
  EXPECT_EQ(p.offset("r"), p.offset("a"));
  p.options.schedule = scheduleOf(g, {"x", "a", "r", "s", "t", "y"});
  EXPECT_EQ(p.check(), "[bad_plan] at node 'r' (relu): output 'r_output' overwrites entry 1, which is read again");
  const Scheduled planned(g, p.options);
  EXPECT_EQ(planned.check(), "success");
  EXPECT_NE(planned.offset("r"), planned.offset("a"));
}

TEST(Schedule, MEM_14_WorkspacesFollowTheSchedule) {
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); b = sum(a); c = exp(x); d = sum(c); y = elemwise_add(b, d)");
  PlanOptions options;
  options.workspaceOf = [](const void *, NodeId n) -> int64_t { return n.value == 2 ? 100 : 0; };
  options.schedule = scheduleOf(g, {"x", "c", "d", "a", "b", "y"});
  const Scheduled p(g, options);
  ASSERT_EQ(nodeNamed(g, "b"), NodeId(2));
  EXPECT_EQ(p.check(), "success");
  EXPECT_GE(p.plan.workspace[NodeId(2)], 0);
  EXPECT_EQ(p.plan.peakNode, NodeId(2));
  EXPECT_EQ(p.plan.liveBytes[4], 64 * (3 + 2)) << "d, a, b and two units of workspace at step 4";
}

// The two parts of a run, each with an arena of its own; what goes from one to the other is the caller's.
TEST(Schedule, MEM_14_PlansOfAPartOfTheSteps) {
  TestGraph g("x = var {__shape__=(16,)}; w = var {__shape__=(16,)}; a = exp(x); k = tanh(w); b = tanh(a);"
              "y = elemwise_mul(b, k); z = dot(y, a); q = exp(z); heads q");
  PlanOptions options;
  options.allowInplace = false;
  options.schedule = scheduleOf(g, {"w", "k", "x", "a", "b", "y", "z", "q"});
  options.steps.end = 6;
  const Scheduled first(g, options);
  EXPECT_EQ(first.check(), "success");
  for (StringRef name : {"a", "y", "z", "q"}) EXPECT_EQ(first.offset(name), kExternal) << name.str();
  for (StringRef name : {"k", "b"}) EXPECT_GE(first.offset(name), 0) << name.str();
  EXPECT_EQ(first.plan.plannedBytes, 128);
  EXPECT_EQ(first.plan.externalBytes, 64 * (2 + 4));
  EXPECT_EQ(first.plan.liveBytes, (std::vector<int64_t>{0, 64, 64, 64, 128, 128, 0, 0}));
  options.steps = {.begin = 6};
  const Scheduled second(g, options);
  EXPECT_EQ(second.check(), "success");
  EXPECT_EQ(second.plan.plannedBytes, 64) << "z alone";
  EXPECT_EQ(second.offset("k"), kExternal);
  options.steps = {.begin = 2};
  const Scheduled late(g, options);
  EXPECT_EQ(late.check(), "success");
  EXPECT_EQ(late.offset("k"), kExternal) << "at step 1, though its id is 4";
  EXPECT_GE(late.offset("a"), 0) << "at step 3, though its id is 1";
  // What no later step reads has to be in the arena.
  Scheduled broken = first;
  broken.plan.offset[g.graph.entry(g.at("b"))] = kExternal;
  EXPECT_EQ(broken.check(), "[bad_plan] at node 'b' (tanh): output 'b_output' is marked external, but is not a head");
}

TEST(Schedule, PlannerJudgeAndSessionRefuseWhatIsNone) {
  TestGraph g(kUnits);
  const std::string refusal =
      "[bad_plan] the schedule runs node 'b' (sum) at step 1, before node 'a' (exp), which it reads, at step 2";
  Scheduled p(g, {});
  p.options.schedule = scheduleOf(g, {"x", "b", "a", "w", "c", "d", "y"});
  EXPECT_EQ(p.check(), refusal);
  EXPECT_EQ(describeError(planMemory(g.context, g, p.inference, p.requests, p.options)), refusal);
  EXPECT_EQ(describeError(checkMutationOrder(g, p.options.schedule)), refusal);
  SessionOptions options;
  options.initSeed = 1;
  options.exec.schedule = p.options.schedule;
  EXPECT_EQ(describeError(Session::create(g.context, g, {}, options)), refusal);
  EXPECT_EQ(describeError(Executor::create(g, p.inference, p.requests, p.plan, options.exec)), refusal);
}

// ---- versions of overwritten variables

TEST(Schedule, E_31_ReadersBeforeTheWriteRunBeforeIt) {
  TestGraph g("r = exp(s); m = test_accumulate(x, s@1); y = elemwise_add(r, m)");
  const Schedule late = scheduleOf(g, {"s", "x", "m", "r", "y"});
  ASSERT_EQ(describeError(verifySchedule(g, late)), "success") << "its edges alone allow it";
  const std::string refusal = "[stale_version] node 'r' (exp) needs version 0 of variable 's', which node 'm' "
                              "(test_accumulate) has already overwritten with version 1";
  EXPECT_EQ(describeError(checkMutationOrder(g)), "success");
  EXPECT_EQ(describeError(checkMutationOrder(g, late)), refusal);
  SessionOptions options;
  options.initSeed = 1;
  options.hints.shapes = {{nodeNamed(g, "s"), {2}}};
  options.exec.schedule = late;
  EXPECT_EQ(describeError(Session::create(g.context, g, {}, options)), refusal);
  // A schedule may also mend what id order breaks.
  TestGraph broken("m = test_accumulate(x, s@1); r = exp(s); y = elemwise_add(m, r)");
  EXPECT_NE(describeError(checkMutationOrder(broken)), "success");
  EXPECT_EQ(describeError(checkMutationOrder(broken, scheduleOf(broken, {"x", "s", "r", "m", "y"}))), "success");
}

TEST(Schedule, E_31_ReadersOfTheNewVersionRunAfterTheWrite) {
  TestGraph g("m = test_accumulate(x, s@1); r = exp(s@1); y = elemwise_add(m, r)");
  EXPECT_EQ(describeError(checkMutationOrder(g)), "success");
  EXPECT_EQ(describeError(checkMutationOrder(g, scheduleOf(g, {"s", "r", "x", "m", "y"}))),
            "[stale_version] node 'r' (exp) needs what node 'm' (test_accumulate) writes, but runs before it");
}

TEST(Schedule, IR_09_VersionsWithoutNumbersAreThoseOfTheIds) {
  // The first write in id order is the first one of any schedule.
  TestGraph g("m = test_accumulate(x, s); k = test_accumulate(w, s); y = elemwise_add(m, k)");
  EXPECT_EQ(describeError(checkMutationOrder(g)), "success");
  EXPECT_EQ(
      describeError(checkMutationOrder(g, scheduleOf(g, {"w", "s", "k", "x", "m", "y"}))),
      "[stale_version] node 'k' (test_accumulate) needs what node 'm' (test_accumulate) writes, but runs before it");
}

TEST(Schedule, IR_09_AGraphInOrderAllowsEverySchedule) {
  for (StringRef text : {"r = exp(s); m = test_accumulate(x, s@1); q = negative(s@1); k = test_accumulate(w, s@2);"
                         "y = add_n(r, m, q, k) {num_args=4}",
                         "r = exp(s); m = test_accumulate(x, s); k = test_accumulate(w, s);"
                         "y = add_n(r, m, k) {num_args=3}",
                         "m = test_accumulate(x, s@1); y = elemwise_mul(s, s@1); z = elemwise_sub(y, m)"}) {
    TestGraph g(text);
    const OrderedGraph ordered = cantFail(orderMutations(g.context, g, OverwrittenPolicy::Save));
    for (uint64_t seed = 1; seed <= 50; ++seed)
      ASSERT_EQ(describeError(checkMutationOrder(ordered.graph, drawSchedule(ordered.graph, seed))), "success")
          << text.str() << " under the schedule of seed " << seed;
  }
}

// ---- the same bits

/// What a run leaves behind: the bytes of every head, then of every variable.
std::vector<std::vector<char>> resultsOf(const Graph &graph, const SessionOptions &options) {
  Session session = cantFail(Session::create(testContext(), graph, {}, options));
  for (uint64_t step = 0; step < 2; ++step) cantFail(session.run(step));
  std::vector<std::vector<char>> results;
  auto add = [&](const TensorRef &tensor) {
    results.emplace_back(tensor.as<char>(), tensor.as<char>() + (tensor.data ? tensor.bytes() : 0));
  };
  for (size_t i = 0; i < graph.heads().size(); ++i) add(session.head(i));
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n))) add(session.variable(NodeId(n)));
  return results;
}

// Entries that are alive at one step, from the graph and the schedule alone, are apart unless one took over the other.
void expectApart(const Scheduled &p) {
  struct Place {
    EntryId root;
    uint32_t begin, end;
    int64_t from, to;
  };
  const Graph &graph = p.graph;
  const Schedule &schedule = p.options.schedule;
  EntryMap<uint32_t> lastRead(graph, 0);
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (size_t i = 0; i < graph.inputs(NodeId(n)).size(); ++i)
      if (!graph.isVariable(NodeId(n)) && !graph.kind(NodeId(n)).isIgnored(i)) {
        uint32_t &last = lastRead[graph.entry(graph.inputs(NodeId(n))[i])];
        last = std::max(last, schedule.stepOf(NodeId(n)));
      }
  std::vector<Place> places;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) {
      const EntryId e(graph.firstEntry(NodeId(n)).value + o);
      if (p.plan.offset[e] < 0) continue;
      EntryId root = e;
      while (p.plan.inplaceOf[root].isValid()) root = p.plan.inplaceOf[root];
      const int64_t bytes = p.inference.elements(e) * dtypeBytes(p.inference.dtype[e]);
      const uint32_t begin = schedule.stepOf(NodeId(n));
      places.push_back({root, begin, std::max(begin, lastRead[e]), p.plan.offset[e], p.plan.offset[e] + bytes});
    }
  for (const Place &a : places)
    for (const Place &b : places)
      if (a.root < b.root && a.begin <= b.end && b.begin <= a.end) {
        EXPECT_TRUE(a.to <= b.from || b.to <= a.from) << "blocks " << a.root.value << " and " << b.root.value;
      }
}

struct Trial {
  const Graph &graph;
  SessionOptions options;

  explicit Trial(const Graph &graph) : graph(graph) {
    options.initSeed = 3;
    options.exec.seed = 11;
    options.exec.isTraining = true;
    options.exec.backend = Backend::Reference;
  }

  void expectSameBits() {
    const std::vector<std::vector<char>> expected = resultsOf(graph, options);
    for (uint64_t seed = 1; seed <= 12; ++seed)
      for (bool allowInplace : {true, false}) {
        SCOPED_TRACE("schedule of seed " + std::to_string(seed) + (allowInplace ? "" : ", not in place"));
        const Schedule schedule = drawSchedule(graph, seed);
        ASSERT_EQ(describeError(checkMutationOrder(graph, schedule)), "success");
        const Scheduled planned(graph, {.allowInplace = allowInplace, .schedule = schedule});
        EXPECT_EQ(planned.check(), "success");
        EXPECT_GE(planned.plan.plannedBytes, planned.plan.boundBytes);
        expectApart(planned);
        SessionOptions other = options;
        other.allowInplace = allowInplace;
        other.exec.schedule = schedule;
        EXPECT_EQ(resultsOf(graph, other), expected);
      }
  }
};

// Branches that meet again, random operators in several, states that are overwritten, and the gradient of it all.
const char *const kNetwork =
    "x = var {__shape__=(4,6)}; h = FullyConnected(x, w, b) {num_hidden=8};"
    "n = BatchNorm(h, gamma, beta, mean, var) {fix_gamma=False}; d = Dropout(n) {p=0.4}; e = Dropout(h) {p=0.3};"
    "l = LeakyReLU(n) {act_type=rrelu}; t = tanh(d); s = sigmoid(e); m = elemwise_mul(t, s); r = relu(l);"
    "f = Flatten(r); a = elemwise_add(m, f); c = Concat(a, t) {num_args=2};"
    "k = FullyConnected(c, w2, b2) {num_hidden=3}; y = SoftmaxOutput(k, label)";

TEST(Schedule, RUN_02_ANetworkAndItsGradientInOtherOrders) {
  TestGraph g(kNetwork);
  const Graph graph = gradientOf(g.context, g, {"w", "b", "gamma", "beta", "w2", "b2", "x"}, 1).graph;
  Trial trial(graph);
  trial.expectSameBits();
  trial.options.exec.backend = Backend::Auto;
  trial.expectSameBits();
}

TEST(Schedule, RUN_02_DrawsBelongToNodes) {
  TestGraph g("x = var {__shape__=(32,)}; a = Dropout(x) {p=0.5}; b = Dropout(x) {p=0.5}; heads a, b");
  Trial trial(g);
  const std::vector<std::vector<char>> byId = resultsOf(g, trial.options);
  EXPECT_NE(byId[0], byId[1]);
  trial.options.exec.schedule = scheduleOf(g, {"x", "b", "a"});
  EXPECT_EQ(resultsOf(g, trial.options), byId);
}

TEST(Schedule, REQ_06_HeadsAreServedWhereTheirNodeRuns) {
  // An entry in two heads; two that are added alone, so that they are gone with their nodes; and a variable.
  TestGraph g("x = var {__shape__=(8,)}; a = exp(x); b = tanh(x); c = negative(a); d = elemwise_mul(b, c);"
              "k = sigmoid(x); l = negative(x); heads a, d, a, b, c, k, l, x");
  const std::vector<Request> requests{Request::Add,  Request::Write, Request::Write, Request::Add,
                                      Request::Null, Request::Add,   Request::Add,   Request::Write};
  Trial trial(g);
  trial.options.exec.headRequests = requests;
  trial.expectSameBits();
}

TEST(Schedule, HOOK_08_NodesRunInItsOrder) {
  TestGraph g(kUnits);
  std::vector<NodeId> ran;
  Trial trial(g);
  trial.options.exec.schedule = scheduleOf(g, {"w", "x", "c", "a", "d", "b", "y"});
  trial.options.exec.monitorUser = &ran;
  trial.options.exec.monitor = [](void *user, NodeId n, ArrayRef<TensorRef>) {
    static_cast<std::vector<NodeId> *>(user)->push_back(n);
  };
  Session session = cantFail(Session::create(g.context, g, {}, trial.options));
  session.setProfiling(true);
  cantFail(session.run(0));
  std::vector<NodeId> expected, timed;
  for (StringRef name : {"c", "a", "d", "b", "y"}) expected.push_back(nodeNamed(g, name));
  for (const Executor::Timing &timing : session.timings()) timed.push_back(timing.node);
  EXPECT_EQ(ran, expected);
  EXPECT_EQ(timed, expected);
}

}  // namespace
}  // namespace gradc
