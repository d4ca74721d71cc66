// The judge of linear time: a pass over a graph is linear, and passes whose number grows as n^0.2 are not.
#include "tests/support/linear_time.h"

#include "tests/support/test_graph.h"

#include "ir/graph_builder.h"
#include "passes/gradient/gradient.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

Graph chainOf(Context &context, uint32_t n) {
  GraphBuilder builder(context);
  const KindRef exp = cantFail(context.kind(*context.ops.find("exp"), Attrs()));
  Value x = builder.addVariable("x", Attrs());
  for (uint32_t i = 0; i < n; ++i) x = Value{builder.addKind(exp, {x}, NodeId())};
  return cantFail(std::move(builder).freeze({x}, {})).graph;
}

// The gradient of a chain, `rounds` times.
double secondsToDifferentiate(uint32_t n, int rounds) {
  TestContext context;
  const Graph graph = chainOf(context, n);
  GradientRequest request;
  request.wrt = allTargets(graph, nullptr).targets;
  return secondsOf([&] {
    for (int round = 0; round < rounds; ++round) cantFail(buildGradient(context, graph, request, {}));
  });
}

TEST(LinearTime, CLI_06_OnePassIsLinear) {
  for (uint32_t n : {250u, 4000u}) {
    SCOPED_TRACE(n);
    expectLinear(n, [](uint32_t n) { return secondsToDifferentiate(n, 1); });
  }
}

// Three passes over 243 nodes, five over 3888.
TEST(LinearTime, CLI_06_AFifthMoreInTheExponentIsNot) {
  const LinearTime time = linearTimeOf(
      243, [](uint32_t n) { return secondsToDifferentiate(n, static_cast<int>(std::lround(std::pow(n, 0.2)))); });
  EXPECT_FALSE(time.isLinear()) << n << ": " << time.times() << " times, loss " << time.loss;
}
}

}  // namespace
}  // namespace gradc
