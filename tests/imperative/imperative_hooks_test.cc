// Hooks of tensors and final callbacks, on compiled and on recorded backwards.
#include "imperative/imperative.h"

#include "tests/support/runs/imperative.h"

#include <thread>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

using Strings = std::vector<std::string>;

/// Doubles what it sees.
TensorHook doubling(Tape &t) {
  return [&t](const Tensor &gradient) -> Expected<Tensor> { return t.times(gradient, "2"); };
}
TensorHook scaling(Tape &t, StringRef factor) {
  return [&t, factor](const Tensor &gradient) -> Expected<Tensor> { return t.times(gradient, factor); };
}
TensorHook noting(Doubles &seen) {
  return [&seen](const Tensor &gradient) -> Expected<Tensor> {
    seen.push_back(scalar(gradient));
    return Tensor();
  };
}

/// z = x² + 2x + xy + y
Tensor polynomial(Tape &t, const Tensor &x, const Tensor &y) {
  return t.add(t.add(t.add(t.mul(x, x), t.times(x, "2")), t.mul(x, y)), y);
}

TEST(ImperativeHooks, TA_48_HOOK_02_OnTheWholeGradientOnceInOrder) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(1), y = t.leaf(4);
    Tensor z = polynomial(t, x, y);
    Doubles ofX, ofZ;
    cantFail(t.im.addHook(x, noting(ofX)));
    cantFail(t.im.addHook(z, noting(ofZ)));
    t.backward({z}, {.retain = true, .createGraph = createGraph});
    EXPECT_EQ(ofX, (Doubles{8}));
    EXPECT_EQ(ofZ, (Doubles{1}));
    cantFail(t.im.setGrad(x, {}));
    cantFail(t.im.setGrad(y, {}));
    cantFail(t.im.addHook(z, doubling(t)));
    cantFail(t.im.addHook(z, noting(ofZ)));
    t.backward({z}, {.retain = true, .createGraph = createGraph});
    EXPECT_EQ(scalar(y.grad()), 4);
    EXPECT_EQ(scalar(x.grad()), 16);
    EXPECT_EQ(ofZ, (Doubles{1, 1, 2}));
    cantFail(t.im.setGrad(y, {}));
    cantFail(t.im.addHook(y, doubling(t)));
    t.backward({z}, {.createGraph = createGraph});
    EXPECT_EQ(scalar(y.grad()), 8);
  }
}

TEST(ImperativeHooks, TA_08_HOOK_05_NotWhereNoGradientIsComputed) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  Tensor a = t.times(x, "3"), y = t.sum(a);
  int numCalls = 0;
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return ++numCalls, Tensor(); }));
  EXPECT_EQ(doublesOf(t.grad({y}, {a}, {.retain = true})[0]), (Doubles{1, 1}));
  EXPECT_EQ(numCalls, 0);
  t.grad({y}, {x});
  EXPECT_EQ(numCalls, 1);
}

TEST(ImperativeHooks, TA_09_HOOK_03_OnWhatIsReturnedOnce) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(3);
    Tensor a = t.times(x, "2"), y = t.mul(a, a);
    cantFail(t.im.addHook(a, doubling(t)));
    GradOptions options;
    options.retain = true;
    options.createGraph = createGraph;
    EXPECT_EQ(scalar(t.grad({y}, {a}, options)[0]), 24);
    const std::vector<Tensor> both = t.grad({y}, {x, a}, options);
    EXPECT_EQ(scalar(both[0]), 48);
    EXPECT_EQ(scalar(both[1]), 24);
  }
}

TEST(ImperativeHooks, TA_49_NeverSeesAMissingGradient) {
  Tape t;
  Tensor x = t.leaf({3}, {1, 2, 3});
  auto parts = t.all("SliceChannel", {x}, {{"num_outputs", "3"}, {"axis", "0"}});
  int numCalls = 0;
  cantFail(t.im.addHook(parts[1], [&](const Tensor &) -> Expected<Tensor> { return ++numCalls, Tensor(); }));
  t.backward({t.times(parts[0], "2")});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 0, 0}));
  EXPECT_EQ(numCalls, 0);
}

