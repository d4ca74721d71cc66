// Scopes, versions and leaves.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

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

// scope × mark → recorded?, form: the table of imperative/tape/modes.h.
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
  ASSERT_EQ(error.notes.size(), 2u);  // the other one names the call
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

// As in PyTorch, where a view of a leaf is refused; views of computed tensors are recorded there, here they are
// refused.
TEST(ImperativeModes, TA_38_TA_39_MUT_04_NoWriteIsRebasedThatOthersWouldSee) {
  ImperativeOptions options = Tape::referenceOptions();
  options.inplace = InplacePolicy::Rebase;
  Tape t(options);
  Tensor x = t.leaf({2}, {1, 2}), view = t("Reshape", {x}, {{"shape", "(1,2)"}});
  EXPECT_EQ(t.rowOf(t.into("_mul_scalar", {view}, {view}, {{"scalar", "5"}})), "E-19");
  EXPECT_EQ(doublesOf(x), (Doubles{1, 2}));
  Tensor y = t.times(x, "2"), other = t("Reshape", {y}, {{"shape", "(1,2)"}});
  EXPECT_EQ(t.rowOf(t.into("_mul_scalar", {y}, {y}, {{"scalar", "5"}})), "E-19");
  EXPECT_EQ(doublesOf(other), (Doubles{2, 4}));
  other = Tensor();
  cantFail(t.into("_mul_scalar", {y}, {y}, {{"scalar", "5"}}));
  // An input that a call overwrites besides its outputs would keep its history.
  const Tensor w = t.value({2}, {1, 1});
  EXPECT_EQ(t.rowOf(t.attempt("sgd_mom_update", {w, w, y}, {{"lr", "0.1"}, {"momentum", "0.9"}})), "E-19");
  EXPECT_EQ(doublesOf(y), (Doubles{10, 20}));
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{10, 10}));
}

// PyTorch copies it, too.
TEST(ImperativeModes, TA_39_WhatACallKeepsAndOverwritesIsCopied) {
  for (bool createGraph : {false, true}) {
    ImperativeOptions options = Tape::referenceOptions();
    options.inplace = InplacePolicy::Rebase;
    Tape t(options);
    Tensor x = t.leaf(3), w = t.leaf(5), c = t.value(4), y = t.times(x, "2");
    cantFail(t.into("elemwise_mul", {y, w}, {y}));
    cantFail(t.into("elemwise_mul", {y, y}, {y}));  // (2xw)²
    cantFail(t.into("elemwise_mul", {c, w}, {c}));  // 4w
    EXPECT_EQ(scalar(y), 900);
    EXPECT_EQ(t.rowOf(t.im.graphOf({y, c})), "success");
    // Others read w where it is.
    const Tensor sum = t.add(t.add(y, c), t.mul(x, w));
    const std::vector<Tensor> gradients = t.grad({sum}, {x, w}, {.createGraph = createGraph});
    EXPECT_EQ(scalar(gradients[0]), 605);
    EXPECT_EQ(scalar(gradients[1]), 367);
    if (createGraph) {
      EXPECT_EQ(scalar(t.grad({gradients[0]}, {w})[0]), 241);
    }
  }
}

TEST(ImperativeModes, TA_39_TA_54_MarksFollowARebasedTensor) {
  ImperativeOptions options = Tape::referenceOptions();
  options.inplace = InplacePolicy::Rebase;
  Tape t(options);
  Tensor x = t.leaf(3), y = t.times(x, "2");
  Doubles seen;
  auto note = [&](const Tensor &gradient) -> Expected<Tensor> {
    seen.push_back(scalar(gradient));
    return Tensor();
  };
  cantFail(t.im.retainGrad(y));
  cantFail(t.im.addHook(y, note));
  cantFail(t.into("_mul_scalar", {y}, {y}, {{"scalar", "10"}}));
  cantFail(t.im.addHook(y, note));
  t.backward({t.times(y, "7")});
  EXPECT_EQ(scalar(y.grad()), 7);
  EXPECT_EQ(scalar(x.grad()), 140);
  EXPECT_EQ(seen, (Doubles{7, 7}));
  // Untracked from here on.
  Tensor z = t.times(x, "2");
  cantFail(t.im.retainGrad(z));
  cantFail(t.into("_copy", {t.value(1)}, {z}));
  EXPECT_FALSE(z.isTracked());
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
