// Calls, records and gradients of tensors.
#include "imperative/imperative.h"

#include "tests/support/runs/imperative.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;
using Floats = std::vector<float>;

TEST(Imperative, TheExampleOfTheDocumentation) {
  Context context;
  registerBuiltinOps(context.ops);
  const Floats xs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, ws = {0.1f, 0.2f, -0.3f, 0.4f, -0.5f, 0.6f};
  Imperative im(context, ImperativeOptions());
  Tensor x = im.tensor({4, 3}, xs), w = im.tensor({2, 3}, ws), b = im.zeros({2}, DType::Float32);
  im.attachGrad(w, Request::Write);
  Kind dense = cantFail(im.kind("FullyConnected", {{"num_hidden", "2"}}));
  Kind square = cantFail(im.kind("square", {})), sum = cantFail(im.kind("sum", {}));
  Kind sgd = cantFail(im.kind("_scheduled_sgd_update", {}));
  Tensor lr = im.full({1}, 0.0001f);
  auto loss = [&]() -> Expected<Tensor> {
    RecordScope record(im, {.isTraining = true});
    Expected<Tensor> y = im.call(dense, {x, w, b});
    if (!y || !(y = im.call(square, {*y}))) return y;
    return im.call(sum, {*y});
  };
  auto train = [&]() -> Error {
    for (int step = 0; step < 100; ++step) {
      Expected<Tensor> value = loss();
      if (!value) return value.takeError();
      if (Error error = im.backward({*value}, BackwardOptions())) return error;
      NoGradScope quiet(im);
      if (Error error = im.callInto(sgd, {w, w.grad(), lr}, {w})) return error;
    }
    return Error::success();
  };
  const float before = cantFail(loss()).values<float>()[0];
  cantFail(train());
  EXPECT_EQ(im.cacheStats().misses, 1u);
  EXPECT_EQ(im.cacheStats().hits, 99u);
  EXPECT_LT(cantFail(loss()).values<float>()[0], before / 2);
  EXPECT_EQ(w.version(), 100u);
  Expected<Graph> graph = im.graphOf({cantFail(loss())});
  ASSERT_TRUE(static_cast<bool>(graph)) << toString(graph.takeError());
  EXPECT_EQ(graph->numNodes(), 6u);
}

TEST(Imperative, TA_01_RET_01_E_20_SecondBackwardOverReleasedValues) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor y = t.mul(x, x);
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), 6);
  const GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::HistoryCleared);
  EXPECT_NE(error.message.find("call 1 of operator 'elemwise_mul'"), std::string::npos) << error.message;
  EXPECT_NE(error.notes[0].text.find("retain on the first call"), std::string::npos);
  EXPECT_EQ(scalar(x.grad()), 6);
}

TEST(Imperative, TA_02_RET_02_RetainRepeats) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor y = t.mul(x, x);
  t.backward({y}, {.retain = true});
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), 12);
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-20");
}

TEST(Imperative, TA_03_P_07_StrictUnlessLenient) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor y = t.plus(x, "1");
  t.backward({y});
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-20");
  Tensor u = t.leaf(3), v = t.plus(u, "1");
  const BackwardOptions lenient{.secondBackward = SecondBackward::Lenient};
  t.backward({v}, lenient);
  t.backward({v}, lenient);
  EXPECT_EQ(scalar(u.grad()), 2);
  Tensor w = t.leaf(3), z = t.mul(w, w);
  t.backward({z}, lenient);
  EXPECT_EQ(t.rowOf(t.im.backward({z}, lenient)), "E-20");
}

TEST(Imperative, TA_04_GradientsAccumulate) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  t.backward({t.sum(t.times(x, "2"))});
  Tensor first = x.grad();
  t.backward({t.sum(t.times(x, "3"))});
  EXPECT_EQ(doublesOf(first), (Doubles{5, 5}));
  EXPECT_EQ(x.grad(), first);
  Tensor z = t.leaf({2}, {1, 2});
  t.backward({t.sum(t("square", {z}))});
  Tensor before = z.grad();
  t.backward({t.sum(t("square", {z}))}, {.createGraph = true});
  EXPECT_EQ(doublesOf(before), (Doubles{2, 4}));
  EXPECT_EQ(t.gradOf(z), (Doubles{4, 8}));
  EXPECT_FALSE(z.grad() == before);
  // Its history refers to z.
  cantFail(t.im.setGrad(z, Tensor()));
}

