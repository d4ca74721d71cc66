// Functions of the host, compiled and with createGraph.
#include "imperative/imperative.h"
#include "tests/support/runs/host_functions.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::apply;
using testing::Doubles;
using testing::doublesOf;
using testing::function;
using testing::identity;
using testing::product;
using testing::scalar;
using testing::Tape;

TEST(ImperativeFunction, TA_65_MA_10_TwoOutputs) {
  for (bool createGraph : {false, true}) {
    Tape t;
    auto both = function(
        "both",
        [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
          context.save(in);
          return TensorList{t("elemwise_div", in), t.mul(in[0], in[1])};
        },
        [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
          TensorList in = cantFail(context.saved());
          const Tensor ratio = t("elemwise_div", {dy[0], in[1]});
          const Tensor negative = t.times(t("elemwise_div", {t.mul(ratio, in[0]), in[1]}), "-1");
          return TensorList{t.add(ratio, t.mul(dy[1], in[1])), t.add(negative, t.mul(dy[1], in[0]))};
        });
    Tensor x = t.leaf({2}, {2, 3}), y = t.leaf({2}, {4, 5});
    TensorList out = apply(t, both, {x, y});
    EXPECT_TRUE(out[0].isTracked() && out[1].isTracked());
    t.backward(out, {.createGraph = createGraph});
    EXPECT_EQ(t.gradOf(x), (Doubles{4.25, 5.2}));
    EXPECT_NEAR(t.gradOf(y)[0], 1.875, 1e-15);
    EXPECT_NEAR(t.gradOf(y)[1], 2.88, 1e-15);
  }
}

TEST(ImperativeFunction, MA_11_OverTheMemoryOfTheTensors) {
  Tape t;
  auto cube = function(
      "cube",
      [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        context.save(in);
        Expected<Tensor> y = t.im.make(in[0].shape(), DType::Float64);
        if (!y) return y.takeError();
        for (int64_t i = 0; i < y->size(); ++i) y->data<double>()[i] = std::pow(in[0].data<double>()[i], 3);
        return TensorList{*y};
      },
      [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
        TensorList in = cantFail(context.saved());
        Expected<Tensor> dx = t.im.make(in[0].shape(), DType::Float64);
        if (!dx) return dx.takeError();
        for (int64_t i = 0; i < dx->size(); ++i)
          dx->data<double>()[i] = 3 * in[0].data<double>()[i] * in[0].data<double>()[i] * dy[0].data<double>()[i];
        return TensorList{*dx};
      });
  Tensor x = t.leaf({3}, {1, 2, -3});
  t.backward({t.times(apply(t, cube, {t.times(x, "2")})[0], "10")});
  EXPECT_EQ(t.gradOf(x), (Doubles{240, 960, 2160}));
}

TEST(ImperativeFunction, TA_66_DoubleBackward) {
  Tape t;
  Tensor x = t.leaf(3), y = t.leaf(4);
  GradOptions options;
  options.createGraph = true;
  Tensor dx = t.grad({apply(t, product(t), {x, y})[0]}, {x}, options)[0];
  EXPECT_EQ(scalar(dx), 4);
  EXPECT_EQ(scalar(t.grad({dx}, {y})[0]), 1);
  // Through a saved output, and a third order: y = exp(x).
  auto exponential = function(
      "exponential",
      [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        Tensor out = t("exp", in);
        context.save(out);
        return TensorList{out};
      },
      [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
        return TensorList{t.mul(dy[0], cantFail(context.saved())[0])};
      });
  Tensor g = apply(t, exponential, {x})[0];
  for (int order = 0; order < 3; ++order) {
    g = t.grad({g}, {x}, options)[0];
    EXPECT_DOUBLE_EQ(scalar(g), std::exp(3.0));
  }
}

