// Gradients have the shape and the type of what they are the gradient of; rules that forget it are found (INF-10).
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/primitives.h"
#include "passes/gradient/gradient.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

void eitherShape(ShapeInference &s) {
  if (s.in(1).hasRank()) s.setOut(0, DimsBuffer(s.in(1).dims()));
}

/// y = x spread over the shape of like; its rule passes dy on as it is.
constinit const OpDef kSpread = {
    .name = "spread",
    .inputs = {"data", "like"},
    .shape = eitherShape,
    .stopped = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.dy(0));
          g.noGrad(1);
        },
};

/// x in float32; its rule does not cast back.
constinit const OpDef kWiden = {
    .name = "widen",
    .inputs = {"data"},
    .shape = shapes::same,
    .dtype = [](DTypeInference &t) { t.setOut(0, DType::Float32); },
    .gradient = [](GradRule &g) { g.dx(0, g.dy(0)); },
};

struct ShapeContext : TestContext {
  ShapeContext() {
    cantFail(ops.add(kSpread));
    cantFail(ops.add(kWiden));
  }

  Graph gradient(StringRef text, ArrayRef<StringRef> names) {
    return gradientOf(*this, cantFail(parseGraph(*this, text)), names, 1).graph;
  }
  std::string outcome(const Graph &graph, const InferRequest &hints) {
    InferOptions partial;
    partial.allowUnknown = true;
    return describeError(infer(*this, graph, hints, partial));
  }
};

TEST(GradientShapes, INF_10_E_57_BroadcastThatIsNotUndone) {
  ShapeContext context;
  Graph graph = context.gradient("y = spread(x, k)", {"x"});
  const NodeId x = nodeNamed(graph, "x"), k = nodeNamed(graph, "k");
  EXPECT_EQ(
      context.outcome(graph, {{{x, {3}}, {k, {2, 3}}}, {}}),
      "[grad_shape] the gradient of 'x', output 0 of node '_head_grad_0' (ones_like), has shape (2,3), expected (3,)");
  EXPECT_EQ(context.outcome(graph, {{{x, {2, 3}}, {k, {2, 3}}}, {}}), "success");
  EXPECT_EQ(context.outcome(graph, {{{x, {3}}}, {}}), "success") << "what is not known cannot be wrong";
}

TEST(GradientShapes, INF_10_E_57_WideningThatIsNotUndone) {
  ShapeContext context;
  Graph graph = context.gradient("y = widen(x)", {"x"});
  const NodeId x = nodeNamed(graph, "x");
  EXPECT_EQ(context.outcome(graph, {{{x, {2}}}, {{x, DType::Float16}}}),
            "[grad_shape] the gradient of 'x', output 0 of node '_head_grad_0' (ones_like), has type float32, "
            "expected float16");
  EXPECT_EQ(context.outcome(graph, {{{x, {2}}}, {{x, DType::Float32}}}), "success");
}

TEST(GradientShapes, INF_10_OperatorsUndoBoth) {
  TestContext context;
  Graph forward = cantFail(parseGraph(context, "c = Cast(x) {dtype=float32}; y = broadcast_add(c, b)"));
  Graph graph = gradientOf(context, forward, {"x", "b"}, 1).graph;
  const NodeId x = nodeNamed(graph, "x"), b = nodeNamed(graph, "b");
  Inference inference = cantFail(infer(context, graph, {{{x, {3, 1}}, {b, {1, 4}}}, {{x, DType::Float16}}}, {}));
  EntryId dx = graph.entry(graph.heads()[1]), db = graph.entry(graph.heads()[2]);
  EXPECT_EQ(inference.shapeOf(dx).dims(), Dims({3, 1}));
  EXPECT_EQ(inference.dtype[dx], DType::Float16);
  EXPECT_EQ(inference.shapeOf(db).dims(), Dims({1, 4}));
  EXPECT_EQ(inference.dtype[db], DType::Float32);
}

}  // namespace
}  // namespace gradc
