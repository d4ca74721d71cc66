// The vocabulary rules are written in: what emit refuses, what fused and clone make, what a rule may leave out.
#include "ir/grad_rule.h"
#include "ops/primitives.h"
#include "passes/backward_link.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

// A rule over y = elemwise_mul(a, b) with a head gradient h.
struct RuleOverProduct {
  TestContext context;
  GraphBuilder builder{context};
  Value a = builder.addVariable("a", AttrsId(0)), b = builder.addVariable("b", AttrsId(0)),
        h = builder.addVariable("h", AttrsId(0));
  NodeId y = cantFail(builder.add(kElemwiseMul, {a, b}, {"y", AttrsId(0), NodeId()}));
  std::vector<Value> heads{h};
  bool wanted[2] = {true, true};
  int numMaterialized = 0;
  GradRule rule{builder, y, y,
                {heads,
                 [](void *self, size_t) {
                   ++static_cast<RuleOverProduct *>(self)->numMaterialized;
                   return static_cast<RuleOverProduct *>(self)->a;
                 },
                 this},
                wanted};
};

TEST(GradRule, REG_02_ReadingMakesNothing) {
  RuleOverProduct t;
  const uint32_t numNodes = t.builder.numNodes();
  EXPECT_EQ(t.rule.x(1), t.b);
  EXPECT_EQ(t.rule.y(0), Value{t.y});
  EXPECT_EQ(t.rule.dy(0), t.h);
  EXPECT_EQ(t.numMaterialized, 0);
  EXPECT_EQ(t.builder.numNodes(), numNodes);
}

TEST(GradRule, ZERO_01_ZeroHeadBecomesAValueWhenRead) {
  RuleOverProduct t;
  t.heads[0] = Value();
  EXPECT_TRUE(t.rule.isZero(0));
  EXPECT_EQ(t.numMaterialized, 0);
  EXPECT_EQ(t.rule.dy(0), t.a);
  EXPECT_EQ(t.numMaterialized, 1);
}

TEST(GradRule, REG_05_FusedAnswersForEveryInput) {
  RuleOverProduct t;
  const OpDef *backward = t.context.ops.find("_backward_mul");
  Value v = t.rule.fused(*backward, {t.rule.dy(0), t.rule.x(0), t.rule.x(1)});
  EXPECT_EQ(t.rule.slot(0), GradRule::Slot::Gradient);
  EXPECT_EQ(t.rule.gradient(0), v);
  EXPECT_EQ(t.rule.gradient(1), GradRule::at(v, 1));
  Graph graph = cantFail(std::move(t.builder).freeze({v}, {})).graph;
  NodeId n = graph.heads()[0].node;
  ASSERT_EQ(graph.controlDeps(n).size(), 1u);
  EXPECT_EQ(graph.op(graph.controlDeps(n)[0])->name, "elemwise_mul");
}

TEST(GradRule, REG_05_FusedWithFewerOutputsGivesTheOthersNone) {
  RuleOverProduct t;
  t.rule.fused(*t.context.ops.find("_backward_relu"), {t.rule.dy(0), t.rule.y(0)});
  EXPECT_EQ(t.rule.slot(0), GradRule::Slot::Gradient);
  EXPECT_EQ(t.rule.slot(1), GradRule::Slot::None);
}

TEST(GradRule, REG_10_CloneMakesNoNode) {
  RuleOverProduct t;
  uint32_t before = t.builder.numNodes();
  t.rule.clone();
  EXPECT_EQ(t.builder.numNodes(), before);
  EXPECT_EQ(t.rule.gradient(0), t.h);
  EXPECT_EQ(t.rule.gradient(1), t.h);
}

TEST(GradRule, MistakesInsideEmitAreKeptForTheDriver) {
  RuleOverProduct t;
  EXPECT_FALSE(t.rule.hasFailed());
  EXPECT_TRUE(t.rule.emit(kElemwiseAdd, {t.a}).isValid());
  EXPECT_TRUE(t.rule.hasFailed());
  t.rule.emit(kMulScalar, {t.a}, {{"scalar", "many"}});  // the first mistake stands
  EXPECT_EQ(describeError(t.rule.takeFailure()),
            "[arity] the rule of operator 'elemwise_mul' emits 'elemwise_add' with 1 inputs, it takes 2");
}

TEST(GradRule, BadAttributesInsideEmit) {
  RuleOverProduct t;
  t.rule.emit(kMulScalar, {t.a}, {{"scalar", "many"}});
  EXPECT_EQ(describeError(t.rule.takeFailure()).substr(0, 79),
            "[bad_attribute] the rule of operator 'elemwise_mul' emits '_mul_scalar': attrib");
}

TEST(GradRule, NumbersAsAttributeText) {
  RuleOverProduct t;
  EXPECT_EQ(t.rule.number(0.5), "0.5");
  EXPECT_EQ(t.rule.number(int64_t{-3}), "-3");
}

TEST(GradRule, INF_08_SummaryOfAFusedRule) {
  TestContext context;
  RuleSummaries summaries(context);
  const RuleSummary &summary = summaries.of(cantFail(context.kind(*context.ops.find("elemwise_mul"), AttrsId(0))));
  ASSERT_EQ(summary.nodes.size(), 1u);
  EXPECT_EQ(context.kind(summary.nodes[0].kind).op->name, "_backward_mul");
  ASSERT_EQ(summary.nodes[0].outputs.size(), 2u);
  EXPECT_EQ(summary.nodes[0].outputs[1].position, 1u);
  EXPECT_EQ(summary.nodes[0].outputs[1].of, 1u);
  ASSERT_EQ(summary.nodes[0].fromOutputs.size(), 1u);
  EXPECT_EQ(summary.nodes[0].fromOutputs[0].position, 0u);
  EXPECT_EQ(summary.nodes[0].fromInputs, (std::vector<LinkedEntry>{{1, 0}, {2, 1}}));
}

}  // namespace
}  // namespace gradc
