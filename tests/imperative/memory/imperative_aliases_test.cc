// Memory, histories and states that two have at once: gradients and tensors of the host, a backward and another one
// inside of it, values that a tape keeps and results.
#include "imperative/imperative.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "tests/support/runs/host_functions.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

using testing::apply;
using testing::Doubles;
using testing::doublesOf;
using testing::identity;
using testing::product;
using testing::scalar;
using testing::Tape;

void copyFirst(const KernelCall &call) { std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes()); }

/// A loss whose gradient is its own value.
constinit const OpDef kOwnValue = {.name = "own_value",
                                   .inputs = {"data"},
                                   .shape = shapes::same,
                                   .gradient = [](GradRule &g) { g.dx(0, g.y(0)); },
                                   .kernel = copyFirst};

/// y = x, with a gradient that is multiplied by the number in the object of the call.
constinit const OpDef kTimesStateGradient = {
    .name = "_backward_times_state", .inputs = {"dy"}, .shape = shapes::same, .kernel = [](const KernelCall &call) {
      const double factor = *static_cast<const double *>(call.state);
      *call.out[0].as<double>() = *call.in[0].as<double>() * factor;
    }};
constinit const OpDef kTimesState = {.name = "times_state",
                                     .inputs = {"data"},
                                     .shape = shapes::same,
                                     .gradient = [](GradRule &g) { g.dx(0, g.emit(kTimesStateGradient, {g.dy(0)})); },
                                     .kernel = copyFirst};

struct HostTape : Tape {
  HostTape() {
    for (const OpDef *op : {&kOwnValue, &kTimesState, &kTimesStateGradient}) cantFail(context.ops.add(*op));
  }
};

// ---- results

// A gradient with request add is added to in place, so it must not be a tensor that a hook gave.
TEST(ImperativeAliases, H_12_HOOK_02_AGradientIsNotTheTensorThatAHookReturned) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(3), c = t.value(10);
    HookHandle hook = cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return c; }));
    t.backward({t.mul(x, x)}, {.createGraph = createGraph});
    EXPECT_FALSE(x.grad().sharesMemoryWith(c));
    hook.remove();
    t.backward({t.mul(x, x)});
    EXPECT_EQ(scalar(c), 10);
    EXPECT_EQ(scalar(x.grad()), 16);
    cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> { return x; }));
    cantFail(t.im.setGrad(x, Tensor()));
    t.backward({t.mul(x, x)}, {.createGraph = createGraph});
    EXPECT_FALSE(x.grad().sharesMemoryWith(x));
    cantFail(t.im.setGrad(x, Tensor()));  // its history refers to x
  }
}

TEST(ImperativeAliases, H_12_HOOK_02_AGradientIsNotTheTensorThatAHookSaw) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(3), z = t.leaf(4), y = t.add(x, z), seen;
    cantFail(t.im.addHook(y, [&](const Tensor &gradient) -> Expected<Tensor> {
      seen = gradient;
      return Tensor();
    }));
    t.backward({y}, {.createGraph = createGraph});
    t.backward({t.mul(x, z)});
    EXPECT_EQ(scalar(seen), 1);
    EXPECT_EQ(scalar(x.grad()), 5);
  }
}

TEST(ImperativeAliases, H_12_AGradientIsNotTheTensorThatAFunctionReturned) {
  for (bool createGraph : {false, true})
    for (bool isOnce : {false, true}) {
      Tape t;
      Tensor x = t.leaf(3), c = t.value(10);
      auto f = identity(t, [&](const FunctionContext &, Tensors) -> Expected<TensorList> { return TensorList{c}; });
      f->isOnceDifferentiable = isOnce;
      t.backward({apply(t, f, {x})[0]}, {.createGraph = createGraph});
      EXPECT_FALSE(x.grad().sharesMemoryWith(c));
      t.backward({t.mul(x, x)});
      EXPECT_EQ(scalar(c), 10);
      EXPECT_EQ(scalar(x.grad()), 16);
    }
}

