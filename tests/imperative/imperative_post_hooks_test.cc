// Hooks of leaves whose gradient has arrived.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::scalar;
using testing::Tape;
using Strings = std::vector<std::string>;

TEST(ImperativePostHooks, TA_57_HOOK_07_SeesTheLeafWithItsGradient) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(2);
    Strings log;
    cantFail(t.im.addHook(x, [&](const Tensor &gradient) -> Expected<Tensor> {
      log.push_back("tensor " + std::to_string(scalar(gradient)));
      return t.times(gradient, "2");
    }));
    cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &leaf) -> Expected<Tensor> {
      EXPECT_TRUE(leaf == x);
      log.push_back("post " + std::to_string(scalar(leaf.grad())));
      return Tensor();
    }));
    t.backward({t.mul(x, x)}, {.createGraph = createGraph});
    EXPECT_EQ(log, (Strings{"tensor 4.000000", "post 8.000000"}));
    EXPECT_EQ(t.gradOf(x), (Doubles{8}));
    t.backward({t.mul(x, x)}, {.createGraph = createGraph});
    EXPECT_EQ(log.back(), "post 16.000000");
    t.grad({t.mul(x, x)}, {x});
    EXPECT_EQ(log.size(), 5u);  // the tensor's alone: no gradient is brought to the leaf
  }
}

TEST(ImperativePostHooks, TA_58_E_23_E_24_WhereTheyAreAndWhatTheyReturn) {
  Tape t;
  Tensor x = t.leaf(2);
  auto quiet = [](const Tensor &) -> Expected<Tensor> { return Tensor(); };
  EXPECT_EQ(t.rowOf(t.im.addPostAccumulateHook(t.mul(x, x), quiet)), "E-23");
  EXPECT_EQ(t.rowOf(t.im.addPostAccumulateHook(t.value(1), quiet)), "E-06");
  EXPECT_EQ(t.rowOf(t.im.addPostAccumulateHook(x, nullptr)), "E-21");
  HookHandle bad = cantFail(t.im.addPostAccumulateHook(x, [](const Tensor &leaf) -> Expected<Tensor> { return leaf; }));
  EXPECT_EQ(t.rowOf(t.im.backward({t.mul(x, x)}, {})), "E-24");
  EXPECT_TRUE(bad.remove());
  t.backward({t.mul(x, x)});
}

// c = ab, d = exp(c): gradients arrive in the order d, c, a, b.
TEST(ImperativePostHooks, TA_59_AsSoonAsTheLeafIsDone) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor a = t.leaf(0.5), b = t.leaf(0.25);
    Tensor c = t.mul(a, b), d = t("exp", {c});
    std::string log;
    auto noting = [&](char name) {
      return [&log, name](const Tensor &) -> Expected<Tensor> { return log += name, Tensor(); };
    };
    cantFail(t.im.addPostAccumulateHook(a, noting('a')));
    cantFail(t.im.addPostAccumulateHook(b, noting('b')));
    cantFail(t.im.addHook(c, noting('c')));
    cantFail(t.im.addHook(d, noting('d')));
    t.backward({d}, {.createGraph = createGraph});
    EXPECT_EQ(log, "dcab");
    // The gradient of a is there before that of c is computed.
    log.clear();
    const Tensor u = t.times(a, "3");
    c = t.times(b, "2"), d = t.mul(u, t("exp", {c}));
    cantFail(t.im.addHook(c, noting('c')));
    t.backward({d}, {.createGraph = createGraph});
    EXPECT_EQ(log, "acb");
  }
}

TEST(ImperativePostHooks, TA_60_AStepInsideOfTheBackward) {
  Tape t;
  Tensor x = t.leaf(2);
  cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &leaf) -> Expected<Tensor> {
    Tensor step = t.times(leaf.grad(), "-0.1");
    cantFail(t.into("elemwise_add", {leaf, step}, {leaf}));
    cantFail(t.im.setGrad(leaf, {}));
    return Tensor();
  }));
  t.backward({t.mul(x, x)});
  EXPECT_DOUBLE_EQ(scalar(x), 1.6);
  EXPECT_FALSE(x.grad());
}

