// Scopes, versions, leaves and marks.
#include "imperative/imperative.h"
#include "tests/support/imperative.h"

#include <thread>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

TEST(ImperativeModes, TA_32_NoGradAndEnableGrad) {
  Tape t;
  Tensor x = t.leaf(1);
  EXPECT_TRUE(t.times(x, "2").isTracked());
  NoGradScope quiet(t.im);
  EXPECT_FALSE(t.times(x, "2").isTracked());
  {
    EnableGradScope loud(t.im);
    EXPECT_TRUE(t.times(x, "2").isTracked());
    PauseScope pause(t.im);
    EXPECT_FALSE(t.times(x, "2").isTracked());
  }
  EXPECT_FALSE(t.times(x, "2").isTracked());
}

// scope × mark → recorded?, form: the table of imperative/modes.h.
TEST(ImperativeModes, MA_09_ScopesMarksAndForms) {
  Tape t;
  Tensor required = t.leaf(1), attached = t.value(1);
  cantFail(t.im.mark(attached, Request::Write));
  auto expect = [&](bool isRequired, bool isAttached, bool isTraining) {
    EXPECT_EQ(t.times(required, "2").isTracked(), isRequired);
    EXPECT_EQ(t.times(attached, "2").isTracked(), isAttached);
    EXPECT_EQ(modesOf(t.im).isTraining, isTraining);
  };
  expect(true, false, false);
  {
    RecordScope record(t.im);
    expect(true, true, true);
    {
      PauseScope pause(t.im);
      expect(false, false, false);
      EnableGradScope enable(t.im);
      expect(true, false, false);
    }
    {
      EnableGradScope enable(t.im);
      PredictScope predict(t.im);
      expect(true, true, false);
      NoGradScope quiet(t.im);
      TrainScope train(t.im);
      expect(false, false, true);
    }
    expect(true, true, true);
    RecordScope predict(t.im, {.isTraining = false});
    expect(true, true, false);
  }
  expect(true, false, false);
  InferenceScope inference(t.im);
  expect(false, false, false);
}

TEST(ImperativeModes, TA_85_ModesBelongToTheThreadAndTheImperative) {
  Tape t, other;
  RecordScope record(t.im);
  EXPECT_EQ(modesOf(t.im).recording, Recording::On);
  EXPECT_EQ(modesOf(other.im).recording, Recording::ByLeaf);
  std::thread([&] { EXPECT_EQ(modesOf(t.im).recording, Recording::ByLeaf); }).join();
  NoGradScope quiet(other.im);
  EXPECT_EQ(modesOf(t.im).recording, Recording::On);
}

TEST(ImperativeModes, MA_03_MA_09_RET_08_TheFormIsThatOfTheCall) {
  Tape t;
  Tensor x = t.value({64}, Doubles(64, 1));
  cantFail(t.im.mark(x, Request::Write));
  Tensor y;
  {
    RecordScope record(t.im);
    y = t("Dropout", {x}, {{"p", "0.5"}});
  }
  const Doubles values = doublesOf(y);
  EXPECT_NE(values, Doubles(64, 1));
  t.backward({y});  // outside of the scope: in predict form
  EXPECT_EQ(t.gradOf(x), values);
  {
    RecordScope record(t.im, {.isTraining = false});
    y = t("Dropout", {x}, {{"p", "0.5"}});
  }
  EXPECT_EQ(doublesOf(y), Doubles(64, 1));
  TrainScope train(t.im);
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), Doubles(64, 1));
}

TEST(ImperativeModes, RET_08_BothFormsOnOneTape) {
  Tape t;
  Tensor x = t.value({64}, Doubles(64, 1));
  cantFail(t.im.mark(x, Request::Write));
  RecordScope record(t.im);
  Tensor trained = t("Dropout", {x}, {{"p", "0.5"}});
  PredictScope predict(t.im);
  Tensor plain = t("Dropout", {x}, {{"p", "0.5"}});
  t.backward({t.add(trained, plain)});
  Doubles expected = doublesOf(trained);
  for (double &value : expected) value += 1;
  EXPECT_EQ(t.gradOf(x), expected);
}