// The value is read behind the last instruction, when the others have taken the memory of what was released.
TEST(ImperativeAliases, RET_01_AResultThatIsAKeptValue) {
  for (bool createGraph : {false, true}) {
    HostTape t;
    const Tensor x = t.leaf({1, 3}, {1, 2, 3});
    Tensor sum = t("own_value", {x});
    std::vector<Tensor> leaves;
    for (StringRef factor : {"2", "3", "4", "5", "6", "7"}) {
      leaves.push_back(t.leaf({1, 3}, {1, 1, 1}));
      sum = t.add(sum, t.times(leaves.back(), factor));
    }
    t.backward({sum}, {.createGraph = createGraph});
    EXPECT_EQ(t.gradOf(x), (Doubles{1, 2, 3}));
    const Tensor loss = t("own_value", {x});
    t.backward({loss}, {.createGraph = createGraph, .inputs = Tensors(x)});
    EXPECT_EQ(t.gradOf(x), (Doubles{2, 4, 6}));
    Tensor y = t.leaf({1, 3}, {1, 2, 3}), value = t("own_value", {t("Flatten", {y})});
    t.backward({value}, {.createGraph = createGraph});
    EXPECT_FALSE(y.grad().sharesMemoryWith(value));
  }
}

// ---- a gradient that is also something else

// The old contents are kept where they are, the new ones come in other memory.
TEST(ImperativeAliases, E_31_AGradientThatIsALeafIsReplacedBetweenTwoCalls) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(3);
    t.backward({t.times(x, "2")});
    Tensor g = x.grad();
    cantFail(t.im.requireGrad(g));
    Tensor before = t.mul(g, g);
    t.backward({t.times(x, "5")});
    EXPECT_EQ(scalar(g), 7);
    Tensor after = t.mul(g, g), both = t.add(before, after);
    GradOptions options;
    options.retain = true;
    options.createGraph = createGraph;
    const GradcError error = errorOf(t.im.grad({both}, {g}, options).takeError());
    EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
    EXPECT_NE(error.message.find("are one tensor, which was overwritten between these calls"), std::string::npos);
    EXPECT_EQ(scalar(t.grad({before}, {g}, options)[0]), 4);
    EXPECT_EQ(scalar(t.grad({after}, {g}, options)[0]), 14);
  }
}

// x.grad is a head gradient that is read after x has got its new gradient.
TEST(ImperativeAliases, H_12_AHeadGradientThatIsDeliveredMeanwhile) {
  for (Request request : {Request::Add, Request::Write})
    for (bool createGraph : {false, true}) {
      Tape t;
      Tensor x = t.value(3), z = t.value(5);
      for (const Tensor &leaf : {x, z}) cantFail(t.im.mark(leaf, request));
      RecordScope record(t.im);
      t.backward({t.times(x, "2")});
      Tensor late = t.times(t.times(z, "0.5"), "2"), early = t.times(x, "4");
      std::vector<Tensor> others;
      cantFail(t.im.addPostAccumulateHook(x, [&](const Tensor &) -> Expected<Tensor> {
        for (int i = 0; i < 8; ++i) others.push_back(t.value(77));  // in memory that has been released
        return Tensor();
      }));
      const Tensor heads[] = {x.grad(), t.value(1)};
      t.backward({late, early}, {.heads = heads, .createGraph = createGraph});
      EXPECT_EQ(scalar(z.grad()), 2);
      EXPECT_EQ(scalar(x.grad()), request == Request::Add ? 6 : 4);
    }
}

TEST(ImperativeAliases, H_12_AHeadGradientThatABackwardInsideDelivers) {
  for (Request request : {Request::Add, Request::Write})
    for (bool createGraph : {false, true}) {
      Tape t;
      Tensor w = t.value(3), x = t.leaf(5);
      cantFail(t.im.mark(w, request));
      RecordScope record(t.im);
      t.backward({t.times(w, "2")});
      Tensor a = t.times(x, "3"), b = t.times(x, "4");
      std::vector<Tensor> others;
      cantFail(t.im.addHook(b, [&](const Tensor &) -> Expected<Tensor> {
        RecordScope inside(t.im);
        t.backward({t.times(w, "50")});
        for (int i = 0; i < 8; ++i) others.push_back(t.value(77));
        return Tensor();
      }));
      const Tensor heads[] = {w.grad(), t.value(1)};
      t.backward({a, b}, {.heads = heads, .createGraph = createGraph});
      EXPECT_EQ(scalar(x.grad()), 10);
    }
}

