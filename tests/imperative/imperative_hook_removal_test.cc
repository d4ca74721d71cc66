// How long a hook lives: until it is removed, also by a hook that is running, or until its tensor is gone.
#include "imperative/imperative.h"

#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(ImperativeHookRemoval, TA_53_HOOK_04_RemovingALaterHook) {
  Tape t;
  Tensor x = t.leaf(2);
  std::vector<int> log;
  HookHandle later;
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    log.push_back(1);
    later.remove();
    return Tensor();
  }));
  later = cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return log.push_back(2), Tensor(); }));
  t.backward({t.mul(x, x)});
  t.backward({t.mul(x, x)});
  EXPECT_EQ(log, (std::vector<int>{1, 1}));
  EXPECT_FALSE(later.remove());
}

TEST(ImperativeHookRemoval, ClosuresEndWithTheirTensorOrTheirRemoval) {
  auto token = std::make_shared<int>(1);
  Tape t;
  auto hold = [token](const Tensor &) -> Expected<Tensor> { return Tensor(); };
  {
    Tensor x = t.leaf(3);
    cantFail(t.im.addHook(x, hold));
    EXPECT_EQ(token.use_count(), 3);
  }
  EXPECT_EQ(token.use_count(), 2);
  Tensor x = t.leaf(3);
  for (int i = 0; i < 100; ++i) cantFail(t.im.addHook(x, hold)).remove();
  EXPECT_LE(token.use_count(), 3);
}

TEST(ImperativeHookRemoval, HOOK_04_ARemovedHookIsDestroyed) {
  Tape t;
  Tensor x = t.leaf(3);
  const auto held = std::make_shared<int>(0);
  for (bool isAfter : {false, true}) {
    auto add = [&](TensorHook hook) {
      return cantFail(isAfter ? t.im.addPostAccumulateHook(x, std::move(hook)) : t.im.addHook(x, std::move(hook)));
    };
    HookHandle handle = add([held](const Tensor &) -> Expected<Tensor> { return Tensor(); });
    EXPECT_EQ(held.use_count(), 2);
    EXPECT_TRUE(handle.remove());
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_FALSE(handle.remove());
    // Inside itself: at the end of its call, before the next hook runs.
    std::vector<long> counts;
    HookHandle own;
    own = add([&, held](const Tensor &) -> Expected<Tensor> {
      EXPECT_TRUE(own.remove());
      counts.push_back(held.use_count());
      return Tensor();
    });
    HookHandle last = add([&](const Tensor &) -> Expected<Tensor> {
      counts.push_back(held.use_count());
      return Tensor();
    });
    t.backward({t.mul(x, x)});
    EXPECT_EQ(counts, (std::vector<long>{2, 1}));
    last.remove();
  }
}

// What a hook holds may be the last reference to a tensor with hooks.
TEST(ImperativeHookRemoval, HOOK_04_AHookThatHoldsTheLastTensor) {
  Tape t;
  Tensor x = t.leaf(3), other = t.leaf(4);
  cantFail(t.im.addHook(other, [](const Tensor &) -> Expected<Tensor> { return Tensor(); }));
  HookHandle handle = cantFail(t.im.addHook(x, [other](const Tensor &) -> Expected<Tensor> { return Tensor(); }));
  other = Tensor();
  EXPECT_TRUE(handle.remove());
  t.backward({t.mul(x, x)});
  EXPECT_EQ(scalar(x.grad()), 6);
}

}  // namespace
}  // namespace gradc