TEST(ImperativeModes, EveryDropoutDrawsAnew) {
  Tape t;
  TrainScope train(t.im);
  Tensor x = t.value({64}, Doubles(64, 1));
  EXPECT_NE(doublesOf(t("Dropout", {x}, {{"p", "0.5"}})), doublesOf(t("Dropout", {x}, {{"p", "0.5"}})));
}

TEST(ImperativeModes, TA_34_PD_17_E_31_StaleVersionNamesBothAndTheWriter) {
  Tape t;
  Tensor x = t.leaf(3);
  cantFail(t.im.setName(x, "x"));
  Tensor y = t.mul(x, x);
  {
    NoGradScope quiet(t.im);
    cantFail(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}}));
  }
  EXPECT_EQ(x.version(), 1u);
  EXPECT_EQ(scalar(x), 4);
  const GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
  EXPECT_EQ(error.message, "input 'lhs', 'x', of call 1 of operator 'elemwise_mul' was overwritten: its gradient needs "
                           "version 0, it is 1, written by call 2 of operator '_plus_scalar'");
  EXPECT_FALSE(x.grad());
}

TEST(ImperativeModes, TA_35_PD_17_WhatNobodyKeepsIsNotStale) {
  Tape t;
  Tensor x = t.leaf(3), y = t.add(x, x);
  {
    NoGradScope quiet(t.im);
    cantFail(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}}));
  }
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), 2);
  // Nor is what the gradient takes a shape from.
  Tensor u = t.leaf(3), v = t("broadcast_add", {u, t.value({2}, {1, 2})});
  t("broadcast_add", {t.times(u, "2"), v});
  EXPECT_EQ(t.im.memoryStats().pool.keptBytes, 0u);
  {
    NoGradScope quiet(t.im);
    cantFail(t.into("_plus_scalar", {u}, {u}, {{"scalar", "1"}}));
  }
  t.backward({v});
  EXPECT_EQ(scalar(u.grad()), 2);
  // Overwritten before it is kept.
  Tensor z = t.mul(x, x);
  t.backward({z});
  EXPECT_EQ(scalar(x.grad()), 10);
}

TEST(ImperativeModes, TA_36_OverwrittenOutput) {
  Tape t;
  Tensor x = t.leaf(1), y = t("exp", {x});
  NoGradScope quiet(t.im);
  cantFail(t.into("zeros_like", {y}, {y}));
  const GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
  EXPECT_NE(error.message.find("output 'output' of call 1 of operator 'exp'"), std::string::npos) << error.message;
}

TEST(ImperativeModes, TA_37_TA_40_PD_24_Detach) {
  Tape t;
  Tensor x = t.leaf(1), y = t("exp", {x}), d = t.im.detach(y);
  EXPECT_TRUE(d.sharesMemoryWith(y));
  EXPECT_FALSE(d.isTracked());
  EXPECT_EQ(t.rowOf(t.im.backward({d}, {})), "E-04");
  Tensor clone = t("_copy", {y});
  EXPECT_FALSE(clone.sharesMemoryWith(y));
  t.backward({clone}, {.retain = true});
  EXPECT_EQ(scalar(x.grad()), std::exp(1));
  cantFail(t.into("zeros_like", {d}, {d}));
  EXPECT_EQ(y.version(), 1u);
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
}

