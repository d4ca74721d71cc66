// Functions of the host: what their calls keep, errors, backwards inside of them.
#include "imperative/imperative.h"
#include "tests/support/runs/host_functions.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::apply;
using testing::Doubles;
using testing::function;
using testing::identity;
using testing::product;
using testing::scalar;
using testing::Tape;

TEST(ImperativeFunctionLife, TA_76_E_20_E_31_SavedValuesAfterwards) {
  Tape t;
  std::optional<FunctionContext> stashed;
  Tensor x = t.leaf(3);
  auto f = product(t);
  auto plain = f->forward;
  f->forward = [&](const FunctionContext &context, Tensors in) {
    stashed = context;
    return plain(context, in);
  };
  Tensor y = apply(t, f, {x, x})[0];
  EXPECT_EQ(scalar(cantFail(stashed->saved())[0]), 3);
  t.backward({y}, {.retain = true});
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{12}));
  EXPECT_EQ(t.rowOf(stashed->saved()), "E-20");
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-20");
  y = apply(t, f, {x, x})[0];
  y = Tensor();
  EXPECT_EQ(t.rowOf(stashed->saved()), "E-20");
  y = apply(t, f, {x, x})[0];
  NoGradScope quiet(t.im);
  cantFail(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}}));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
}

TEST(ImperativeFunctionLife, TA_77_PD_16_NeedsGradient) {
  Tape t;
  Tensor x = t.leaf(3), c = t.value(5);
  std::vector<bool> needs;
  auto f = product(t);
  auto plain = f->forward;
  f->forward = [&](const FunctionContext &context, Tensors in) {
    needs = {context.needsGradient(0), context.needsGradient(1)};
    return plain(context, in);
  };
  f->backward = [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
    EXPECT_TRUE(context.needsGradient(0));
    EXPECT_FALSE(context.needsGradient(1));
    return TensorList{t.mul(dy[0], cantFail(context.saved())[1]), Tensor()};
  };
  t.backward({apply(t, f, {x, c})[0]});
  EXPECT_EQ(needs, (std::vector<bool>{true, false}));
  EXPECT_EQ(t.gradOf(x), (Doubles{5}));
  EXPECT_FALSE(apply(t, f, {c, c})[0].isTracked());
}

TEST(ImperativeFunctionLife, TA_78_PD_16_ErrorsComeBackAsTheyAre) {
  Tape t;
  Tensor x = t.leaf(3);
  bool isBad = true;
  auto f = identity(t, [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> {
    if (isBad) return Failure(ErrorKind::Io, "boom");
    return TensorList{dy[0]};
  });
  Tensor y = t.mul(apply(t, f, {x})[0], x);
  EXPECT_EQ(errorOf(t.im.backward({y}, {})).message, "boom");
  EXPECT_FALSE(x.grad());
  EXPECT_EQ(modesOf(t.im).recording, Recording::ByLeaf);
  EXPECT_EQ(t.rowOf(t.im.queueCallback([] { return Error::success(); })), "E-22");
  isBad = false;
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{6}));
  f->forward = [](const FunctionContext &, Tensors) -> Expected<TensorList> { return Failure(ErrorKind::Io, "bang"); };
  EXPECT_EQ(errorOf(t.im.apply(f, {x}).takeError()).message, "bang");
  f->forward = [](const FunctionContext &, Tensors) -> Expected<TensorList> { return TensorList{Tensor()}; };
  EXPECT_EQ(t.rowOf(t.im.apply(f, {x})), "E-14");
  EXPECT_EQ(t.rowOf(t.im.apply(nullptr, {x})), "E-21");
  EXPECT_EQ(modesOf(t.im).recording, Recording::ByLeaf);
}

TEST(ImperativeFunctionLife, PD_16_NotCalledWhereNothingArrives) {
  Tape t;
  Tensor x = t.leaf(3);
  int numCalls = 0;
  auto f = identity(
      t, [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return ++numCalls, TensorList{dy[0]}; });
  Tensor unused = apply(t, f, {x})[0];
  t.backward({t.times(x, "2")});
  EXPECT_EQ(numCalls, 0);
  t.backward({unused});
  EXPECT_EQ(numCalls, 1);
}

TEST(ImperativeFunctionLife, TA_79_TA_80_ABackwardInsideOfABackward) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf({2}, {2, 3});
    bool isBad = false;
    auto f = function(
        "reentrant",
        [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
          context.save(in);
          return TensorList{t.mul(in[0], in[0])};
        },
        [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
          EnableGradScope enable(t.im);
          Tensor own = t.im.detach(cantFail(context.saved())[0]);
          cantFail(t.im.requireGrad(own));
          Tensor y = t.mul(own, own);
          if (isBad)
            cantFail(
                t.im.addHook(y, [](const Tensor &) -> Expected<Tensor> { return Failure(ErrorKind::Io, "boom"); }));
          if (Error error = t.im.backward({y}, {})) return error;
          return TensorList{t.mul(dy[0], own.grad())};
        });
    t.backward({apply(t, f, {x})[0]}, {.createGraph = createGraph});
    EXPECT_EQ(t.gradOf(x), (Doubles{4, 6}));
    isBad = true;
    Tensor y = apply(t, f, {x})[0];
    EXPECT_EQ(errorOf(t.im.backward({y}, {.createGraph = createGraph})).message, "boom");
    isBad = false;
    t.backward({y});
    EXPECT_EQ(t.gradOf(x), (Doubles{8, 12}));
  }
}

