// Marks, and the gradients that marked tensors get.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

TEST(ImperativeMarks, TA_41_TA_42_E_06_WhatCannotBeMarked) {
  Tape t;
  Tensor x = t.leaf(1), y = t.times(x, "2");
  const GradcError error = errorOf(t.im.requireGrad(y));
  EXPECT_EQ(error.kind, ErrorKind::NotRequiresGrad);
  EXPECT_NE(error.notes[0].text.find("detach"), std::string::npos);
  Tensor integers = t.im.tensor({2}, std::vector<int64_t>{1, 2});
  EXPECT_EQ(t.rowOf(t.im.requireGrad(integers)), "E-06");
  EXPECT_EQ(t.rowOf(t.im.mark(integers, Request::Write)), "E-06");
  EXPECT_FALSE(t.im.attachGrad(integers, Request::Write));
  EXPECT_FALSE(integers.isTracked());
}

TEST(ImperativeMarks, TA_43_E_06_AssignedGradients) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  EXPECT_EQ(t.rowOf(t.im.setGrad(x, t.value({3}, {1, 1, 1}))), "E-71");
  EXPECT_EQ(t.rowOf(t.im.setGrad(x, t.im.tensor({2}, std::vector<float>{1, 1}))), "E-71");
  cantFail(t.im.setGrad(x, t.value({2}, {1, 1})));
  t.backward({t.sum(t("square", {x}))});
  EXPECT_EQ(t.gradOf(x), (Doubles{3, 5}));
  Tensor named = t.value({2}, {1, 2});
  cantFail(t.im.setName(named, "named"));
  EXPECT_EQ(t.rowOf(t.im.setGrad(named, t.value({2}, {1, 1}))), "E-06") << "a name does not mark a tensor";
}

TEST(ImperativeMarks, MA_04_H_02_GapsAmongHeads) {
  Tape t;
  Tensor x = t.leaf({3, 5}, Doubles(15, 1));
  llvm::SmallVector<Tensor, 2> parts =
      t.all("SliceChannel", {x}, {{"num_outputs", "3"}, {"axis", "0"}, {"squeeze_axis", "True"}});
  const Tensor heads[] = {Tensor(), t.value({5}, {1, 2, 3, 4, 5}), t.value({5}, {5, 4, 3, 2, 1})};
  t.backward(parts, {.heads = heads});
  EXPECT_EQ(t.gradOf(x), (Doubles{1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1}));
}

TEST(ImperativeMarks, MA_05_MA_16_REQ_07_ASK_17_STOP_04_FreshFlags) {
  Tape t;
  Tensor x = t.value(1), y = t.value(2);
  cantFail(t.im.mark(x, Request::Write));
  cantFail(t.im.mark(y, Request::Write));
  {
    RecordScope record(t.im);
    Tensor x2 = t.im.detach(t.plus(x, "2"));
    t.backward({t.mul(x2, y)});
    EXPECT_EQ(scalar(y.grad()), 3);
    EXPECT_EQ(scalar(x.grad()), 0);
    EXPECT_FALSE(x.isFresh());
    EXPECT_TRUE(y.isFresh());
    EXPECT_TRUE(y.isFresh());
    y.setFresh(false);
    t.backward({t.add(x2, y)});
    EXPECT_EQ(scalar(y.grad()), 1);
  }
  EXPECT_FALSE(x.isFresh());
  EXPECT_TRUE(y.isFresh());
}

TEST(ImperativeMarks, TensorsTellHowTheyAreMarked) {
  Tape t;
  Tensor leaf = t.value(1), attached = t.value(2);
  EXPECT_FALSE(leaf.requiresGrad());
  EXPECT_EQ(leaf.gradRequest(), Request::Null);
  cantFail(t.im.requireGrad(leaf));
  cantFail(t.im.mark(attached, Request::Write));
  EXPECT_TRUE(leaf.requiresGrad());
  EXPECT_EQ(leaf.gradRequest(), Request::Add);
  EXPECT_FALSE(attached.requiresGrad());
  EXPECT_EQ(attached.gradRequest(), Request::Write);
  const Tensor y = t.plus(leaf, "1");
  EXPECT_TRUE(y.requiresGrad()) << "computed from a leaf";
  EXPECT_EQ(y.gradRequest(), Request::Null);
}

