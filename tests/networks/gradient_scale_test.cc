// Large graphs: a chain of 3·10⁵ nodes and a node with as many consumers go through gradient, inference and planning
// without recursion, each in a time that grows with the graph and no faster (CLI-06, CON-08).
#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "passes/memory/plan_memory.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/test_graph.h"

#include "ir/base/process_memory.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <array>
#include <ctime>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

Graph chainOf(Context &context, uint32_t length) {
  GraphBuilder builder(context);
  AttrText shape{"__shape__", "(2,)"};
  Value v = builder.addVariable("x", context.attrs(ArrayRef<AttrText>(shape)));
  KindRef relu = cantFail(context.kind(*context.ops.find("relu"), Attrs()));
  for (uint32_t i = 0; i < length; ++i) {
    v = Value{builder.addKind(relu, {v}, NodeId())};
    builder.setName(v.node, "n", std::to_string(i));
  }
  return cantFail(std::move(builder).freeze({v}, {})).graph;
}

Graph fanOf(Context &context, uint32_t width) {
  GraphBuilder builder(context);
  AttrText shape{"__shape__", "(2,)"};
  Value x = builder.addVariable("x", context.attrs(ArrayRef<AttrText>(shape)));
  Value a = Value{builder.addKind(cantFail(context.kind(*context.ops.find("exp"), Attrs())), {x}, NodeId())};
  std::vector<Value> terms;
  KindRef relu = cantFail(context.kind(*context.ops.find("relu"), Attrs()));
  for (uint32_t i = 0; i < width; ++i) terms.push_back(Value{builder.addKind(relu, {a}, NodeId())});
  std::string count = std::to_string(width);
  AttrText number{"num_args", count};
  KindRef sum = cantFail(context.kind(*context.ops.find("add_n"), context.attrs(ArrayRef<AttrText>(number))));
  return cantFail(std::move(builder).freeze({Value{builder.addKind(sum, terms, NodeId())}}, {})).graph;
}

constexpr const char *kStages[] = {"gradient", "inference", "requests", "plan", "check of the plan"};
constexpr size_t kNumStages = std::size(kStages);
using Seconds = std::array<double, kNumStages>;

/// Processor time of this process: what others do on the machine is not in it, but for the caches they take.
double now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Lowers `best` to what each stage takes now.
void measure(Context &context, const Graph &graph, Seconds &best) {
  size_t stage = 0;
  double start = now();
  auto finish = [&] {
    best[stage] = std::min(best[stage], now() - start);
    ++stage;
    start = now();
  };
  GradientRequest request;
  request.wrt = {{Value{NodeId(0)}, Request::Write}};
  GradientResult result = cantFail(buildGradient(context, graph, request, GradientOptions()));
  finish();
  Inference inference = cantFail(infer(context, result.graph, {}, {}));
  finish();
  RequestTable requests = countRequests(result.graph, {});
  finish();
  MemoryPlan plan = cantFail(planMemory(context, result.graph, inference, requests, PlanOptions()));
  finish();
  cantFail(checkPlan(result.graph, inference, requests, plan, PlanOptions()));
  finish();
}

/// Every stage takes n to 16 n nodes in at most kMostTimes (linear_time.h) the time. Repeated until it holds or a tenth
/// try fails.
void expectLinear(function_ref<Graph(Context &, uint32_t)> make) {
  constexpr uint32_t kSmall = 20'000, kFactor = 16;
  keepFreedMemory();
  TestContext context;
  const Graph small = make(context, kSmall), large = make(context, kFactor * kSmall);
  Seconds ofSmall, ofLarge;
  ofSmall.fill(1e9);
  ofLarge.fill(1e9);
  auto holds = [&](size_t stage) { return ofLarge[stage] <= testing::kMostTimes * ofSmall[stage]; };
  for (int round = 0; round < 10; ++round) {
    for (int repeat = 0; repeat < 5; ++repeat) measure(context, small, ofSmall);
    measure(context, large, ofLarge);
    if (round >= 2 && llvm::all_of(llvm::seq<size_t>(0, kNumStages), holds)) break;
  }
  for (size_t stage = 0; stage < kNumStages; ++stage) {
    outs() << format("%-18s %8.2f ms %9.2f ms, %5.1f times\n", kStages[stage], 1e3 * ofSmall[stage],
                     1e3 * ofLarge[stage], ofLarge[stage] / ofSmall[stage]);
    EXPECT_TRUE(holds(stage)) << kStages[stage] << " of " << kFactor << " times the nodes takes "
                              << ofLarge[stage] / ofSmall[stage] << " times as long";
  }
  outs().flush();
}

TEST(GradientScale, CLI_06_ChainOfHundredThousands) { expectLinear(chainOf); }

TEST(GradientScale, CLI_06_HundredThousandsOfConsumers) { expectLinear(fanOf); }

}  // namespace
}  // namespace gradc