TEST(ImperativeFunctionLife, E_32_NoGraphHoldsCodeOfTheHost) {
  Tape t;
  Tensor x = t.leaf(1);
  const GradcError error = errorOf(t.im.graphOf({apply(t, product(t), {x, x})[0]}).takeError());
  EXPECT_EQ(error.kind, ErrorKind::UnknownOp);
  EXPECT_NE(error.message.find("'product'"), std::string::npos) << error.message;
}

TEST(ImperativeFunctionLife, TA_88_StateEndsWithTheCallAndWithoutTheLock) {
  Tape t;
  Tensor x = t.leaf(1);
  int numEnded = 0;
  auto f = product(t);
  auto plain = f->forward;
  f->forward = [&](const FunctionContext &context, Tensors in) {
    context.data() = std::shared_ptr<void>(nullptr, [&](void *) {
      ++numEnded;
      Tensor own = t.leaf(2);
      t.backward({t.mul(own, own)});
      EXPECT_EQ(t.gradOf(own), (Doubles{4}));
    });
    return plain(context, in);
  };
  { Tensor y = apply(t, f, {x, x})[0]; }
  EXPECT_EQ(numEnded, 1);
  Tensor y = apply(t, f, {x, x})[0];
  t.backward({y});
  EXPECT_EQ(numEnded, 2);
}

TEST(ImperativeFunctionLife, TA_76_HistoriesOutliveTheirImperative) {
  std::optional<FunctionContext> stashed;
  Tensor y, z;
  {
    Tape t;
    auto f = product(t);
    f->forward = [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
      stashed = context;
      const Tensor made = t.mul(in[0], in[1]), both[] = {in[0], made};
      context.save(both);
      return TensorList{made};
    };
    Tensor x = t.leaf(3);
    y = apply(t, f, {x, x})[0];
    z = cantFail(t.im.callWith(std::make_shared<int>(1), cantFail(t.im.kind("square", {})), {x}))[0];
  }
  const TensorList saved = cantFail(stashed->saved());
  EXPECT_EQ(scalar(saved[0]), 3);
  EXPECT_EQ(scalar(saved[1]), 9);
  y = z = Tensor();
  EXPECT_EQ(Tape::rowOf(stashed->saved()), "E-20");
}

// What the host does to a value that it was given does not change what the call has saved. The leak checker sees the
// cycle that it would be otherwise.
TEST(ImperativeFunctionLife, TA_76_SavedValuesAreHandedOutAsTensorsOfTheirOwn) {
  Tape t;
  std::optional<FunctionContext> stashed;
  Tensor x = t.leaf(3), c = t.value(5);
  auto f = product(t);
  auto plain = f->forward;
  f->forward = [&](const FunctionContext &context, Tensors in) {
    stashed = context;
    return plain(context, in);
  };
  Tensor y = apply(t, f, {x, c})[0];
  const Tensor given = cantFail(stashed->saved())[1];
  EXPECT_TRUE(given.sharesMemoryWith(c));
  cantFail(t.into("_copy", {y}, {given}));
  EXPECT_TRUE(given.isTracked());
  EXPECT_EQ(t.rowOf(stashed->saved()), "E-31");
  stashed.reset();
  y = apply(t, f, {x, c})[0];
  const Tensor again = cantFail(stashed->saved())[1];
  EXPECT_FALSE(again.isTracked());
  EXPECT_FALSE(again == cantFail(stashed->saved())[1]);
}

// Outputs that a call kept behind its node would keep each other for good.
TEST(ImperativeFunctionLife, TA_76_SavedTooLate) {
  Tape t;
  const Tensor x = t.leaf(3);
  std::optional<FunctionContext> stashed;
  const auto f = product(t);
  const auto plain = f->forward;
  f->forward = [&](const FunctionContext &context, Tensors in) {
    stashed = context;
    return plain(context, in);
  };
  std::weak_ptr<void> data;
  {
    const TensorList y = apply(t, f, {x, x});
    stashed->data() = std::make_shared<int>(7);
    data = stashed->data();
    stashed->save(y);
    EXPECT_EQ(cantFail(stashed->saved()).size(), 2u) << "what forward saved";
    stashed.reset();
  }
  EXPECT_TRUE(data.expired());
}

// More operands than a function has inputs: those of its gradient, too.
TEST(ImperativeFunctionLife, E_02_AFunctionOfManyInputsAndOutputs) {
  Tape t;
  const Tensor x = t.leaf(3);
  const auto f =
      identity(t, [](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList(40000, dy[0]); });
  f->forward = [&](const FunctionContext &, Tensors) -> Expected<TensorList> {
    TensorList outputs;
    for (int i = 0; i < 30000; ++i) outputs.push_back(t.value(1));
    return outputs;
  };
  f->isOnceDifferentiable = true;
  const TensorList y = apply(t, f, std::vector<Tensor>(40000, x));
  t.backward({y[0]}, {.createGraph = true});
  EXPECT_EQ(t.gradOf(x), Doubles{40000});
  EXPECT_EQ(t.rowOf(t.im.backward({x.grad()}, {})), "E-02");
  cantFail(t.im.setGrad(x, Tensor()));
}

TEST(ImperativeFunctionLife, OnePlanForAllCallsOfAName) {
  Tape t;
  Tensor x = t.leaf(1);
  for (int i = 0; i < 5; ++i) t.backward({apply(t, product(t), {x, x})[0]});
  EXPECT_EQ(t.im.cacheStats().misses, 1u);
  EXPECT_EQ(t.gradOf(x), (Doubles{10}));
}

}  // namespace
}  // namespace gradc