TEST(Imperative, TA_11_TA_12_TA_13_TA_14_Inputs) {
  Tape t;
  Tensor x = t.leaf(2), y = t.leaf(3);
  const Tensor onlyX[] = {x};
  t.backward({t.add(t.mul(x, y), x)}, {.inputs = Tensors(onlyX)});
  EXPECT_EQ(scalar(x.grad()), 4);
  EXPECT_FALSE(y.grad());
  Tensor u = t.leaf(2), a = t.times(u, "3"), b = t.mul(a, a);
  const Tensor onlyA[] = {a};
  t.backward({b}, {.retain = true, .inputs = Tensors(onlyA)});
  EXPECT_EQ(scalar(a.grad()), 12);
  EXPECT_FALSE(u.grad());
  // It can be replaced, set to zero and taken away, like that of a leaf.
  cantFail(t.im.setGrad(a, t.value(1)));
  t.backward({t.mul(a, a)}, {.retain = true, .inputs = Tensors(onlyA)});
  EXPECT_EQ(scalar(a.grad()), 13);
  cantFail(t.im.clearGrad(a));
  EXPECT_EQ(scalar(a.grad()), 0);
  cantFail(t.im.setGrad(a, Tensor()));
  EXPECT_FALSE(a.grad());
  EXPECT_EQ(t.rowOf(t.im.setGrad(a, Tensor())), "E-06");
  const GradcError none = errorOf(t.im.backward({t.mul(x, x)}, {.inputs = Tensors()}));
  EXPECT_EQ(errorRow(none.kind), "E-07");
  EXPECT_EQ(none.message, "no tensor to differentiate with respect to (inputs): the list is empty");
  Tensor v = t.leaf(2);
  const Tensor twice[] = {v, v};
  t.backward({t.mul(v, v)}, {.inputs = Tensors(twice)});
  EXPECT_EQ(scalar(v.grad()), 4);
  Tensor s = t.mul(v, v);
  std::vector<Tensor> both = t.grad({s}, {v, v});
  EXPECT_EQ(scalar(both[0]), 4);
  EXPECT_EQ(scalar(both[1]), 4);
  EXPECT_FALSE(both[0].sharesMemoryWith(both[1]));
}

TEST(Imperative, TA_15_H_06_OneRootTwice) {
  Tape t;
  Tensor x = t.leaf(2), y = t.times(x, "3");
  const Tensor heads[] = {t.value(1), t.value(10)};
  t.backward({y, y}, {.heads = heads});
  EXPECT_EQ(scalar(x.grad()), 33);
}

TEST(Imperative, TA_16_E_03_E_04_E_37_E_38_E_39_BadCalls) {
  Tape t;
  Tensor plain = t.value(1);
  const GradcError untracked = errorOf(t.im.backward({t.mul(plain, plain)}, {}));
  EXPECT_EQ(untracked.kind, ErrorKind::NoGraph);
  ASSERT_EQ(untracked.notes.size(), 2u);
  EXPECT_NE(untracked.notes[0].text.find("RecordScope"), std::string::npos);
  EXPECT_NE(untracked.notes[1].text.find("retain"), std::string::npos);
  Tensor x = t.leaf({2}, {1, 2}), y = t.times(x, "2");
  const Tensor wide = t.value({3}, {1, 1, 1}), narrow = t.im.tensor({2}, std::vector<float>{1, 1});
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {.heads = wide})), "E-38");
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {.heads = narrow})), "E-39");
  EXPECT_EQ(t.rowOf(t.im.backward({y, y}, {.heads = y})), "E-37");
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {.headPolicy = HeadPolicy::Scalar})), "E-03");
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {.headPolicy = HeadPolicy::Required})), "E-36");
  EXPECT_EQ(t.rowOf(t.im.backward({}, {})), "E-36");
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 2}));
}

