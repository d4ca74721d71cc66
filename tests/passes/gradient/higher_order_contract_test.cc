// What a compiled gradient of a gradient promises (§15): constants, forward values that stay, repeated calls.
#include "tests/support/ops/naive.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using testing::Bindings;
using testing::TestGraph;
using Numbers = std::vector<double>;

// loss = mean(g² + x²) with g = dy/dx, on top of an emitted gradient graph.
struct Penalty {
  explicit Penalty(TestGraph &g) {
    GradientResult first = testing::gradientOf(g.context, g, {"x"}, 1);
    gradient = first.wrt[0].value;
    GraphBuilder builder(g.context, first.graph);
    auto emit = [&](StringRef op, std::vector<Value> inputs, StringRef name) {
      return Value{cantFail(builder.add(*g.context.ops.find(op), inputs, {name, Attrs(), NodeId()}))};
    };
    Value sum = emit("elemwise_add", {emit("square", {gradient}, "g2"), emit("square", {g.at("x")}, "x2")}, "s");
    Value loss = emit("mean", {sum}, "loss");
    Frozen frozen = cantFail(std::move(builder).freeze({loss}, {}));
    graph = frozen.graph;
    gradient = frozen(gradient);
  }
  Graph graph;
  Value gradient;
};

// create_graph off: the first gradient is a constant for what follows; in a compiled graph it is stopped.
TEST(HigherOrderContract, HO_07_TheFirstGradientAsAConstant) {
  TestGraph g("y = elemwise_mul(x, x)");
  Penalty penalty(g);
  const Bindings bindings{{"x", testing::Array(Numbers{1, 2, 4, 8})}};
  GradientRequest request = testing::wrt(penalty.graph, {"x"});
  std::vector<testing::Array> heads =
      testing::evaluate(cantFail(buildGradient(g.context, penalty.graph, request, {})).graph, bindings);
  EXPECT_EQ(heads[1].values, (Numbers{2.5, 5, 10, 20})) << "(8x + 2x) / n";
  request.stop = {penalty.gradient};
  heads = testing::evaluate(cantFail(buildGradient(g.context, penalty.graph, request, {})).graph, bindings);
  EXPECT_EQ(heads[1].values, (Numbers{0.5, 1, 2, 4})) << "2x / n";
}

/// All heads of `graph`, run with a plan that shares memory.
std::vector<Numbers> planned(const Graph &graph, const Bindings &bindings) {
  std::vector<NamedArray> arrays;
  for (auto &[name, array] : bindings)
    arrays.push_back({name, doubles({array.shape.begin(), array.shape.end()}, array.values)});
  SessionOptions options;
  options.infer.floatAs = DType::Float64;
  options.exec.backend = Backend::Reference;
  Session session = cantFail(Session::create(testing::testContext(), graph, std::move(arrays), options));
  cantFail(session.run(0));
  std::vector<Numbers> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) heads.push_back(valuesOf<double>(session.head(i)));
  return heads;
}

TEST(HigherOrderContract, HO_10_HO_11_ForwardValuesStayForLaterOrders) {
  TestGraph g("a = tanh(x); b = sigmoid(a); c = elemwise_mul(b, a); d = exp(c); y = sum(d)");
  const Bindings bindings{{"x", testing::Array(Numbers{0.5, -1, 2, 0.25})}};
  for (uint32_t order = 1; order <= 3; ++order) {
    GradientResult result = testing::gradientOf(g.context, g, {"x"}, order);
    // The forward part is the graph that was given, once, whatever the order: it is not computed again.
    EXPECT_EQ(testing::dumpFrom(result.graph, 0, 0).substr(0, testing::dump(g).find("heads")),
              testing::dump(g).substr(0, testing::dump(g).find("heads")));
    // Later nodes read the very entries of the forward part and of earlier orders, and the plan keeps their bytes.
    std::vector<testing::Array> expected = testing::evaluate(result.graph, bindings);
    std::vector<Numbers> heads = planned(result.graph, bindings);
    ASSERT_EQ(heads.size(), order + 1);
    for (size_t i = 0; i < heads.size(); ++i) EXPECT_EQ(heads[i], expected[i].values) << order << " " << i;
  }
}

TEST(HigherOrderContract, HO_10_LowerOrdersStayWhenOnlyTheLastIsEmitted) {
  // z comes before x and is of no use for the gradient: the first order keeps it all the same, or x would be another
  // node.
  TestGraph g("z = exp(w); y = square(x); heads z, y");
  GradientOptions options;
  options.gradientOnly = true;
  Expected<GradientResult> result = buildGradientOfOrder(g.context, g, testing::wrt(g, {"x"}), options, 2);
  ASSERT_TRUE(bool(result)) << testing::describeError(result.takeError());
  EXPECT_EQ(result->graph.heads().size(), 1u);
  EXPECT_EQ(planned(result->graph, {{"x", testing::Array(5.0)}})[0], Numbers{2});
}

// --order K and K single calls are the same gradients; earlier heads keep their values and their names.
TEST(HigherOrderContract, HO_09_ASK_02_CallsOneAfterAnother) {
  TestGraph g("p = tanh(x); y = elemwise_mul(p, x)");
  const Bindings bindings{{"x", testing::Array(0.75)}};
  Graph graph = g;
  Value y = g.at("y");
  for (uint32_t order = 1; order <= 4; ++order) {
    GradientRequest request = testing::wrt(graph, {"x"});
    request.heads = {{y, std::nullopt, ""}};
    const Graph before = graph;
    GradientResult step = cantFail(buildGradient(g.context, graph, request, {}));
    graph = step.graph;
    y = step.wrt[0].value;
    for (uint32_t n = 0; n < before.numNodes(); ++n) ASSERT_EQ(graph.name(NodeId(n)), before.name(NodeId(n)));
    std::vector<testing::Array> together =
        testing::evaluate(testing::gradientOf(g.context, g, {"x"}, order).graph, bindings);
    std::vector<testing::Array> apart = testing::evaluate(graph, bindings);
    ASSERT_EQ(apart.size(), order + 1);
    for (size_t i = 0; i < apart.size(); ++i) EXPECT_EQ(apart[i].values, together[i].values) << order << " " << i;
  }
  StringSet<> names;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) EXPECT_TRUE(names.insert(graph.name(NodeId(n))).second);
}

}  // namespace
}  // namespace gradc