TEST(ImperativeFunction, TA_67_E_02_OnceDifferentiable) {
  Tape t;
  auto square = function(
      "square once",
      [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        context.save(in);
        return TensorList{t.mul(in[0], in[0])};
      },
      [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
        return TensorList{t.times(t.mul(dy[0], cantFail(context.saved())[0]), "2")};
      });
  square->isOnceDifferentiable = true;
  Tensor x = t.leaf(3);
  GradOptions options;
  options.createGraph = true;
  Tensor dx = t.grad({apply(t, square, {x})[0]}, {x}, options)[0];
  EXPECT_EQ(scalar(dx), 6);
  EXPECT_TRUE(dx.isTracked());
  const GradcError error = errorOf(t.im.grad({dx}, {x}, {}).takeError());
  EXPECT_EQ(error.kind, ErrorKind::NotDifferentiable);
  EXPECT_NE(error.message.find("'square once'"), std::string::npos) << error.message;
}

TEST(ImperativeFunction, TA_68_PD_16_E_46_TheNumberOfGradients) {
  Tape t;
  Tensor x = t.leaf(2);
  size_t number = 2;
  Tensor surplus = t.value(1);
  auto f = identity(t, [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> {
    TensorList list(number, surplus);
    if (number) list[0] = dy[0];
    return list;
  });
  GradcError error = errorOf(t.im.backward({apply(t, f, {x})[0]}, {}));
  EXPECT_EQ(error.kind, ErrorKind::GradCount);
  EXPECT_EQ(error.message, "function 'identity' returned 2 gradients, expected 1, one per input");
  number = 0;
  EXPECT_EQ(t.rowOf(t.im.backward({apply(t, f, {x})[0]}, {})), "E-46");
  number = 3;
  surplus = Tensor();
  t.backward({apply(t, f, {x})[0]});
  EXPECT_EQ(t.gradOf(x), (Doubles{1}));
}

TEST(ImperativeFunction, TA_69_E_57_E_39_E_44_GradientsFit) {
  for (bool createGraph : {false, true}) {
    Tape t, other;
    Tensor x = t.leaf({2}, {1, 2}), given = t.value({5}, Doubles(5, 1));
    auto f = identity(t, [&](const FunctionContext &, Tensors) -> Expected<TensorList> { return TensorList{given}; });
    auto run = [&] { return errorOf(t.im.backward({apply(t, f, {x})[0]}, {.createGraph = createGraph})); };
    GradcError error = run();
    EXPECT_EQ(error.kind, ErrorKind::GradShape);
    EXPECT_EQ(error.message, "gradient 0 that function 'identity' returned has shape (5,), expected (2,) of input 0");
    given = t.im.full({2}, 1.0f);
    error = run();
    EXPECT_EQ(error.kind, ErrorKind::HeadDType);
    EXPECT_NE(error.message.find("gradient 0 that function 'identity'"), std::string::npos) << error.message;
    given = other.value({2}, {1, 1});
    EXPECT_EQ(run().kind, ErrorKind::ForeignEntry);
    EXPECT_FALSE(x.grad());
    // One that was broadcast is summed down.
    given = t.value({3, 2}, {1, 2, 3, 4, 5, 6});
    t.backward({apply(t, f, {x})[0]}, {.createGraph = createGraph});
    EXPECT_EQ(t.gradOf(x), (Doubles{9, 12}));
  }
}

TEST(ImperativeFunction, TA_70_PD_16_GradientsThatAreMissing) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor x = t.leaf(2);
    auto none =
        identity(t, [](const FunctionContext &, Tensors) -> Expected<TensorList> { return TensorList{Tensor()}; });
    const BackwardOptions options{.createGraph = createGraph};
    t.backward({apply(t, none, {x})[0]}, options);
    EXPECT_FALSE(x.grad());
    EXPECT_FALSE(x.isFresh());
    // Nothing arrives behind it either, whatever is there: 0 · inf would be NaN.
    Tensor zero = t.leaf(0);
    int numCalls = 0;
    cantFail(t.im.addHook(zero, [&](const Tensor &) -> Expected<Tensor> { return ++numCalls, Tensor(); }));
    t.backward({apply(t, none, {t("log", {zero})})[0]}, options);
    EXPECT_FALSE(zero.grad());
    EXPECT_EQ(numCalls, 0);
    // Other contributions count.
    t.backward({apply(t, none, {t("log", {zero})})[0], t.times(zero, "7")}, options);
    EXPECT_EQ(t.gradOf(zero), (Doubles{7}));
    EXPECT_EQ(numCalls, 1);
    Tensor y = t.times(apply(t, none, {x})[0], "2");
    GradOptions asked;
    asked.retain = true;
    asked.createGraph = createGraph;
    EXPECT_EQ(t.rowOf(t.im.grad({y}, {x}, asked)), "E-01");
    asked.unused = UnusedPolicy::None;
    EXPECT_FALSE(t.grad({y}, {x}, asked)[0]);
    asked.unused = UnusedPolicy::Zeros;
    EXPECT_EQ(doublesOf(t.grad({y}, {x}, asked)[0]), (Doubles{0}));
  }
}