TEST(ImperativeMarks, MA_06_AddAccumulatesOverRetainedRuns) {
  Tape t;
  Tensor x = t.value({2}, {1, 2});
  cantFail(t.im.mark(x, Request::Add));
  RecordScope record(t.im);
  Tensor y = t.plus(x, "1");
  t.backward({y}, {.retain = true});
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 2}));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-20");
}

TEST(ImperativeMarks, MA_07_E_16_E_17_NL_05_Marks) {
  Tape t;
  Tensor x = t.value({3}, {1, 2, 3});
  EXPECT_FALSE(x.grad());
  cantFail(t.im.mark(x, Request::Write));
  EXPECT_EQ(t.gradOf(x), (Doubles{0, 0, 0}));
  RecordScope record(t.im);
  Tensor y = t.times(x, "2");
  EXPECT_FALSE(y.grad());
  Tensor buffer = t.value({3}, {0, 0, 0});
  cantFail(t.im.mark(y, Request::Write, buffer));
  cantFail(t.im.mark(y, Request::Write, buffer));
  EXPECT_EQ(t.rowOf(t.im.mark(y, Request::Write, t.value({3}, {0, 0, 0}))), "E-16");
  t.backward({t.sum(y)});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 2, 2}));
  EXPECT_EQ(doublesOf(buffer), (Doubles{1, 1, 1}));
  cantFail(t.im.dropGrad(y));
  EXPECT_EQ(t.rowOf(t.im.dropGrad(y)), "E-17");
  EXPECT_EQ(t.rowOf(t.im.dropGrad(t.value(1))), "E-17");
}

TEST(ImperativeMarks, MA_08_NL_03_RetainedAndDroppedGradients) {
  Tape t;
  Tensor x = t.value({4}, {1, 2, 3, 4}), y = t.value({4}, {5, 6, 7, 8});
  cantFail(t.im.mark(x, Request::Write));
  cantFail(t.im.mark(y, Request::Write));
  RecordScope record(t.im);
  Tensor u = t.mul(x, y), z = t.mul(u, x);
  cantFail(t.im.mark(u, Request::Write));
  cantFail(t.im.mark(z, Request::Write));
  t.backward({z}, {.heads = t.value({4}, {10, 10, 10, 10}), .retain = true});
  EXPECT_EQ(t.gradOf(u), (Doubles{10, 20, 30, 40}));
  EXPECT_EQ(t.gradOf(z), (Doubles{10, 10, 10, 10}));
  EXPECT_EQ(t.gradOf(x), (Doubles{100, 240, 420, 640}));
  EXPECT_EQ(t.gradOf(y), (Doubles{10, 40, 90, 160}));
  for (const Tensor &tensor : {u, z, y}) cantFail(t.im.dropGrad(tensor));
  t.backward({z}, {.heads = t.value({4}, {0.1, 0.1, 0.1, 0.1})});
  const Doubles expected = {1, 2.4, 4.2, 6.4};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(t.gradOf(x)[i], expected[i], 1e-12);
  for (const Tensor &tensor : {u, z, y}) EXPECT_FALSE(tensor.grad());
}

TEST(ImperativeMarks, TA_54_NL_04_RetainGrad) {
  Tape t;
  Tensor v = t.leaf({2}, {1, 2}), h = t.times(v, "3");
  cantFail(t.im.retainGrad(h));
  cantFail(t.im.retainGrad(h));
  Tensor out = t.sum(t("square", {h}));
  t.backward({out}, {.retain = true});
  EXPECT_EQ(t.gradOf(h), (Doubles{6, 12}));
  t.backward({out}, {.retain = true});
  EXPECT_EQ(t.gradOf(h), (Doubles{12, 24}));
  cantFail(t.im.clearGrad(v));
  t.backward({out});
  EXPECT_EQ(t.gradOf(v), (Doubles{18, 36}));
}

TEST(ImperativeMarks, MA_17_E_18_CallersBuffers) {
  Tape t;
  Tensor x = t.value({2}, {1, 2}), y = t.value({2}, {3, 4}), z = t.value({2}, {5, 6});
  Tensor gx = t.value({2}, {100, 100}), gy = t.value({2}, {100, 100}), gz = t.value({2}, {100, 100});
  cantFail(t.im.mark(x, Request::Write, gx));
  cantFail(t.im.mark(y, Request::Add, gy));
  cantFail(t.im.mark(z, Request::Null, gz));
  const void *const at[] = {gx.ref().data, gy.ref().data};
  RecordScope record(t.im);
  t.backward({t.sum(t.add(t.mul(x, y), z))});
  EXPECT_EQ(doublesOf(gx), (Doubles{3, 4}));
  EXPECT_EQ(doublesOf(gy), (Doubles{101, 102}));
  EXPECT_EQ(doublesOf(gz), (Doubles{100, 100}));
  EXPECT_EQ(gx.ref().data, at[0]);
  EXPECT_EQ(gy.ref().data, at[1]);
  EXPECT_EQ(t.rowOf(t.im.mark(y, Request::Write, gx)), "E-18");
}