// The caller's buffer has the history that the gradient has, also where it is the y itself.
TEST(ImperativeAliases, MA_17_HO_07_ACallersBufferWithARecordedGradient) {
  Tape t;
  Tensor x = t.leaf(2), buffer = t.value(0);
  cantFail(t.im.mark(x, Request::Write, buffer));
  cantFail(t.im.requireGrad(x));
  t.backward({t.mul(t.mul(x, x), x)}, {.createGraph = true});
  EXPECT_TRUE(x.grad() == buffer && buffer.isTracked());
  EXPECT_EQ(scalar(t.grad({buffer}, {x}, {.retain = true})[0]), 12);
  t.backward({buffer});
  EXPECT_EQ(scalar(buffer), 12);
  EXPECT_FALSE(buffer.isTracked());
}

// ---- a backward inside that clears what the outer one still needs

TEST(ImperativeAliases, RET_05_E_20_ABackwardInsideClearsTheHistory) {
  for (bool createGraph : {false, true})
    for (bool hasSaved : {false, true}) {
      HostTape t;
      Tensor x = t.leaf(3), y;
      if (hasSaved) y = apply(t, product(t), {x, x})[0];
      else y = cantFail(t.im.callWith(std::make_shared<double>(7), cantFail(t.im.kind("times_state", {})), {x}))[0];
      Tensor z = t.times(y, "2");
      bool isInside = false;
      std::vector<std::shared_ptr<double>> others;
      cantFail(t.im.addHook(z, [&](const Tensor &) -> Expected<Tensor> {
        if (std::exchange(isInside, true)) return Tensor();
        if (Error error = t.im.backward({z}, {})) return error;
        for (int i = 0; i < 8; ++i) others.push_back(std::make_shared<double>(1000));
        return Tensor();
      }));
      // What a function saved is gone, an object of the host is not.
      const BackwardOptions options{.retain = true, .createGraph = createGraph};
      EXPECT_EQ(t.rowOf(t.im.backward({z}, options)), hasSaved ? "E-20" : "success");
      EXPECT_EQ(scalar(x.grad()), hasSaved ? 12 : 28);
    }
}

// The plan was compiled for other calls: messages have to name those of this tape.
TEST(ImperativeAliases, E_31_WhatAHookOverwroteIsNamedOnEveryTape) {
  for (bool createGraph : {false, true}) {
    Tape t;
    for (bool isBad : {false, true}) {
      Tensor e = t("exp", {t.leaf(3)}), z = t.times(t.mul(e, t.leaf(2)), "1");
      cantFail(t.im.addHook(z, [&](const Tensor &) -> Expected<Tensor> {
        NoGradScope quiet(t.im);
        if (isBad) cantFail(t.into("_plus_scalar", {e}, {e}, {{"scalar", "1"}}));
        return Tensor();
      }));
      const GradcError error = errorOf(t.im.backward({z}, {.createGraph = createGraph}));
      EXPECT_EQ(error.message != "success", isBad);
      if (!isBad) continue;
      EXPECT_NE(error.message.find("of operator 'exp', which this backward reads"), std::string::npos) << error.message;
      EXPECT_EQ(error.message.find("call 1 "), std::string::npos) << error.message;
    }
  }
}

// At the second order the gradient of one of them is that of the other in another shape.
TEST(ImperativeAliases, TA_31_AResultThatIsAnotherOneReshaped) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), w = t.leaf({2}, {3, 4}), h = t.mul(x, w), dh, dy;
  Tensor y = t("Reshape", {h}, {{"shape", "(2,1)"}});
  auto keep = [](Tensor &seen) {
    return [&seen](const Tensor &gradient) -> Expected<Tensor> { return seen = gradient, Tensor(); };
  };
  cantFail(t.im.addHook(h, keep(dh)));
  cantFail(t.im.addHook(y, keep(dy)));
  const Tensor dx = t.grad({t("square", {y})}, {x}, {.createGraph = true})[0];
  for (bool createGraph : {true, false}) {
    const std::vector<Tensor> both =
        t.grad({t("square", {dx})}, {dh, dy}, {.retain = true, .createGraph = createGraph});
    EXPECT_EQ(doublesOf(both[0]), (Doubles{108, 512}));  // 4·(xw)·w²
    EXPECT_EQ(doublesOf(both[1]), (Doubles{108, 512}));
    EXPECT_FALSE(both[0].sharesMemoryWith(both[1]));
  }
}

