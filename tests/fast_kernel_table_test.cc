// The table of operators with a fast kernel: its order, its operators, and whether gradients stay on fast kernels.
#include "runtime/kernels/table.h"

#include "tests/support/fast_runs.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(FastKernelTable, A_10_TableIsSortedAndKnowsOnlyBuiltinOperators) {
  TestContext context;
  for (size_t i = 0; i < fastKernelTable().size(); ++i) {
    const FastKernelRow &row = fastKernelTable()[i];
    if (i != 0) {
      EXPECT_LT(fastKernelTable()[i - 1].name, row.name);
    }
    const OpDef *op = context.ops.find(row.name);
    ASSERT_TRUE(op) << row.name.str();
    EXPECT_EQ(findFastKernel(*op), &row);
    const OpDef impostor = *op;
    const FastKernelRow *found = findFastKernel(impostor);
    EXPECT_EQ(found != nullptr, op->flags.isElementwise) << "by what it says of itself alone";
    EXPECT_NE(found, &row);
  }
}

/// Operators in gradients of operators with a fast kernel that have none: numbers, and a column per channel repeated.
constexpr StringRef kGradientsOnReference[] = {"_broadcast_axis_like", "_in_training", "_product_gradient",
                                               "_repeat_axes_like", "_zeros_without_dtype"};

TEST(FastKernelTable, A_10_GradientsOfFastOperatorsAreFast) {
  std::set<std::string> slow;
  for (const Sample &row : tableSamples()) {
    TestContext context;
    SampleGraph sample(context, row);
    const Orders orders(context, sample, std::min(2u, row.orders + 1));
    const Graph &gradient = orders.graphs.back();
    for (uint32_t n = 0; n < gradient.numNodes(); ++n) {
      const OpDef *op = gradient.op(NodeId(n));
      if (!op || findFastKernel(*op) || referenceRole(*op) == LayoutRole::Elements) continue;
      if (!llvm::is_contained(kGradientsOnReference, op->name)) slow.insert(op->name.str());
    }
  }
  EXPECT_EQ(llvm::join(slow, ", "), "");
}

}  // namespace
}  // namespace gradc