TEST(ImperativeHooks, TA_51_E_38_E_39_WhatAHookReturnsFits) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  cantFail(t.im.setName(x, "weights"));
  Tensor y = t.sum(t.mul(x, x));
  Tensor wrong = t.value({3}, {1, 2, 3});
  HookHandle shape = cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return wrong; }));
  GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::HeadShape);
  EXPECT_EQ(error.message, "a hook of tensor 'weights' returned a gradient of shape (3,), expected (2,)");
  EXPECT_TRUE(shape.remove());
  Tensor single = t.im.tensor({2}, std::vector<float>{1, 2});
  HookHandle type = cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return single; }));
  error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::HeadDType);
  EXPECT_TRUE(type.remove());
  EXPECT_FALSE(x.grad());
  Tape other;
  Tensor foreign = other.value({2}, {1, 2});
  HookHandle elsewhere = cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return foreign; }));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-44");
  elsewhere.remove();
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 4}));
}

TEST(ImperativeHooks, TA_52_E_06_E_21_WhatCanBeHooked) {
  Tape t;
  EXPECT_EQ(t.rowOf(t.im.addHook(t.value(1), doubling(t))), "E-06");
  EXPECT_EQ(t.rowOf(t.im.addHook(t.leaf(1), nullptr)), "E-21");
  EXPECT_EQ(t.rowOf(t.im.queueCallback(nullptr)), "E-21");
}

TEST(ImperativeHooks, TA_56_RetainedGradientsSeeTheHookedValue) {
  Tape t;
  Tensor x = t.leaf(2);
  Tensor a = t.times(x, "3");
  cantFail(t.im.retainGrad(a));
  cantFail(t.im.addHook(a, scaling(t, "10")));
  t.backward({t.mul(a, a)});
  EXPECT_EQ(scalar(a.grad()), 120);
  EXPECT_EQ(scalar(x.grad()), 360);
}

TEST(ImperativeHooks, TA_61_E_22_HOOK_06_FinalCallbacksRunOnceAfterSuccess) {
  Tape t;
  EXPECT_EQ(t.rowOf(t.im.queueCallback([] { return Error::success(); })), "E-22");
  Tensor x = t.leaf(2);
  Strings log;
  auto note = [&](StringRef text) {
    return [&, text]() -> Error {
      log.push_back((text + (x.grad() ? " with gradient" : "")).str());
      return Error::success();
    };
  };
  HookHandle hook = cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    log.push_back("hook");
    EXPECT_EQ(t.rowOf(Tape().im.queueCallback([] { return Error::success(); })), "E-22") << "of another Imperative";
    cantFail(t.im.queueCallback([&]() -> Error {
      cantFail(note("a")());
      return t.im.queueCallback(note("b"));
    }));
    return Tensor();
  }));
  t.backward({t.mul(x, x)});
  EXPECT_EQ(log, (Strings{"hook", "a with gradient", "b with gradient"}));
  hook.remove();
  t.backward({t.mul(x, x)});
  EXPECT_EQ(log.size(), 3u) << "forgotten";
  // Not after a failure.
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    cantFail(t.im.queueCallback(note("never")));
    return Failure(ErrorKind::Usage, "no");
  }));
  EXPECT_EQ(errorOf(t.im.backward({t.mul(x, x)}, {})).message, "no");
  EXPECT_EQ(log.size(), 3u);
}

TEST(ImperativeHooks, TA_62_CallbacksBelongToTheirOwnRun) {
  Tape t;
  Tensor x = t.leaf(2), inner = t.leaf(3);
  Strings log;
  auto queue = [&](StringRef text) {
    cantFail(t.im.queueCallback([&, text]() -> Error { return log.push_back(text.str()), Error::success(); }));
  };
  cantFail(t.im.addHook(inner, [&](const Tensor &) -> Expected<Tensor> { return queue("inner"), Tensor(); }));
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    queue("outer");
    EnableGradScope recording(t.im);
    t.backward({t.mul(inner, inner)});
    log.push_back("hook ends");
    queue("late");
    return Tensor();
  }));
  t.backward({t.mul(x, x)});
  EXPECT_EQ(log, (Strings{"inner", "hook ends", "outer", "late"}));
}

