// The policies of gradients on the tape: each changes what a backward computes, and none is mixed up with another in
// the cache.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

TEST(ImperativePolicies, P_01_E_13_HeadsThatAreVariables) {
  Tape t;
  Tensor x = t.leaf(3), y = t.mul(x, x);
  for (bool createGraph : {false, true})
    for (const Tensor &head : {Tensor(), t.value(1)}) {
      EXPECT_EQ(
          t.rowOf(t.im.backward({y}, {.heads = head, .createGraph = createGraph, .headPolicy = HeadPolicy::Input})),
          "E-13");
      EXPECT_EQ(
          t.rowOf(t.im.grad({y}, {x}, {.heads = head, .createGraph = createGraph, .headPolicy = HeadPolicy::Input})),
          "E-13");
    }
  EXPECT_FALSE(x.grad());
  EXPECT_EQ(scalar(t.grad({y}, {x}, {.heads = t.value(1), .headPolicy = HeadPolicy::Required})[0]), 6);
}

// The gradient of weights depends on the bias by the forward node alone, which its own is a control dependency of.
TEST(ImperativePolicies, P_05_ReachedByControlDependenciesOnly) {
  Tape t;
  Tensor x = t.leaf({1, 2}, {1, 2}), w = t.leaf({1, 2}, {3, 4}), b = t.leaf({1}, {5}), head = t.leaf({1, 1}, {2});
  const Tensor y = t("FullyConnected", {x, w, b}, {{"num_hidden", "1"}});
  const Tensor dw = t.grad({y}, {w}, {.heads = head, .createGraph = true})[0];
  GradOptions options{.retain = true, .unused = UnusedPolicy::None};
  EXPECT_FALSE(t.grad({dw}, {b}, options)[0]);
  options.policies.controlOnly = ControlOnlyPolicy::Zeros;
  const Tensor zeros = t.grad({dw}, {b}, options)[0];
  ASSERT_TRUE(static_cast<bool>(zeros));
  EXPECT_EQ(doublesOf(zeros), (Doubles{0}));
  options.policies = {};
  EXPECT_FALSE(t.grad({dw}, {b}, options)[0]);
}

TEST(ImperativePolicies, P_06_E_02_OperatorsWithoutGradientBesideThePath) {
  Tape t;
  Tensor x = t.leaf(3), w = t.leaf(1);
  const Tensor y = t.add(t.mul(x, x), t("_scheduled_sgd_update", {w, t.value(1), t.value(0.5)}));
  GradOptions options{.retain = true};
  EXPECT_EQ(scalar(t.grad({y}, {x}, options)[0]), 6);
  options.policies.reach = ReachPolicy::WholeGraph;
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {x}, options)), "E-02");
  BackwardOptions backward{.retain = true, .inputs = Tensors(x)};
  EXPECT_EQ(t.rowOf(t.im.backward({y}, backward)), "success");
  backward.policies.reach = ReachPolicy::WholeGraph;
  EXPECT_EQ(t.rowOf(t.im.backward({y}, backward)), "E-02");
}

TEST(ImperativePolicies, P_08_HowContributionsAreAdded) {
  Tape t;
  Tensor x = t.leaf(3);
  std::vector<Tensor> ys;
  for (int i = 0; i < 10; ++i) ys.push_back(t.mul(x, x));
  auto numSums = [&](const TapePolicies &policies) {
    const Tensor gradient = t.grad(ys, {x}, {.createGraph = true, .policies = policies})[0];
    EXPECT_EQ(scalar(gradient), 60);
    const Graph graph = cantFail(t.im.graphOf({gradient}));
    size_t number = 0;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) number += graph.op(NodeId(n)) && graph.op(NodeId(n))->flags.isSum;
    return number;
  };
  EXPECT_EQ(numSums({}), 19u);  // of 20 terms
  EXPECT_EQ(numSums({.sumCap = 21}), 1u);
  EXPECT_EQ(numSums({.sumCap = 20}), 19u);
  EXPECT_EQ(numSums({.sumCap = 20, .chain = ChainPolicy::UpToCap}), 19u);
  EXPECT_EQ(numSums({.sumCap = 19, .chain = ChainPolicy::UpToCap}), 1u);
  EXPECT_EQ(numSums({}), 19u);
}

TEST(ImperativePolicies, P_09_E_06_IntegersOnThePath) {
  for (bool isPermissive : {false, true}) {
    ImperativeOptions options = Tape::referenceOptions();
    if (isPermissive) options.integers = IntegerPolicy::Permissive;
    Tape t(options);
    Tensor x = t.leaf({2}, {1.5, 2}), i = t.im.tensor({2}, std::vector<int64_t>{1, 2});
    const Tensor whole = t("Cast", {x}, {{"dtype", "int64"}});
    const Tensor y = t.mul(t("Cast", {whole}, {{"dtype", "float64"}}), t.value({2}, {3, 4}));
    EXPECT_EQ(y.isTracked(), isPermissive);
    EXPECT_EQ(t.rowOf(t.im.requireGrad(i)), isPermissive ? "success" : "E-06");
    EXPECT_EQ(t.rowOf(t.im.mark(i, Request::Write)), isPermissive ? "success" : "E-06");
    if (!isPermissive) continue;
    EXPECT_EQ(doublesOf(t.grad({y}, {x})[0]), (Doubles{3, 4}));
    const Tensor z = t.mul(t("Cast", {i}, {{"dtype", "float64"}}), t.value({2}, {5, 6}));
    const Tensor di = t.grad({z}, {i})[0];
    EXPECT_EQ(di.dtype(), DType::Int64);
    EXPECT_EQ(valuesOf<int64_t>(di.ref()), (std::vector<int64_t>{5, 6}));
  }
}

}  // namespace
}  // namespace gradc
