// The table of operators with a fast kernel: its order, its operators, and whether gradients stay on fast kernels.
#include "runtime/kernels/table.h"

#include "passes/inference/infer.h"
#include "runtime/kernels/kernel_set.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(FastKernelTable, A_10_TableIsSortedAndKnowsOnlyBuiltinOperators) {
  TestContext context;
  for (size_t i = 0; i < fastKernelTable().size(); ++i) {
    const FastKernelRow &row = *fastKernelTable()[i];
    if (i != 0) {
      EXPECT_LT(fastKernelTable()[i - 1]->name, row.name);
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

/// Operators in gradients of operators with a fast kernel that have none. In first derivatives: numbers, and a column
/// per channel repeated.
constexpr StringRef kGradientsOnReference[] = {
    "_broadcast_axis_like", "_in_training", "_product_gradient", "_repeat_axes_like", "_zeros_without_dtype",
    // In second derivatives alone: of losses, attention, extrema that broadcast, pooling, prelu, RNN and topk.
    "_RegressionOutput_weight", "_SoftmaxOutput_softmax", "_SoftmaxOutput_target", "_SoftmaxOutput_weight",
    "_contrib_div_sqrt_dim", "broadcast_greater_equal", "broadcast_lesser_equal", "_pool_gather", "_prelu_gamma_spread",
    "_prelu_gamma_sum", "_scan", "_take_along_axis"};

/// The operators of the graph, and those of them that have a kernel of which `isFast` is true.
struct Operators {
  std::set<std::string> all, fast;

  void add(const Graph &graph, const Bindings &bindings, const NaiveOptions &naive) {
    InferOptions options;
    options.floatAs = DType::Float32;
    const Inference inference = cantFail(infer(testContext(), graph, hintsOf(graph, bindings), options));
    KernelSetOptions setOptions;
    setOptions.isTraining = naive.isTraining;
    const KernelSet kernels = KernelSet::create(graph, inference, countRequests(graph, {}), setOptions);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (graph.isVariable(NodeId(n))) continue;
      all.insert(graph.opName(NodeId(n)).str());
      const PreparedKernel *kernel = kernels.kernel(NodeId(n));
      if (kernel && kernel->isFast()) fast.insert(graph.opName(NodeId(n)).str());
    }
  }
};

// Of every operator some sample must run on a fast kernel: not all, because kernels leave rare attributes to the
// reference.
TEST(FastKernelTable, A_10_GradientsOfFastOperatorsAreFast) {
  std::set<std::string> inGradients, fast;
  for (const Sample &row : tableSamples()) {
    TestContext context;
    SampleGraph sample(context, row);
    const Orders orders(context, sample, std::min(3u, row.orders + 1));
    Operators ofSample;
    for (const Graph &graph : orders.graphs) ofSample.add(graph, orders.bindings, sample.options);
    fast.insert(ofSample.fast.begin(), ofSample.fast.end());
    if (ofSample.fast.contains(row.op)) inGradients.insert(ofSample.all.begin(), ofSample.all.end());
  }
  std::string slow;
  for (const std::string &name : inGradients)
    if (!fast.contains(name) && !llvm::is_contained(kGradientsOnReference, name)) slow += name + " ";
  EXPECT_EQ(slow, "");
}

}  // namespace
}  // namespace gradc