// REQ-09: the memory counts, not the tensor over it.
TEST(ImperativeMarks, REQ_09_E_18_TwoMarksOnOneBuffer) {
  for (bool isForeign : {false, true})
    for (Request first : {Request::Write, Request::Add, Request::Null})
      for (Request second : {Request::Write, Request::Add, Request::Null}) {
        Tape t;
        double memory = 100;
        auto over = [&] {
          return cantFail(t.im.makeForeign(TensorRef(&memory, DType::Float64, Dims({1})), nullptr, nullptr));
        };
        const Tensor a = t.value(3), b = t.value(5), buffer = isForeign ? over() : t.value(100);
        cantFail(t.im.mark(a, first, buffer));
        const bool isBoth = first != Request::Null && second != Request::Null;
        const bool isRefused = isBoth && (first == Request::Write || second == Request::Write);
        EXPECT_EQ(t.rowOf(t.im.mark(b, second, isForeign ? over() : buffer)), isRefused ? "E-18" : "success");
        // What was refused is nothing, and what was dropped is gone.
        cantFail(t.im.mark(a, first, buffer));
        if (isRefused) {
          EXPECT_EQ(t.rowOf(t.im.mark(b, second, buffer)), "E-18");
        }
        cantFail(t.im.dropGrad(a));
        EXPECT_EQ(t.rowOf(t.im.mark(b, second, buffer)), "success");
      }
  Tape t;
  // Refused, a still adds.
  const Tensor a = t.value(3), b = t.value(5), c = t.value(7), sum = t.value(0);
  for (const Tensor &x : {a, b}) cantFail(t.im.mark(x, Request::Add, sum));
  EXPECT_EQ(t.rowOf(t.im.mark(a, Request::Write, sum)), "E-18");
  cantFail(t.im.dropGrad(b));
  EXPECT_EQ(t.rowOf(t.im.mark(c, Request::Write, sum)), "E-18");
  double memory = 100;
  const int64_t one[] = {1};
  const TensorRef at(&memory, DType::Float64, one);
  const Tensor x = cantFail(t.im.makeForeign(at, nullptr, nullptr)),
               g = cantFail(t.im.makeForeign(at, nullptr, nullptr));
  EXPECT_EQ(t.rowOf(t.im.mark(x, Request::Add, g)), "E-18");
}

TEST(ImperativeMarks, REQ_09_TwoLeavesAddToOneBuffer) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor a = t.leaf(3), b = t.leaf(5), buffer = t.value(100);
    for (const Tensor &leaf : {a, b}) cantFail(t.im.mark(leaf, Request::Add, buffer));
    t.backward({t.mul(a, b)}, {.createGraph = createGraph});
    EXPECT_EQ(scalar(buffer), 108);
    if (createGraph) {
      EXPECT_EQ(scalar(t.grad({buffer}, {a}, {.retain = true})[0]), 1);  // of 100 + a + b
    }
    t.backward({t.add(a, b)}, {.createGraph = createGraph});
    EXPECT_EQ(scalar(buffer), 110);
  }
}

// Outside of RecordScope x does not count, but its mark would be lost with the history that it gets.
TEST(ImperativeMarks, TA_38_E_19_AMarkedLeafGetsNoHistoryByLeaf) {
  Tape t;
  Tensor w = t.leaf(3), x = t.value(1), c = t.value(2);
  cantFail(t.im.mark(x, Request::Write));
  EXPECT_EQ(t.rowOf(t.into("square", {w}, {x})), "E-19");
  EXPECT_EQ(scalar(x), 1);
  EXPECT_EQ(t.rowOf(t.into("square", {c}, {x})), "success");
  EXPECT_EQ(scalar(x), 4);
  EXPECT_TRUE(x.isLeaf() && x.isTracked());
  {
    NoGradScope quiet(t.im);
    EXPECT_EQ(t.rowOf(t.into("square", {w}, {x})), "success");
  }
  EXPECT_TRUE(x.isLeaf() && x.isTracked());
}