/// The peak of a backward through a sum over 16 leaves of 1 MiB: `prepare` sees each leaf before `term` makes its term,
/// `finish` all of them after the backward.
template <class Prepare, class Term, class Finish> size_t peakOf(Prepare prepare, Term term, Finish finish) {
  constexpr int64_t kSize = 1 << 17;
  ImperativeOptions options = Tape::referenceOptions();
  options.cachedBytes = 0;
  Tape t(options);
  std::vector<Tensor> leaves;
  Tensor y = t.leaf({kSize}, Doubles(kSize, 1));
  for (int i = 0; i < 16; ++i) {
    leaves.push_back(t.leaf({kSize}, Doubles(kSize, 1)));
    prepare(t, leaves.back());
    y = t.add(y, term(t, leaves.back()));
  }
  t.backward({y});
  finish(t, leaves);
  return t.im.memoryStats().pool.peakBytes;
}

TEST(ImperativePostHooks, TA_60_GradientsGoBackBeforeTheLastOneArrives) {
  auto peak = [](bool isInside) {
    auto step = [](Tape &t, const Tensor &leaf) {
      cantFail(t.into("_plus_scalar", {leaf}, {leaf}, {{"scalar", "1"}}));
      cantFail(t.im.setGrad(leaf, {}));
    };
    auto prepare = [=](Tape &t, const Tensor &x) {
      if (isInside)
        cantFail(t.im.addPostAccumulateHook(
            x, [=, &t](const Tensor &leaf) -> Expected<Tensor> { return step(t, leaf), Tensor(); }));
    };
    auto finish = [=](Tape &t, const std::vector<Tensor> &leaves) {
      NoGradScope quiet(t.im);
      if (!isInside)
        for (const Tensor &leaf : leaves) step(t, leaf);
    };
    return peakOf(prepare, [](Tape &t, const Tensor &leaf) { return t.times(leaf, "2"); }, finish);
  };
  EXPECT_LT(peak(true) + (size_t{8} << 20), peak(false));
}

TEST(ImperativePostHooks, TA_60_KeptValuesGoBackBeforeTheLastGradientArrives) {
  auto peak = [](bool mayFail) {
    auto prepare = [=](Tape &t, const Tensor &leaf) {
      auto nothing = [](const Tensor &) -> Expected<Tensor> { return Tensor(); };
      if (mayFail) cantFail(t.im.addHook(leaf, nothing));
      cantFail(t.im.addPostAccumulateHook(leaf, nothing));
    };
    return peakOf(prepare, [](Tape &t, const Tensor &leaf) { return t("exp", {leaf}); }, [](auto &&...) {});
  };
  EXPECT_LT(peak(false) + (size_t{8} << 20), peak(true));
}

// The gradient of the other leaf reads this one: it has what was there before.
TEST(ImperativePostHooks, TA_60_AWriteSpoilsNoOtherGradient) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor a = t.leaf(2), b = t.leaf(3);
    for (const Tensor &x : {a, b})
      cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &leaf) -> Expected<Tensor> {
        NoGradScope quiet(t.im);
        cantFail(t.into("_plus_scalar", {leaf}, {leaf}, {{"scalar", "10"}}));
        return Tensor();
      }));
    const std::string row = t.rowOf(t.im.backward({t.mul(a, b)}, {.createGraph = createGraph}));
    EXPECT_EQ(row, "success");
    EXPECT_EQ(t.gradOf(a), (Doubles{3}));
    EXPECT_EQ(t.gradOf(b), (Doubles{2}));
    EXPECT_EQ(scalar(a), 12);
  }
}

TEST(ImperativePostHooks, NotOfALeafThatTheHostHasLetGoOf) {
  Tape t;
  int numCalls = 0;
  Tensor y;
  {
    Tensor x = t.leaf(2);
    cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &) -> Expected<Tensor> { return ++numCalls, Tensor(); }));
    y = t.mul(x, x);
    t.backward({y}, {.retain = true});
  }
  EXPECT_EQ(numCalls, 1);
  t.backward({y});
  EXPECT_EQ(numCalls, 1);
}

// Nothing flows to x, which gets zeros: its hook runs at the end.
TEST(ImperativePostHooks, AGradientThatIsZeroWhateverTheTapeHolds) {
  Tape t;
  Tensor x = t.leaf(2);
  int numCalls = 0;
  cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &leaf) -> Expected<Tensor> {
    EXPECT_EQ(scalar(leaf.grad()), 0);
    return ++numCalls, Tensor();
  }));
  t.backward({t("BlockGrad", {x}), t.times(x, "0")});
  EXPECT_EQ(numCalls, 1);
}

}  // namespace
}  // namespace gradc
