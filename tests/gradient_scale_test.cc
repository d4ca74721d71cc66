// Large graphs: a chain of 10⁵ nodes and a node with 10⁴ consumers go through gradient, inference and planning without
// recursion, in a time that grows with the graph (CLI-06, CON-08).
#include "passes/gradient.h"
#include "passes/infer.h"
#include "passes/plan_memory.h"
#include "tests/support/test_graph.h"

#include "ir/graph_builder.h"

#include <gtest/gtest.h>

#include <chrono>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

Graph chainOf(Context &context, uint32_t length) {
  GraphBuilder builder(context);
  AttrText shape{"__shape__", "(2,)"};
  Value v = builder.addVariable("x", context.attrs(ArrayRef<AttrText>(shape)));
  KindId relu = cantFail(context.kind(*context.ops.find("relu"), AttrsId(0)));
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
  Value a = Value{builder.addKind(cantFail(context.kind(*context.ops.find("exp"), AttrsId(0))), {x}, NodeId())};
  std::vector<Value> terms;
  KindId relu = cantFail(context.kind(*context.ops.find("relu"), AttrsId(0)));
  for (uint32_t i = 0; i < width; ++i) terms.push_back(Value{builder.addKind(relu, {a}, NodeId())});
  std::string count = std::to_string(width);
  AttrText number{"num_args", count};
  KindId sum = cantFail(context.kind(*context.ops.find("add_n"), context.attrs(ArrayRef<AttrText>(number))));
  return cantFail(std::move(builder).freeze({Value{builder.addKind(sum, terms, NodeId())}}, {})).graph;
}

// Seconds for gradient, inference and plan; the best of three.
double secondsFor(Context &context, const Graph &graph) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    auto start = std::chrono::steady_clock::now();
    GradientRequest request;
    request.wrt = {{Value{NodeId(0)}, Request::Write}};
    GradientResult result = cantFail(buildGradient(context, graph, request, GradientOptions()));
    Inference inference = cantFail(infer(context, result.graph, {}, {}));
    RequestTable requests = countRequests(result.graph, {});
    MemoryPlan plan = cantFail(planMemory(context, result.graph, inference, requests, PlanOptions()));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    EXPECT_EQ(describeError(checkPlan(result.graph, inference, requests, plan, PlanOptions())), "success");
  }
  return best;
}

TEST(GradientScale, CLI_06_ChainOfHundredThousandNodes) {
  TestContext context;
  double small = secondsFor(context, chainOf(context, 25000)), large = secondsFor(context, chainOf(context, 100000));
  EXPECT_LT(large, 12 * small + 0.05) << small << " s for a quarter, " << large << " s for the whole";
}

TEST(GradientScale, CLI_06_TenThousandConsumers) {
  TestContext context;
  double small = secondsFor(context, fanOf(context, 2500)), large = secondsFor(context, fanOf(context, 10000));
  EXPECT_LT(large, 12 * small + 0.05) << small << " s for a quarter, " << large << " s for the whole";
}

}  // namespace
}  // namespace gradc