// As in PyTorch: a leaf that is not one any more when its gradient arrives.
TEST(ImperativeMarks, TA_64_AHookDropsTheMarkOfALeaf) {
  for (bool createGraph : {false, true})
    for (bool isByLeaf : {false, true}) {
      Tape t;
      Tensor x = t.leaf(3), z = t.leaf(4), y = t.mul(x, z);
      cantFail(t.im.addHook(y, [&](const Tensor &) -> Expected<Tensor> {
        if (Error error = isByLeaf ? t.im.requireGrad(z, false) : t.im.dropGrad(z)) return error;
        return Tensor();
      }));
      t.backward({y}, {.createGraph = createGraph});
      EXPECT_EQ(scalar(x.grad()), 4);
      EXPECT_FALSE(z.grad());
      EXPECT_FALSE(z.isFresh());
    }
}

TEST(ImperativeMarks, PD_25_ClearedGradients) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  t.backward({t.sum(t("square", {x}))});
  Tensor grad = x.grad();
  cantFail(t.im.clearGrad(x));
  EXPECT_EQ(doublesOf(grad), (Doubles{0, 0}));
  EXPECT_EQ(x.grad(), grad);
  EXPECT_FALSE(x.isFresh());
  cantFail(t.im.setGrad(x, Tensor()));
  EXPECT_FALSE(x.grad());
}

// PyTorch's zero_grad detaches it, too: the next gradient is not added to what made the old one.
TEST(ImperativeMarks, PD_25_HO_07_AClearedGradientHasNoHistory) {
  Tape t;
  Tensor x = t.leaf(2);
  auto cube = [&] { return t.mul(t.mul(x, x), x); };
  t.backward({cube()}, {.createGraph = true});
  cantFail(t.im.clearGrad(x));
  EXPECT_FALSE(x.grad().isTracked());
  t.backward({cube()}, {.createGraph = true});
  const Tensor first = x.grad();
  EXPECT_EQ(scalar(first), 12);
  cantFail(t.im.setGrad(x, Tensor()));
  t.backward({first});
  EXPECT_EQ(t.gradOf(x), (Doubles{12}));
}

TEST(ImperativeMarks, E_18_ATensorIsNotItsOwnGradient) {
  Tape t;
  Tensor x = t.leaf(3);
  for (const Tensor &same : {x, t.im.detach(x)}) {
    EXPECT_EQ(t.rowOf(t.im.setGrad(x, same)), "E-18");
    EXPECT_EQ(t.rowOf(t.im.mark(x, Request::Write, same)), "E-18");
  }
  t.backward({t.times(x, "2")});
  EXPECT_EQ(scalar(x), 3);
  EXPECT_EQ(t.gradOf(x), (Doubles{2}));
  const Tensor none = t.value({0}, {});
  EXPECT_EQ(t.rowOf(t.im.mark(none, Request::Write, none)), "E-18");
}

TEST(ImperativeMarks, AGG_13_AGradientThatATapeKeepsIsNotOverwritten) {
  Tape t;
  Tensor x = t.leaf(3);
  t.backward({t("square", {x})});
  Tensor g = x.grad();  // 6
  Tensor y = t.mul(g, x);
  t.backward({t("square", {x})});  // adds to what y keeps
  EXPECT_EQ(scalar(g), 12);
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), 18);
}

// A mark that was switched off gave its buffer away.
TEST(ImperativeMarks, E_18_REQ_09_ABufferThatAnotherMarkHasMeanwhile) {
  Tape t;
  Tensor a = t.value(3), b = t.value(5), buffer = t.value(100);
  cantFail(t.im.mark(a, Request::Add, buffer));
  cantFail(t.im.requireGrad(a, false));
  EXPECT_EQ(t.rowOf(t.im.mark(b, Request::Write, buffer)), "success");
  EXPECT_EQ(t.rowOf(t.im.requireGrad(a)), "E-18");
  EXPECT_FALSE(a.isTracked());
  cantFail(t.im.mark(b, Request::Add, buffer));
  EXPECT_EQ(t.rowOf(t.im.requireGrad(a)), "success");
  RecordScope record(t.im);
  t.backward({t.mul(a, b)});
  EXPECT_EQ(scalar(buffer), 108);
  // Now it is the other one that may not write alone.
  EXPECT_EQ(t.rowOf(t.im.mark(b, Request::Write, buffer)), "E-18");
}

}  // namespace
}  // namespace gradc