TEST(Imperative, TA_17_H_05_SeveralRoots) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), y = t.leaf({2}, {3, 4});
  const Tensor heads[] = {t.value({2}, {1, 1}), t.value({2}, {2, 2})};
  t.backward({t.mul(x, y), t.add(x, y)}, {.heads = heads});
  EXPECT_EQ(t.gradOf(x), (Doubles{5, 6}));
  EXPECT_EQ(t.gradOf(y), (Doubles{3, 4}));
}

TEST(Imperative, TA_18_H_10_E_05_RootsWithoutGradientAreSkipped) {
  Tape t;
  Tensor x = t.leaf(1), c = t.value(1);
  t.backward({t.times(x, "2"), t.times(c, "2")});
  EXPECT_EQ(scalar(x.grad()), 2);
  EXPECT_EQ(t.rowOf(t.im.backward({c, t.times(c, "2")}, {})), "E-05");
}

TEST(Imperative, TA_19_TA_30_H_08_RootsThatDependOnEachOther) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  Tensor y = t("square", {x}), z = t.mul(t.mul(y, y), y);
  t.backward({y, z});
  EXPECT_EQ(t.gradOf(x), (Doubles{8, 196}));
  Tensor a = t.leaf(1), b = t.leaf(1);
  Tensor c = t.add(a, b), d = t.add(c, c), e = t.add(d, d);
  t.backward({e, c, d});
  EXPECT_EQ(scalar(a.grad()), 7);
  EXPECT_EQ(scalar(b.grad()), 7);
}

TEST(Imperative, TA_20_KeepsTheOutputItReads) {
  Tape t;
  Tensor x = t.leaf({2, 2}, {1, 2, 3, 5});
  Tensor y;
  {
    // Both outputs are seen, the positions are what the gradient reads: the values go at once.
    llvm::SmallVector<Tensor, 2> top = t.all("topk", {x}, {{"k", "1"}, {"axis", "1"}, {"ret_typ", "both"}});
    y = t.times(top[0], "3");
  }
  const Tensor others = t.value({2, 1}, {7, 7}), more = t.value({2, 1}, {8, 8});  // in memory that was free
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{0, 3, 0, 3}));
  // One of two outputs is kept: of dropout the mask, after the output was dropped.
  TrainScope training(t.im);
  Tensor z = t.leaf({64}, Doubles(64, 1)), loss;
  Doubles kept;
  {
    const Tensor dropped = t("Dropout", {z}, {{"p", "0.5"}});
    kept = doublesOf(dropped);
    loss = t.sum(dropped);
  }
  const Tensor taken = t.value({64}, Doubles(64, 9));
  t.backward({loss});
  EXPECT_EQ(t.gradOf(z), kept);
}

TEST(Imperative, TA_21_DeepHistory) {
  Tape t;
  for (bool isDropped : {true, false}) {
    Tensor x = t.leaf(1), one = t.value(1);
    Tensor y = x;
    for (int i = 0; i < 150000; ++i) y = t.add(y, one);
    if (isDropped) continue;
    t.backward({y});
    EXPECT_EQ(scalar(x.grad()), 1);
  }
}

TEST(Imperative, TA_22_DeepHistoryWithManyReaders) {
  Tape t;
  Tensor x = t.leaf(1);
  std::vector<Tensor> values = {x};
  uint64_t random = 1;
  constexpr StringRef third = "0.3333333333333333";  // the last value and two random earlier ones
  for (int i = 0; i < 100000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const Tensor &a = values[(random >> 33) % values.size()], &b = values[(random >> 13 & 0xfffff) % values.size()];
    const Tensor before = values.back(), both = t.add(a, b);
    // Whichever operand is first, so that a walk also meets early calls before late ones.
    values.push_back(t.times(i % 2 ? t.add(both, before) : t.add(before, both), third));
  }
  Tensor last = values.back();
  t.backward({last}, {.retain = true});
  EXPECT_NEAR(scalar(x.grad()), 1, 1e-9);
  // Without a backward that clears it call by call, the history goes with the last tensor that leads to it.
  values.clear();
  last = Tensor();
  EXPECT_EQ(t.im.memoryStats().pool.keptBytes, 0u);
}