TEST(ImperativeHooks, TA_63_ABackwardInsideAHook) {
  Tape t;
  Tensor x = t.leaf(2), other = t.leaf(5);
  bool isRecording = false;
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    std::optional<EnableGradScope> recording;
    if (isRecording) recording.emplace(t.im);
    if (Error error = t.im.backward({t.mul(other, other)}, {})) return error;
    return Tensor();
  }));
  Tensor y = t.mul(x, x);
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-04");
  isRecording = true;
  Error error = t.im.backward({y}, {});
  EXPECT_FALSE(static_cast<bool>(error)) << toString(std::move(error));
  EXPECT_EQ(scalar(other.grad()), 10);
  EXPECT_EQ(scalar(x.grad()), 4);
}

// The inner run lets go of the history, and the hook of the tensors, that the outer one is at.
TEST(ImperativeHooks, TheOuterRunKeepsWhatItReads) {
  Tape t;
  Tensor x = t.leaf(0.5);
  Tensor a = t("exp", {x}), b = t("exp", {a}), y = t("exp", {b});
  HookHandle hook = cantFail(t.im.addHook(b, [&](const Tensor &) -> Expected<Tensor> {
    hook.remove();
    t.backward({y});
    a = b = Tensor();
    for (int i = 0; i < 20; ++i) t.value(i);  // takes what was given back
    return Tensor();
  }));
  t.backward({y});
  const double ea = std::exp(0.5), eb = std::exp(ea), ey = std::exp(eb);
  EXPECT_NEAR(scalar(x.grad()), 2 * ey * eb * ea, 1e-9);
}

TEST(ImperativeHooks, TA_64_RET_05_AnErrorLeavesEverythingAsItWas) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor y = t.mul(x, x);
  bool fails = true;
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    if (!fails) return Tensor();
    return createStringError("the caller's own");
  }));
  EXPECT_EQ(toString(t.im.backward({y}, {})), "the caller's own");
  EXPECT_FALSE(x.grad());
  fails = false;
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), 6);
  EXPECT_EQ(t.im.cacheStats().misses, 1u) << "the plan was given back";
}

TEST(ImperativeHooks, E_31_AHookThatOverwritesWhatTheRunReads) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor a = t.mul(x, x), y = t("exp", {a});
  cantFail(t.im.addHook(a, [&](const Tensor &) -> Expected<Tensor> {
    cantFail(t.into("_copy", {t.value(7)}, {x}));
    return Tensor();
  }));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
  EXPECT_FALSE(x.grad());
}

TEST(ImperativeHooks, PD_15_InteriorAndLeafHooksAddUpAndAreRemovedOnce) {
  Tape t;
  Tensor x = t.leaf(2);
  HookHandle first = cantFail(t.im.addHook(x, doubling(t))), second = cantFail(t.im.addHook(x, scaling(t, "3")));
  auto run = [&] {
    Tensor a = t.times(x, "5");
    cantFail(t.im.addHook(a, doubling(t)));
    t.backward({t.mul(a, a)});
    return scalar(x.grad());
  };
  EXPECT_EQ(run(), 2 * 10 * 2 * 5 * 6);  // 2a · 2 · 5 · 2 · 3
  EXPECT_TRUE(first.remove());
  EXPECT_FALSE(first.remove());
  EXPECT_EQ(run(), 1200 + 600);
  EXPECT_TRUE(second.remove());
  EXPECT_EQ(run(), 1800 + 200);
  EXPECT_EQ(t.rowOf(t.im.addHook(t.im.detach(x), doubling(t))), "E-06");
  EXPECT_FALSE(HookHandle().remove());
}

// dx = t(2x·1): the hook's own doubling is differentiated too.
TEST(ImperativeHooks, PD_15_HooksInDoubleGrad) {
  Tape t;
  Tensor x = t.leaf(3);
  HookHandle hook = cantFail(t.im.addHook(x, doubling(t)));
  Tensor dx = t.grad({t.mul(t.mul(x, x), x)}, {x}, {.createGraph = true})[0];
  EXPECT_EQ(scalar(dx), 54);
  hook.remove();
  EXPECT_EQ(scalar(t.grad({dx}, {x})[0]), 36);
}