TEST(ImperativeModes, TA_38_TA_39_TA_47_MA_15_MUT_04_E_19_WritesWhileRecording) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  const GradcError error = errorOf(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}}));
  EXPECT_EQ(error.kind, ErrorKind::InplaceRecorded);
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_NE(error.notes[0].text.find("NoGradScope"), std::string::npos);
  EXPECT_NE(error.notes[0].text.find("detached"), std::string::npos);
  EXPECT_EQ(doublesOf(x), (Doubles{1, 2}));
  EXPECT_EQ(x.version(), 0u);
  EXPECT_EQ(t.rowOf(t.im.willWrite(x)), "E-19");
  Tensor y = t.times(x, "2");
  EXPECT_EQ(t.rowOf(t.into("_plus_scalar", {y}, {y}, {{"scalar", "1"}})), "E-19");
  EXPECT_EQ(doublesOf(y), (Doubles{2, 4}));
  Tensor plain = t.value({2}, {1, 2});
  cantFail(t.im.willWrite(plain));
  cantFail(t.into("_plus_scalar", {plain}, {plain}, {{"scalar", "1"}}));
  EXPECT_EQ(plain.version(), 2u);
  EXPECT_EQ(doublesOf(plain), (Doubles{2, 3}));
  // A leaf of attachGrad counts inside RecordScope alone.
  cantFail(t.im.mark(plain, Request::Write));
  cantFail(t.into("_plus_scalar", {plain}, {plain}, {{"scalar", "1"}}));
  RecordScope record(t.im);
  EXPECT_EQ(t.rowOf(t.into("_plus_scalar", {plain}, {plain}, {{"scalar", "1"}})), "E-19");
}

TEST(ImperativeModes, TA_38_TA_39_WritesAreRebasedOnRequest) {
  ImperativeOptions options = Tape::referenceOptions();
  options.inplace = InplacePolicy::Rebase;
  Tape t(options);
  Tensor x = t.leaf(3);
  EXPECT_EQ(t.rowOf(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}})), "E-19");
  Tensor y = t.times(x, "2");
  Tensor earlier = t.plus(y, "5");
  cantFail(t.into("_mul_scalar", {y}, {y}, {{"scalar", "10"}}));
  EXPECT_EQ(scalar(y), 60);
  t.backward({earlier}, {.retain = true});
  EXPECT_EQ(scalar(x.grad()), 2);
  t.backward({y}, {.retain = true});
  EXPECT_EQ(scalar(x.grad()), 22);
  Expected<Graph> graph = t.im.graphOf({y});
  ASSERT_TRUE(static_cast<bool>(graph));
  EXPECT_EQ(graph->numNodes(), 3u);
  EXPECT_TRUE(listInputs(*graph).aux.empty());
  // What an earlier reader kept is gone.
  Tensor z = t.times(x, "2"), square = t("square", {z});
  cantFail(t.into("_mul_scalar", {z}, {z}, {{"scalar", "10"}}));
  EXPECT_EQ(t.rowOf(t.im.backward({square}, {})), "E-31");
}

TEST(ImperativeModes, TA_41_TA_42_E_06_WhatCannotBeMarked) {
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

TEST(ImperativeModes, TA_43_AssignedGradients) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  EXPECT_EQ(t.rowOf(t.im.setGrad(x, t.value({3}, {1, 1, 1}))), "E-71");
  EXPECT_EQ(t.rowOf(t.im.setGrad(x, t.im.tensor({2}, std::vector<float>{1, 1}))), "E-71");
  cantFail(t.im.setGrad(x, t.value({2}, {1, 1})));
  t.backward({t.sum(t("square", {x}))});
  EXPECT_EQ(t.gradOf(x), (Doubles{3, 5}));
}

TEST(ImperativeModes, TA_44_InferenceMode) {
  Tape t;
  Tensor w = t.leaf(2), y;
  {
    InferenceScope inference(t.im);
    y = t.times(t.value(3), "1");
  }
  const GradcError error = errorOf(t.attempt("elemwise_mul", {y, w}));
  EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
  EXPECT_NE(error.message.find("made in inference mode: clone it"), std::string::npos) << error.message;
  t.backward({t.add(y, w)});
  EXPECT_EQ(scalar(w.grad()), 1);
  t.backward({t.mul(t("_copy", {y}), w)});
  EXPECT_EQ(scalar(w.grad()), 4);
}

