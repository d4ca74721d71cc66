// Formulas as decompositions: which nodes they emit, and in which order.
#include "ops/elementwise/formula.h"

#include "ir/graph/graph_builder.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

/// The operators that F of two variables emits, with the number of each operand: "exp(0) _plus_scalar(2)".
template <auto F> std::string emitted(Formula::Shapes shapes = Formula::Shapes::Equal) {
  TestContext context;
  GraphBuilder builder(context);
  const NodeId x = builder.addVariable("x", Attrs()).node, y = builder.addVariable("y", Attrs()).node;
  const NodeId node =
      cantFail(builder.add(*context.ops.find("elemwise_add"), {Value{x}, Value{y}}, {"", Attrs(), NodeId()}));
  DecomposeRule rule(builder, node, node);
  Formula formula(rule, shapes);
  const Term operands[] = {Term(formula, rule.x(0)), Term(formula, rule.x(1))};
  const Value result = F(operands[0], operands[1]).value();
  std::string text;
  for (uint32_t n = node.value + 1; n < builder.numNodes(); ++n) {
    text += (text.empty() ? "" : " ") + builder.kind(NodeId(n)).op->name.str() + "(";
    for (Value v : builder.inputs(NodeId(n))) text += (text.back() == '(' ? "" : ",") + std::to_string(v.node.value);
    text += ")";
  }
  EXPECT_FALSE(rule.hasFailed());
  return text + " = " + std::to_string(result.node.value);
}

TEST(Formula, A_06_LeftOperandsComeFirst) {
  EXPECT_EQ((emitted<[](auto x, auto y) { return sin(x) * (cos(y) + exp(x)); }>()),
            "sin(0) cos(1) exp(0) elemwise_add(4,5) elemwise_mul(3,6) = 7");
}

TEST(Formula, A_06_TermsThatAreUsedTwiceAreOneNode) {
  EXPECT_EQ((emitted<[](auto x, auto y) {
              const auto root = sqrt(x);
              return root / (root + y);
            }>()),
            "sqrt(0) elemwise_add(3,1) elemwise_div(3,4) = 5");
}

TEST(Formula, A_06_NumbersBecomeAttributes) {
  EXPECT_EQ((emitted<[](auto x, auto y) { return (1 - x) * 2 / (3 / y - constant(x, 0.5)); }>()),
            "_rminus_scalar(0) _mul_scalar(3) _rdiv_scalar(1) _minus_scalar(5) elemwise_div(4,6) = 7");
  EXPECT_EQ((emitted<[](auto x, auto) { return x + constant(x, 2) * 3; }>()), "_plus_scalar(0) = 3")
      << "computed at once";
}

TEST(Formula, A_06_OperandsMayBroadcast) {
  EXPECT_EQ((emitted<[](auto x, auto y) { return pow(x, y) - greater(y, 0); }>(Formula::Shapes::Broadcast)),
            "broadcast_power(0,1) _greater_scalar(1) broadcast_sub(3,4) = 5");
}

TEST(Formula, A_06_AnOperandAloneNeedsNoNode) {
  EXPECT_EQ((emitted<[](auto, auto y) { return y; }>()), " = 1");
}

}  // namespace
}  // namespace gradc::testing