TEST(ImperativeHooks, RET_02_RetainedRunsCallHooksEachTimeFromOnePlan) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor y = t.mul(x, x);
  Doubles seen;
  cantFail(t.im.addHook(x, noting(seen)));
  for (int i = 0; i < 3; ++i) t.backward({y}, {.retain = true});
  EXPECT_EQ(seen, (Doubles{6, 6, 6}));
  EXPECT_EQ(scalar(x.grad()), 18);
  EXPECT_EQ(t.im.cacheStats().misses, 1u);
}

// PyTorch calls them too.
TEST(ImperativeHooks, HOOK_02_TA_29_GradientsWithoutElements) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf({0}, {}), w = t.leaf({0}, {}), y = t.times(t.mul(x, w), "2");
    std::vector<std::string> log;
    auto note = [&](const char *what) {
      return [&log, what](const Tensor &gradient) -> Expected<Tensor> {
        EXPECT_LE(gradient.size(), 1);
        log.push_back(what);
        return Tensor();
      };
    };
    cantFail(t.im.addHook(x, note("x")));
    cantFail(t.im.addHook(y, note("y")));
    cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &leaf) -> Expected<Tensor> {
      EXPECT_TRUE(leaf.grad());
      return log.push_back("after x"), Tensor();
    }));
    t.backward({y}, {.createGraph = createGraph});
    EXPECT_EQ(log, (std::vector<std::string>{"y", "x", "after x"}));
    EXPECT_EQ(x.grad().size(), 0);
    EXPECT_EQ(w.grad().size(), 0);
    // Among others that have elements.
    Tensor none = t.sum(t.mul(x, w)), u = t.leaf(3), v = t("square", {u}), sum = t.add(v, none);
    cantFail(t.im.addHook(v, note("v")));
    cantFail(t.im.addHook(u, note("u")));
    cantFail(t.im.addHook(w, note("w")));
    log.clear();
    t.backward({sum}, {.createGraph = createGraph});
    llvm::sort(log);
    EXPECT_EQ(log, (std::vector<std::string>{"after x", "u", "v", "w", "x"}));
    EXPECT_EQ(scalar(u.grad()), 6);
    cantFail(t.im.setGrad(u, Tensor()));
    Tensor z = t.leaf({0}, {});
    cantFail(t.im.addHook(z, [&](const Tensor &) -> Expected<Tensor> { return t.value(1); }));
    EXPECT_EQ(t.rowOf(t.im.backward({t.times(z, "2")}, {.createGraph = createGraph})), "E-38");
    for (const Tensor &leaf : {x, w}) cantFail(t.im.setGrad(leaf, Tensor()));
  }
}

// Its backward is under way, with one of another Imperative inside.
TEST(ImperativeHooks, TA_62_E_22_ACallbackOfTheImperativeOutside) {
  Tape a, b;
  Tensor x = a.leaf(3), y = b.leaf(2);
  std::vector<std::string> log;
  cantFail(b.im.addHook(y, [&](const Tensor &) -> Expected<Tensor> {
    for (Imperative *im : {&a.im, &b.im})
      if (Error error = im->queueCallback([&log, isOuter = im == &a.im]() -> Error {
            return log.push_back(isOuter ? "a" : "b"), Error::success();
          }))
        return error;
    return Tensor();
  }));
  cantFail(a.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    if (Error error = b.im.backward({b.mul(y, y)}, {})) return error;
    return log.push_back("hook"), Tensor();
  }));
  a.backward({a.mul(x, x)});
  EXPECT_EQ(log, (std::vector<std::string>{"b", "hook", "a"}));
  EXPECT_EQ(a.rowOf(a.im.queueCallback([]() -> Error { return Error::success(); })), "E-22");
  EXPECT_EQ(b.rowOf(b.im.backward({b.mul(y, y)}, {})), "E-22") << "none of a is under way";
}

}  // namespace
}  // namespace gradc