TEST(ImperativeModes, TA_45_ForeignMemoryIsShared) {
  Tape t;
  double memory[] = {1, 2};
  int numReleased = 0;
  {
    const int64_t dims[] = {2};
    Tensor x = cantFail(t.im.makeForeign(
        {memory, DType::Float64, Dims(dims)}, [](void *count) { ++*static_cast<int *>(count); }, &numReleased));
    memory[0] = 5;
    EXPECT_EQ(doublesOf(x), (Doubles{5, 2}));
    cantFail(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}}));
    EXPECT_EQ(memory[1], 3);
    cantFail(t.im.requireGrad(x));
    EXPECT_EQ(t.rowOf(t.im.willWrite(x)), "E-19");
    cantFail(t.im.willWrite(t.im.detach(x)));
    Tensor y = t.sum(t("square", {x}));
    x = Tensor();
    EXPECT_EQ(numReleased, 0);
    t.backward({y});
  }
  EXPECT_EQ(numReleased, 1);
  const int64_t dims[] = {1};
  EXPECT_EQ(
      t.rowOf(t.im.makeForeign({reinterpret_cast<char *>(memory) + 4, DType::Float64, Dims(dims)}, nullptr, nullptr)),
      "E-71");
}

// The function takes the lock itself: it is called without.
TEST(ImperativeModes, ReleaseFunctionsRunWithoutTheLock) {
  Tape t;
  static Imperative *imperative = nullptr;
  static int numCalls = 0;
  imperative = &t.im;
  double memory[] = {3};
  const int64_t dims[] = {1};
  Tensor w = t.leaf(2), y;
  {
    Tensor x = cantFail(t.im.makeForeign(
        {memory, DType::Float64, Dims(dims)}, [](void *) { numCalls += imperative->memoryStats().numSignatures > 0; },
        nullptr));
    y = t.mul(x, w);
  }
  t.backward({y});  // keeps x, and lets go of it with the lock held
  EXPECT_EQ(numCalls, 1);
}

TEST(ImperativeModes, MA_04_H_02_GapsAmongHeads) {
  Tape t;
  Tensor x = t.leaf({3, 5}, Doubles(15, 1));
  llvm::SmallVector<Tensor, 2> parts =
      t.all("SliceChannel", {x}, {{"num_outputs", "3"}, {"axis", "0"}, {"squeeze_axis", "True"}});
  const Tensor heads[] = {Tensor(), t.value({5}, {1, 2, 3, 4, 5}), t.value({5}, {5, 4, 3, 2, 1})};
  t.backward(parts, {.heads = heads});
  EXPECT_EQ(t.gradOf(x), (Doubles{1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1}));
}

TEST(ImperativeModes, MA_05_MA_16_REQ_07_ASK_17_STOP_04_FreshFlags) {
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

TEST(ImperativeModes, MA_06_AddAccumulatesOverRetainedRuns) {
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

TEST(ImperativeModes, MA_07_E_16_E_17_NL_05_Marks) {
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

TEST(ImperativeModes, MA_08_NL_03_RetainedAndDroppedGradients) {
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

TEST(ImperativeModes, TA_54_NL_04_RetainGrad) {
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

TEST(ImperativeModes, MA_17_E_18_CallersBuffers) {
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

TEST(ImperativeModes, PD_25_ClearedGradients) {
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

TEST(ImperativeModes, AGG_13_AGradientThatATapeKeepsIsNotOverwritten) {
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

TEST(ImperativeModes, IdentityPairsShareMemory) {
  Tape t;
  Tensor x = t.leaf({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(t("Reshape", {x}, {{"shape", "(4,)"}}).sharesMemoryWith(x));
  EXPECT_TRUE(t("expand_dims", {x}, {{"axis", "0"}}).sharesMemoryWith(x));
  EXPECT_FALSE(t("_copy", {x}).sharesMemoryWith(x));
  t.backward({t.sum(t("square", {t("Flatten", {t("Reshape", {x}, {{"shape", "(4,)"}})})}))});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 4, 6, 8}));
}

TEST(ImperativeModes, OutputsMayBeInputs) {
  Tape t;
  Tensor a = t.value({2, 2}, {1, 2, 3, 4});
  cantFail(t.into("dot", {a, a}, {a}));  // not an operator that works in place
  EXPECT_EQ(doublesOf(a), (Doubles{7, 10, 15, 22}));
  EXPECT_EQ(t.rowOf(t.into("dot", {a, a}, {t.value({2}, {0, 0})})), "E-71");
}

}  // namespace
}  // namespace gradc