// How many tensors' bytes a recorded call alone keeps.
TEST(Imperative, TA_23_RC_04_KeepsWhatTheGradientReads) {
  const int64_t kSize = 8192;
  Tape t;
  auto inUse = [&] {
    const PoolStats stats = t.im.memoryStats().pool;
    return stats.systemBytes - stats.cachedBytes;
  };
  auto keeps = [&](StringRef op, bool isSecondTracked, bool isUnary) {
    t("sum", {t.im.zeros({kSize}, DType::Float64)});
    const size_t before = inUse();
    Tensor sum;
    {
      Tensor w = t.im.zeros({kSize}, DType::Float64), x = t.im.zeros({kSize}, DType::Float64);
      cantFail(t.im.requireGrad(w));
      if (isSecondTracked) cantFail(t.im.requireGrad(x));
      sum = t("sum", {isUnary ? t(op, {w}) : t(op, {x, w})});
    }
    return (inUse() - before) / (kSize * sizeof(double));
  };
  EXPECT_EQ(keeps("elemwise_mul", false, false), 1u);
  EXPECT_EQ(keeps("elemwise_mul", true, false), 2u);
  EXPECT_EQ(keeps("elemwise_add", true, false), 0u);
  EXPECT_EQ(keeps("exp", false, true), 1u);
  // Which one is kept: x, as only w needs a gradient.
  Tensor w = t.leaf(2), x = t.value(3), y = t.mul(x, w);
  NoGradScope quiet(t.im);
  cantFail(t.into("_mul_scalar", {w}, {w}, {{"scalar", "7"}}));
  t.backward({y}, {.retain = true});
  EXPECT_EQ(scalar(w.grad()), 3);
  cantFail(t.into("_mul_scalar", {x}, {x}, {{"scalar", "7"}}));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
}

TEST(Imperative, TA_24_KeptValuesGoBackAsTheyAreRead) {
  Tape t;
  const int64_t size = 1 << 17;  // 1 MiB
  auto large = [&] { return t.im.zeros({size}, DType::Float64); };
  Tensor x = large();
  cantFail(t.im.requireGrad(x));
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = t("tanh", {y});
  const size_t forward = t.im.memoryStats().pool.peakBytes;
  t.backward({y});
  EXPECT_LE(t.im.memoryStats().pool.peakBytes, forward + (size_t{3} << 20));
}

// The gradients of 25 leaves take the room of values that are not needed any more.
TEST(Imperative, TA_24_RC_06_GradientsTakeTheRoomOfKeptValues) {
  Tape t;
  const int64_t size = 1 << 17;  // 1 MiB
  std::vector<Tensor> leaves;
  Tensor y = t.im.zeros({size}, DType::Float64);
  for (int i = 0; i < 25; ++i) {
    leaves.push_back(t.im.zeros({size}, DType::Float64));
    cantFail(t.im.requireGrad(leaves.back()));
    y = t("tanh", {t.add(y, leaves.back())});
  }
  const size_t forward = t.im.memoryStats().pool.peakBytes;
  t.backward({y});
  EXPECT_LE(t.im.memoryStats().pool.peakBytes, forward + (size_t{5} << 20));
}

TEST(Imperative, TA_25_UnusedOutputsAndUntrackedOnes) {
  Tape t;
  Tensor x = t.leaf({3}, {1, 1, 1});
  llvm::SmallVector<Tensor, 2> parts = t.all("SliceChannel", {x}, {{"num_outputs", "3"}, {"axis", "0"}});
  t.backward({t.times(parts[0], "2")});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 0, 0}));
  EXPECT_FALSE(t("argmax_channel", {t.times(t.leaf({1, 3}, {1, 1, 1}), "2")}).isTracked());
  // Where MXNet gives zeros, argmax is tracked.
  Tensor u = t.leaf({3}, {1, 3, 2}), position = t("argmax", {t.times(u, "2")}, {{"axis", "0"}});
  EXPECT_EQ(doublesOf(position), (Doubles{1}));
  EXPECT_TRUE(position.isTracked());
  t.backward({position});
  EXPECT_EQ(t.gradOf(u), (Doubles{0, 0, 0}));
  Tensor z = t.leaf({2}, {1, 2});
  t.backward({t.sum(t.times(z, "0"))});
  EXPECT_EQ(t.gradOf(z), (Doubles{0, 0}));
}