TEST(ImperativeFunction, TA_71_ReturnsItsInput) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  auto f = function(
      "f", [](const FunctionContext &, Tensors in) -> Expected<TensorList> { return TensorList{in[0]}; },
      [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList{t.times(dy[0], "2")}; });
  Tensor y = apply(t, f, {x})[0];
  EXPECT_FALSE(y == x);
  EXPECT_TRUE(y.sharesMemoryWith(x));
  EXPECT_TRUE(x.isLeaf());
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 2}));
}

TEST(ImperativeFunction, TA_72_OutputsThatNoGradientArrivesAt) {
  for (bool materializes : {true, false})
    for (bool createGraph : {false, true}) {
      Tape t;
      Tensor x = t.leaf(2);
      Doubles second{-1};
      auto f = function(
          "f",
          [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
            if (!materializes) context.setMaterializes(false);
            return TensorList{t.times(in[0], "1"), t.times(in[0], "1")};
          },
          [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> {
            second = doublesOf(dy[1]);
            return TensorList{dy[0]};
          });
      t.backward({apply(t, f, {x})[0]}, {.createGraph = createGraph});
      EXPECT_EQ(second, materializes ? Doubles{0} : Doubles{});
      EXPECT_EQ(t.gradOf(x), (Doubles{1}));
    }
}

TEST(ImperativeFunction, TA_73_OutputsWithoutGradient) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  auto f = function(
      "f",
      [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        context.markNonDifferentiable(1);
        return TensorList{t.times(in[0], "2"), t.times(in[0], "3")};
      },
      [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList{t.times(dy[0], "2")}; });
  TensorList y = apply(t, f, {x});
  EXPECT_TRUE(y[0].isTracked());
  EXPECT_FALSE(y[1].isTracked());
  t.backward({y[0]});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 2}));
}

TEST(ImperativeFunction, TA_74_GapsAmongSavedValues) {
  Tape t;
  Tensor x = t.leaf(3);
  auto f = function(
      "f",
      [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        context.save({Tensor(), in[0], Tensor()});
        return TensorList{t.mul(in[0], in[0])};
      },
      [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
        TensorList saved = cantFail(context.saved());
        EXPECT_EQ(saved.size(), 3u);
        EXPECT_FALSE(saved[0] || saved[2]);
        return TensorList{t.times(t.mul(dy[0], saved[1]), "2")};
      });
  t.backward({apply(t, f, {x})[0]});
  EXPECT_EQ(t.gradOf(x), (Doubles{6}));
}

TEST(ImperativeFunction, TA_75_OneTensorTwice) {
  Tape t;
  Tensor x = t.leaf(1);
  auto f = function(
      "f",
      [&](const FunctionContext &, Tensors in) -> Expected<TensorList> {
        Tensor y = t.times(in[0], "1");
        return TensorList{y, y};
      },
      [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList{t.add(dy[0], dy[1])}; });
  TensorList y = apply(t, f, {x});
  t.backward({t.add(t.times(y[0], "2"), t.times(y[1], "5"))});
  EXPECT_EQ(t.gradOf(x), (Doubles{7}));
}

}  // namespace
}  // namespace gradc