// A saved value that is handed out is another tensor, but the same value.
TEST(ImperativeAliases, HOOK_02_TwoTensorsOfOneValueHaveOneMark) {
  for (bool createGraph : {false, true})
    for (bool isOutput : {false, true}) {
      Tape t;
      std::optional<FunctionContext> kept;
      auto f = testing::function(
          "double",
          [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
            const Tensor out = t.times(in[0], "2");
            context.save({in[0], out});
            kept = context;
            return TensorList{out};
          },
          [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList{t.times(dy[0], "2")}; });
      Tensor x = t.leaf(3), y = t.times(x, "2"), z = apply(t, f, {y})[0];
      const Tensor one = isOutput ? z : y, other = cantFail(kept->saved())[isOutput];
      ASSERT_FALSE(one == other);
      cantFail(t.im.setName(one, "one"));
      cantFail(t.im.addHook(other, [&](const Tensor &g) -> Expected<Tensor> { return t.times(g, "3"); }));
      cantFail(t.im.addHook(one, [&](const Tensor &g) -> Expected<Tensor> { return t.plus(g, "1"); }));
      for (const Tensor &tensor : {one, other}) cantFail(t.im.retainGrad(tensor));
      t.backward({z}, {.createGraph = createGraph});
      EXPECT_EQ(scalar(one.grad()), isOutput ? 4 : 7);
      EXPECT_TRUE(other.grad() == one.grad());
      EXPECT_EQ(scalar(x.grad()), isOutput ? 16 : 14);
      EXPECT_EQ(other.name(), "one");
      cantFail(t.im.setGrad(x, Tensor()));
      cantFail(t.im.setGrad(one, Tensor()));
    }
}

// Each output has the bytes of an input, which is the target of the other output.
TEST(ImperativeAliases, SharedInputsThatAreTargets) {
  static constexpr InplacePair kBoth[] = {{0, 0, true}, {1, 1, true}};
  static constinit const OpDef kPair = {.name = "pair",
                                        .inputs = {"a", "b"},
                                        .outputs = {"x", "y"},
                                        .shape = [](ShapeInference &s) { s.sameInOut(0, 0), s.sameInOut(1, 1); },
                                        .inplace = kBoth,
                                        .kernel = copyFirst};
  Tape t;
  cantFail(t.context.ops.add(kPair));
  Tensor a = t.value(3), b = t.value(5);
  const SmallVector<Tensor, 2> both = t.all("pair", {a, b});
  EXPECT_TRUE(both[0].sharesMemoryWith(a) && both[1].sharesMemoryWith(b));
  Tensor c = t.value(3), d = t.value(5);
  cantFail(t.into("pair", {c, d}, {d, c}));
  EXPECT_EQ(scalar(c), 5);
  EXPECT_EQ(scalar(d), 3);
}

// The gradients of both terms of a sum are one value: each leaf has memory of its own.
TEST(ImperativeAliases, TA_31_TwoLeavesOfOneGradient) {
  Tape t;
  for (bool createGraph : {false, true}) {
    Tensor x = t.leaf({2}, {1, 2}), w = t.leaf({2}, {3, 4});
    t.backward({t.sum(t("square", {t("add_n", {x, w}, {{"num_args", "2"}})}))}, {.createGraph = createGraph});
    EXPECT_EQ(t.gradOf(x), (Doubles{8, 12}));
    EXPECT_EQ(t.gradOf(w), (Doubles{8, 12}));
    EXPECT_FALSE(x.grad().sharesMemoryWith(w.grad()));
    const Tensor y = t.sum(t("square", {x}));
    const std::vector<Tensor> twice = t.grad({y}, {x, x}, {.createGraph = createGraph});
    EXPECT_EQ(doublesOf(twice[0]), doublesOf(twice[1]));
    EXPECT_FALSE(twice[0].sharesMemoryWith(twice[1]));
  }
}

}  // namespace
}  // namespace gradc
