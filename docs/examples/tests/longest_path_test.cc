#include "passes/longest_path.h"

#include "tests/support/test_graph.h"

#include "gtest/gtest.h"

namespace gradc::testing {
namespace {

TEST(LongestPath, CountsOperatorsAlongDataEdges) {
  TestGraph g("a = exp(x); b = exp(a); y = elemwise_add(b, x); heads y");
  LongestPath path = longestPath(g);
  EXPECT_EQ(path.numOperators, 3u);
  EXPECT_EQ(path.last, nodeNamed(g, "y"));
}

TEST(LongestPath, ControlDependenciesCount) {
  TestGraph g("a = exp(x); b = exp(z) ^a; heads a, b");
  EXPECT_EQ(longestPath(g).numOperators, 2u);
}

}  // namespace
}  // namespace gradc::testing