TEST(Imperative, TA_26_RET_03_TwoLossesOnOneTrunk) {
  Tape t;
  Tensor x = t.leaf(3), trunk = t("square", {x});
  Tensor a = t.times(trunk, "3"), b = t.times(trunk, "4");
  t.backward({a});
  const GradcError error = errorOf(t.im.backward({b}, {}));
  EXPECT_EQ(error.kind, ErrorKind::HistoryCleared);
  EXPECT_NE(error.message.find("call 1 of operator 'square'"), std::string::npos) << error.message;
  EXPECT_NE(error.notes[0].text.find("retain on the first call"), std::string::npos);
  Tensor u = t.leaf(3), v = t.plus(u, "1");
  Tensor c = t.times(v, "3"), d = t.times(v, "4");
  const BackwardOptions lenient{.secondBackward = SecondBackward::Lenient};
  t.backward({c}, lenient);
  t.backward({d}, lenient);
  EXPECT_EQ(scalar(u.grad()), 7);
}

TEST(Imperative, PD_14_RET_02_TrunkRetainedOnTheFirstCall) {
  Tape t;
  Tensor x = t.leaf(3), trunk = t("square", {x});
  t.backward({t.times(trunk, "3")}, {.retain = true});
  t.backward({t.times(trunk, "4")});
  EXPECT_EQ(scalar(x.grad()), 42);
}

TEST(Imperative, TA_29_EmptyTensors) {
  Tape t;
  Tensor x = t.leaf({0}, {});
  t.backward({t.sum(t.times(x, "2"))});
  ASSERT_TRUE(static_cast<bool>(x.grad()));
  EXPECT_EQ(x.grad().size(), 0);
  Tensor alone = t.leaf({0}, {});  // nothing runs
  t.backward({t.times(alone, "2")});
  ASSERT_TRUE(static_cast<bool>(alone.grad()));
  EXPECT_EQ(alone.grad().size(), 0);
}

TEST(Imperative, TA_31_H_12_TheHeadIsNotTakenOver) {
  Tape t;
  for (bool createGraph : {false, true})
    for (StringRef op : {"_copy", "Flatten"}) {
      Tensor x = t.leaf({2, 2}, {1, 2, 3, 4}), y = t(op, {x});
      const Tensor head = t.value(y.shape(), {1, 1, 1, 1});
      const std::vector<Tensor> own = t.grad({y}, {y}, {.heads = head, .retain = true, .createGraph = createGraph});
      EXPECT_FALSE(own[0].sharesMemoryWith(head)) << op.str();
      t.backward({y}, {.heads = head, .createGraph = createGraph});
      EXPECT_EQ(t.gradOf(x), (Doubles{1, 1, 1, 1}));
      EXPECT_FALSE(x.grad().sharesMemoryWith(head)) << op.str();
    }
}

TEST(Imperative, RET_05_ErrorsLeaveEverythingAsItWas) {
  Tape t;
  Tensor x = t.leaf(3), y = t.mul(x, x);
  t.backward({y}, {.retain = true});
  Tensor other = t.leaf(1);
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {other}, {})), "E-01");
  EXPECT_EQ(scalar(x.grad()), 6);
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), 12);
}

TEST(Imperative, E_44_TensorsOfTwoImperatives) {
  Tape t, other;
  Tensor x = t.leaf(1), foreign = other.leaf(1);
  EXPECT_EQ(t.rowOf(t.attempt("elemwise_add", {x, foreign})), "E-44");
  EXPECT_EQ(t.rowOf(t.im.grad({t.mul(x, x)}, {foreign}, {})), "E-44");
  EXPECT_EQ(t.rowOf(t.im.backward({foreign}, {})), "E-44");
  EXPECT_EQ(t.rowOf(t.attempt("elemwise_add", {x, Tensor()})), "E-14");
  EXPECT_EQ(t.rowOf(t.attempt("elemwise_add", {x})), "E-42");
}

TEST(Imperative, TensorsOutliveTheirImperative) {
  Tensor kept;
  {
    Tape t;
    Tensor x = t.leaf({2}, {1, 2});
    kept = t.mul(x, x);
  }
  EXPECT_EQ(doublesOf(kept), (Doubles{1, 4}));
  EXPECT_EQ(kept.shape(), Dims({2}));
}

}  // namespace
}  // namespace gradc
