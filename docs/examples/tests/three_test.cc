// The target of docs/extending.md. It is part of this file because its declaration belongs in target.h.
#include "passes/targets/target.h"

namespace gradc {
extern const Target kThreeTarget;
}  // namespace gradc

#include "docs/examples/passes/targets/three.cc"

#include "passes/lowering/lower_to.h"
#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

namespace gradc::testing {
namespace {

std::string operatorsOf(const Graph &graph) {
  std::string names;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (!graph.isVariable(NodeId(n))) names += (graph.opName(NodeId(n)) + " ").str();
  return names;
}

TEST(ThreeTarget, AGraphOfItsOperatorsStays) {
  TestGraph g("a = exp(x); y = broadcast_mul(a, x)");
  Expected<Graph> lowered = lowerTo(g.context, g, kThreeTarget, nullptr);
  ASSERT_TRUE(bool(lowered));
  EXPECT_EQ(operatorsOf(*lowered), "exp broadcast_mul ");
}

TEST(ThreeTarget, OthersAreExpressedInThem) {
  TestGraph g("y = elemwise_mul(x, w)");
  Expected<Graph> lowered = lowerTo(g.context, g, kThreeTarget, nullptr);
  ASSERT_TRUE(bool(lowered));
  EXPECT_EQ(operatorsOf(*lowered), "broadcast_mul ");
}

TEST(ThreeTarget, WhatDecomposesToOthersIsRefused) {
  TestGraph g("y = tanh(x)");
  Expected<Graph> lowered = lowerTo(g.context, g, kThreeTarget, nullptr);
  ASSERT_FALSE(bool(lowered));
  EXPECT_NE(toString(lowered.takeError()).find("the host of three operators"), std::string::npos);
}

}  // namespace
}  // namespace gradc::testing
