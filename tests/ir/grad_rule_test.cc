// The vocabulary rules are written in: what emit refuses, what fused and clone make, what a rule may leave out.
#include "ir/rules/grad_rule.h"
#include "ops/kit/primitives.h"
#include "passes/inference/backward_link.h"
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
  Value a = builder.addVariable("a", Attrs()), b = builder.addVariable("b", Attrs()),
        h = builder.addVariable("h", Attrs());
  NodeId y = cantFail(builder.add(kElemwiseMul, {a, b}, {"y", Attrs(), NodeId()}));
  std::vector<Value> heads{h};
  bool wanted[2] = {true, true};
  int numMaterialized = 0;
  GradRule rule{builder,
                y,
                y,
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
  EXPECT_EQ(t.rule.gradient(1), t.rule.at(v, 1));
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
  t.rule.emit(kMulScalar, {t.a}, {{"scalar", "many"}});  // the first mistake is kept
  EXPECT_EQ(describeError(t.rule.takeFailure()),
            "[arity] the gradient rule of operator 'elemwise_mul' emits 'elemwise_add' with 1 input, but it takes 2");
}

TEST(GradRule, BadAttributesInsideEmit) {
  RuleOverProduct t;
  t.rule.emit(kMulScalar, {t.a}, {{"scalar", "many"}});
  EXPECT_EQ(describeError(t.rule.takeFailure()).substr(0, 88),
            "[bad_attribute] the gradient rule of operator 'elemwise_mul' emits '_mul_scalar': attrib");
}

// ---- what a rule may not ask for, in any build

/// What the rule's first mistake was.
template <class Rule> std::string mistakeOf(Rule &rule) {
  EXPECT_TRUE(rule.hasFailed());
  return describeError(rule.takeFailure());
}

std::string mistake(function_ref<void(RuleOverProduct &)> use) {
  RuleOverProduct t;
  use(t);
  return mistakeOf(t.rule);
}

TEST(GradRule, E_40_IndicesThatTheNodeDoesNotHave) {
  const std::string rule = "[bad_gradient_rule] the gradient rule of operator 'elemwise_mul' ";
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.x(7).isValid()); }), rule + "reads input 7, but the node has 2");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.y(1).isValid()); }), rule + "reads output 1, but the node has 1");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.y(65536).isValid()); }),
            rule + "reads output 65536, but the node has 1");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.dy(1).isValid()); }),
            rule + "reads the gradient of output 1, but the node has 1");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.isZero(9)); }),
            rule + "reads the gradient of output 9, but the node has 1");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_FALSE(t.rule.wants(2)); }), rule + "asks for input 2, but the node has 2");
  EXPECT_EQ(mistake([](auto &t) { t.rule.noGrad(2); }), rule + "gives the gradient of input 2, but the node has 2");
  EXPECT_EQ(mistake([](auto &t) { t.rule.dx(size_t{1} << 32, t.h); }),
            rule + "gives the gradient of input 4294967296, but the node has 2");
  RuleOverProduct t;
  EXPECT_EQ(t.rule.slot(2), GradRule::Slot::Unanswered);
  EXPECT_FALSE(t.rule.gradient(2).isValid());
}

TEST(GradRule, E_40_AnswersAreGivenOnce) {
  const StringRef twice =
      "[bad_gradient_rule] the gradient rule of operator 'elemwise_mul' gives the gradient of input 1 twice";
  EXPECT_EQ(mistake([](auto &t) {
              t.rule.dx(1, t.h);
              t.rule.dx(1, t.a);
            }),
            twice);
  EXPECT_EQ(mistake([](auto &t) {
              t.rule.noGrad(1);
              t.rule.dx(1, t.a);
            }),
            twice);
  EXPECT_EQ(mistake([](auto &t) {
              t.rule.dx(1, t.h);
              t.rule.noGrad(1);
              EXPECT_EQ(t.rule.gradient(1), t.h);
            }),
            twice);
  EXPECT_EQ(mistake([](auto &t) {
              t.rule.dx(1, t.h);
              t.rule.clone();
            }),
            twice);
  auto fuse = [](RuleOverProduct &t) { return t.rule.fused(*t.context.ops.find("_backward_relu"), {t.h, t.a}); };
  EXPECT_EQ(mistake([&](auto &t) {
              t.rule.dx(0, t.h);
              fuse(t);
              fuse(t);
            }),
            twice);
  EXPECT_EQ(mistake([&](auto &t) {
              fuse(t);
              t.rule.dx(1, t.h);
              t.rule.noGrad(1);
            }),
            twice);
}

TEST(GradRule, REG_05_TheRulesOwnAnswerTakesPrecedenceOverFused) {
  for (bool isFirst : {true, false}) {
    RuleOverProduct t;
    if (isFirst) t.rule.dx(1, t.h);
    const Value v = t.rule.fused(*t.context.ops.find("_backward_mul"), {t.h, t.a, t.b});
    if (!isFirst) t.rule.dx(1, t.h);
    EXPECT_EQ(t.rule.gradient(0), v) << isFirst;
    EXPECT_EQ(t.rule.gradient(1), t.h) << isFirst;
    EXPECT_FALSE(t.rule.hasFailed());
  }
}

TEST(GradRule, E_48_OperandsThatNoNodeHas) {
  const std::string rule = "[bad_entry] the gradient rule of operator 'elemwise_mul' ";
  EXPECT_EQ(mistake([](auto &t) { t.rule.emit(kElemwiseAdd, {t.a, Value()}); }),
            rule + "emits 'elemwise_add' with operand 1, which is an invalid value");
  EXPECT_EQ(mistake([](auto &t) { t.rule.emit(kElemwiseAdd, {Value{NodeId(99)}, t.a}); }),
            rule + "emits 'elemwise_add' with operand 0, which is an output of node 99, which does not exist");
  EXPECT_EQ(mistake([](auto &t) { t.rule.emit(kElemwiseAdd, {t.a, Value{t.y, 1, 0}}); }),
            rule + "emits 'elemwise_add' with operand 1, which is output 1 of operator 'elemwise_mul', which has 1");
  EXPECT_EQ(mistake([](auto &t) { t.rule.dx(0, Value{NodeId(4)}); }),
            rule + "gives as the gradient of input 0 an output of node 4, which does not exist");
  EXPECT_EQ(mistake([](auto &t) {
              t.rule.emitFused(*t.context.ops.find("_backward_mul"), {t.h, t.a, t.b}, Attrs(), NodeId(50));
            }),
            rule + "emits '_backward_mul' as the gradient of an output of node 50, which does not exist");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.at(Value{t.y}, 1).isValid()); }),
            rule + "reads output 1 of operator 'elemwise_mul', which has 1");
  EXPECT_EQ(mistake([](auto &t) { EXPECT_TRUE(t.rule.at(Value{t.y}, 65536).isValid()); }),
            rule + "reads output 65536 of operator 'elemwise_mul', which has 1");
  EXPECT_EQ(mistake([](auto &t) { t.rule.at(Value(), 0); }), rule + "reads an output of an invalid value");
}

TEST(GradRule, NothingIsEmittedAfterAMistake) {
  RuleOverProduct t;
  const uint32_t numNodes = t.builder.numNodes();
  t.rule.x(2);
  EXPECT_TRUE(t.rule.emit(kElemwiseAdd, {t.a, t.b}).isValid());
  EXPECT_TRUE(t.rule.fused(*t.context.ops.find("_backward_mul"), {t.h, t.a, t.b}).isValid());
  EXPECT_EQ(t.builder.numNodes(), numNodes);
}

// A decomposition of s = test_split3(x), which belongs to y = elemwise_mul(a, b) as if it were its gradient.
struct RuleOverParts : RuleOverProduct {
  NodeId s = cantFail(builder.add(*context.ops.find("test_split3"), {a}, {"s", Attrs(), NodeId()}));
  DecomposeRule parts{builder, s, s};
};

std::string mistakeInParts(function_ref<void(RuleOverParts &)> use) {
  RuleOverParts t;
  t.parts.setForward(t.y);
  use(t);
  return mistakeOf(t.parts);
}

TEST(DecomposeRule, E_40_IndicesThatTheNodeDoesNotHave) {
  const std::string rule = "[bad_gradient_rule] the decomposition of operator 'test_split3' ";
  EXPECT_EQ(mistakeInParts([](auto &t) { t.parts.x(1); }), rule + "reads input 1, but the node has 1");
  EXPECT_EQ(mistakeInParts([](auto &t) { t.parts.y(3, t.a); }), rule + "gives output 3, but the node has 3");
  EXPECT_EQ(mistakeInParts([](auto &t) {
              t.parts.y(2, t.a);
              t.parts.y(2, t.b);
            }),
            rule + "gives output 2 twice");
  EXPECT_EQ(mistakeInParts([](auto &t) { EXPECT_FALSE(t.parts.wants(3)); }),
            rule + "asks for output 3, but the node has 3");
  EXPECT_EQ(mistakeInParts([](auto &t) { EXPECT_FALSE(t.parts.output(3).isValid()); }),
            rule + "reads output 3, but the node has 3");
  EXPECT_EQ(mistakeInParts([](auto &t) { t.parts.forward(1); }),
            rule + "reads output 1 of its forward node, which has 1");
  const std::string entry = "[bad_entry] the decomposition of operator 'test_split3' ";
  EXPECT_EQ(mistakeInParts([](auto &t) { t.parts.y(0, Value()); }), entry + "gives as output 0 an invalid value");
  RuleOverParts t;
  EXPECT_FALSE(t.parts.forward(9).isValid()) << "no forward node";
  EXPECT_FALSE(t.parts.hasFailed());
}

TEST(GradRule, NumbersAsAttributeText) {
  RuleOverProduct t;
  EXPECT_EQ(t.rule.number(0.5), "0.5");
  EXPECT_EQ(t.rule.number(int64_t{-3}), "-3");
}

TEST(GradRule, INF_08_SummaryOfAFusedRule) {
  TestContext context;
  RuleSummaries summaries(context);
  const RuleSummary &summary = summaries.of(cantFail(context.kind(*context.ops.find("elemwise_mul"), Attrs())));
  ASSERT_EQ(summary.nodes.size(), 1u);
  EXPECT_EQ(summary.nodes[0].kind->op->name, "_backward_mul");
  ASSERT_EQ(summary.nodes[0].outputs.size(), 2u);
  EXPECT_EQ(summary.nodes[0].outputs[1].position, 1u);
  EXPECT_EQ(summary.nodes[0].outputs[1].of, 1u);
  ASSERT_EQ(summary.nodes[0].fromOutputs.size(), 1u);
  EXPECT_EQ(summary.nodes[0].fromOutputs[0].position, 0u);
  EXPECT_EQ(summary.nodes[0].fromInputs, (std::vector<LinkedEntry>{{1, 0}, {2, 1}}));
}

}  // namespace
}  // namespace gradc
