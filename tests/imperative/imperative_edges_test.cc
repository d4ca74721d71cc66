// Limits, and what belongs to somebody else: nothing of that breaks a tape.
#include "imperative/engine.h"

#include "ir/graph/graph_builder.h"
#include "ir/rules/inference.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/test_graph.h"

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(ImperativeEdges, TheKernelThatIsAboutToRunIsNotDropped) {
  for (size_t maxKernels : {0, 1}) {
    ImperativeOptions options;
    options.maxKernels = maxKernels;
    Tape t(options);
    for (int round = 0; round < 4; ++round)
      for (int64_t width : {3, 4, 5}) {
        const Tensor x = t.im.full({2, width}, 1.0f), w = t.im.full({4, width}, 0.5f);
        const Tensor y = t("FullyConnected", {x, w}, {{"num_hidden", "4"}, {"no_bias", "True"}});
        EXPECT_EQ(y.values<float>().vec(), std::vector<float>(8, static_cast<float>(width) / 2));
        EXPECT_LE(t.im.memoryStats().numKernels, 1u);
      }
  }
}

TEST(ImperativeEdges, E_44_KindsAndMemoryOfAnotherImperative) {
  Tape t, other;
  Tensor x = other.value({2}, {1, 2});
  EXPECT_FALSE(t.im.detach(x));
  EXPECT_FALSE(t.im.detach(Tensor()));
  for (const Kind &kind : {Kind(), cantFail(other.im.kind("exp", {}))}) {
    EXPECT_EQ(t.rowOf(t.im.call(kind, {t.value(1)})), "E-44");
    EXPECT_EQ(t.rowOf(t.im.callAll(kind, {t.value(1)})), "E-44");
    EXPECT_EQ(t.rowOf(t.im.callWith(nullptr, kind, {t.value(1)})), "E-44");
    EXPECT_EQ(t.rowOf(t.im.callInto(kind, {t.value(1)}, {t.value(1)})), "E-44");
  }
}

// A handle may outlive its Imperative, whose memory another one may take over.
TEST(ImperativeEdges, E_44_AKindOfAnImperativeThatIsGone) {
  Kind old;
  for (int round = 0; round < 3; ++round) {
    Tape t;
    const Kind square = cantFail(t.im.kind("square", {}));
    EXPECT_EQ(square, cantFail(t.im.kind("square", {})));
    if (round) {
      EXPECT_EQ(t.rowOf(t.im.call(old, {t.value(3)})), "E-44");
    }
    EXPECT_EQ(scalar(cantFail(t.im.call(square, {t.value(3)}))), 9);
    old = square;
  }
}

// What a file may have, because another program reads it, is a mistake in a call.
TEST(ImperativeEdges, AnAttributeThatTheOperatorDoesNotHave) {
  Tape t;
  const GradcError close = errorOf(t.im.kind("sum", {{"axes", "0"}}).takeError());
  EXPECT_EQ(close.kind, ErrorKind::BadAttribute);
  EXPECT_EQ(close.message, "operator 'sum' has no attribute 'axes'");
  ASSERT_EQ(close.notes.size(), 1u);
  EXPECT_EQ(close.notes[0].text, "did you mean 'axis'?");
  EXPECT_EQ(errorOf(t.im.kind("_mul_scalar", {{"value", "3"}}).takeError()).notes[0].text, "it has scalar, is_int");
  EXPECT_EQ(errorOf(t.im.kind("exp", {{"x", "3"}}).takeError()).notes[0].text, "it has none");
  EXPECT_TRUE(static_cast<bool>(t.im.kind("exp", {{"__ctx_group__", "a"}})));
  const OpDef &exp = *t.context.ops.find("exp");
  const KindRef ofFile = cantFail(t.context.kind(exp, t.context.attrs({{"x", "3"}})));
  EXPECT_EQ(scalar(cantFail(t.im.call(cantFail(t.im.kind(ofFile)), {t.value(0)}))), 1);
}

TEST(ImperativeEdges, ElementsOfAnotherType) {
  Tape t;
  const Tensor x = t.value({2}, {1.875, 2}), none = x.grad();
  EXPECT_EQ(x.data<double>()[0], 1.875);
  EXPECT_EQ(x.data<float>(), nullptr);
  EXPECT_TRUE(x.values<float>().empty());
  EXPECT_EQ(none.data<double>(), nullptr);
  EXPECT_TRUE(none.values<double>().empty());
  EXPECT_EQ(cantFail(x.read<double>()).size(), 2u);
  EXPECT_EQ(errorOf(x.read<float>().takeError()).message, "a tensor (2,) float64 is read as float32");
  EXPECT_EQ(errorOf(none.read<float>().takeError()).message, "there is no tensor to read");
}

// The lists of options hold their tensors: these are gone at the end of their line.
TEST(ImperativeEdges, OptionsHoldTheirTensors) {
  Tape t;
  const Tensor x = t.leaf({2}, {3, 3}), y = t("square", {x});
  auto reuse = [&] {
    std::vector<Tensor> noise;
    for (int i = 0; i < 8; ++i) noise.push_back(t.value({2}, {77, 77}));
  };
  BackwardOptions options{.heads = {t.value({2}, {10, 10})}};
  options.inputs = {t.leaf({2}, {1, 1}), x};
  reuse();
  t.backward({y}, {.heads = options.heads, .retain = true});
  EXPECT_EQ(t.gradOf(x), (Doubles{60, 60}));
  GradOptions asked;
  asked.heads = {t.value({2}, {1, 10})};
  asked.noGrad = {t.value({2}, {0, 0})};
  reuse();
  EXPECT_EQ(doublesOf(t.grad({y}, {x}, asked)[0]), (Doubles{6, 60}));
}

// A leaf and its recorded gradient hold each other; a leak checker sees it where they are not let go.
TEST(ImperativeEdges, TheEndTakesTheHistoryOfRecordedGradients) {
  Tensor made, given;
  {
    Tape t;
    const Tensor x = t.leaf(3), y = t.leaf(5);
    for (int round = 0; round < 40; ++round) t.backward({t.mul(x, x)}, {.createGraph = true});  // added up
    made = x.grad();
    given = t.mul(y, y);
    cantFail(t.im.setGrad(y, given));
    EXPECT_FALSE(made.isLeaf() || given.isLeaf());
  }
  EXPECT_TRUE(made.isLeaf() && !made.isTracked());
  EXPECT_TRUE(given.isLeaf() && !given.isTracked());
  EXPECT_EQ(scalar(made), 240);
  EXPECT_EQ(scalar(given), 25);
}

// The number of a backward is 0 after 2^32 of them, as it is in new calls.
TEST(ImperativeEdges, BackwardsAreCountedRound) {
  Tape t;
  Tensor x = t.leaf(3);
  t.im.internals().epoch = 0xfffffffe;
  for (int i = 1; i <= 4; ++i) {
    t.backward({t.mul(x, x)});
    EXPECT_EQ(scalar(x.grad()), 6 * i);
    EXPECT_EQ(t.rowOf(t.im.graphOf({t.mul(x, x)})), "success");
  }
}

TEST(ImperativeEdges, ABufferThatIsMarkedEachStepCostsOnce) {
  Tape t;
  Tensor x = t.value(1), buffer = t.value(0);
  for (int step = 0; step < 100; ++step) cantFail(t.im.mark(x, Request::Write, buffer));
  EXPECT_EQ(t.im.internals().bufferMarks.size(), 1u);
  EXPECT_EQ(t.rowOf(t.im.mark(t.value(1), Request::Write, buffer)), "E-18");
  // Those of tensors that are gone go in turn.
  for (int step = 0; step < 1000; ++step) {
    Tensor passing = t.value(1);
    cantFail(t.im.mark(passing, Request::Write, t.value(0)));
  }
  EXPECT_LE(t.im.internals().bufferMarks.size(), 32u);
  // And so do those that add to a buffer that stays.
  const Tensor sum = t.value(0);
  for (int step = 0; step < 1000; ++step) cantFail(t.im.mark(t.value(1), Request::Add, sum));
  EXPECT_LE(t.im.internals().bufferMarks.size(), 32u);
  cantFail(t.im.dropGrad(x));
  cantFail(t.im.mark(t.value(1), Request::Write, buffer));
}

// Sixteen times the tensors take sixteen times as long, not 256 times.
TEST(ImperativeEdges, ManyUnusedTargetsAreNumberedInLinearTime) {
  Tape t;
  Tensor x = t.leaf(1), y = t.times(x, "2");
  GradOptions options;
  options.retain = true;
  options.unused = UnusedPolicy::None;
  // So many that neither number stays in the caches.
  expectLinear(16000, [&](uint32_t number) {
    std::vector<Tensor> xs{x};
    for (uint32_t i = 0; i < number; ++i) xs.push_back(t.leaf(1));
    return secondsOf([&] { EXPECT_EQ(scalar(t.grad({y}, xs, options)[0]), 2); });
  });
}

// The inner run of a structure that is under way has a plan of its own, which is kept for the next time.
TEST(ImperativeEdges, ARunInsideOfItselfIsCompiledOnce) {
  Tape t;
  Tensor x = t.leaf(3);
  int depth = 0;
  std::function<Error()> run = [&]() -> Error {
    EnableGradScope enable(t.im);
    Tensor y = t.mul(x, x);
    return t.im.backward({y}, {});
  };
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    if (depth == 2) return Tensor();
    ++depth;
    Error error = run();
    --depth;
    if (error) return error;
    return Tensor();
  }));
  for (int step = 0; step < 3; ++step) cantFail(run());
  EXPECT_EQ(t.im.cacheStats().misses, 3u);
  EXPECT_EQ(t.im.cacheStats().hits, 6u);
  EXPECT_EQ(scalar(x.grad()), 3 * 3 * 6);
}

// A strict backward cuts the history: going on as if it ended there would lose x's gradient.
TEST(ImperativeEdges, TA_03_P_07_E_20_LenientAfterStrict) {
  Tape t;
  Tensor x = t.leaf(3), z = t.leaf(5), trunk = t.plus(x, "1");
  t.backward({trunk});
  const BackwardOptions lenient{.secondBackward = SecondBackward::Lenient};
  EXPECT_EQ(t.rowOf(t.im.backward({t.add(trunk, z)}, lenient)), "E-20");
  EXPECT_FALSE(z.grad());
}

TEST(ImperativeEdges, ArgumentsThatAreNotThere) {
  Tape t;
  EXPECT_FALSE(t.im.tensor({3}, std::vector<float>{}));
  EXPECT_TRUE(static_cast<bool>(t.im.tensor({0}, std::vector<float>{})));
  const int64_t none[] = {0}, two[] = {2};
  EXPECT_EQ(t.rowOf(t.im.makeForeign({nullptr, DType::Float32, two}, nullptr, nullptr)), "E-71");
  EXPECT_EQ(t.rowOf(t.im.makeForeign({nullptr, DType::Float32, none}, nullptr, nullptr)), "success");
  EXPECT_EQ(t.rowOf(t.into("exp", {t.value(1)}, {})), "E-42");
  EXPECT_EQ(t.rowOf(t.im.call(cantFail(t.im.kind(KindRef())), {t.value(1)})), "E-44");
}

// The second call finds the signature that the first one made.
TEST(ImperativeEdges, E_32_AKernelThatCannotBePreparedFailsEveryTime) {
  Tape t;
  static constinit const OpDef kNoKernel = {.name = "no_kernel", .inputs = {"data"}, .shape = shapes::same};
  cantFail(t.context.ops.add(kNoKernel));
  GraphBuilder builder(t.context);
  const Value x = builder.addVariable("x", Attrs());
  const KindRef inside = cantFail(t.context.kind(kNoKernel, Attrs()));
  const Graph body = cantFail(std::move(builder).freeze({Value{builder.addKind(inside, {x}, NodeId())}}, {})).graph;
  const AttrText attrs[] = {{"num_args", "2"},       {"num_outputs", "1"},    {"num_out_data", "1"},
                            {"in_state_locs", "[]"}, {"in_data_locs", "[0]"}, {"remain_locs", "[]"}};
  Expected<KindRef> loop = t.context.kind(*t.context.ops.find("_foreach"), t.context.attrs(attrs), {body});
  ASSERT_TRUE(static_cast<bool>(loop)) << toString(loop.takeError());
  const Tensor rows = t.value({2, 1}, {1, 2});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(t.rowOf(t.im.callAll(cantFail(t.im.kind(*loop)), {rows})), "E-32");
}

TEST(ImperativeEdges, ForeignMemoryIsReleasedOnceAndNotAfterAnError) {
  Tape t;
  alignas(8) char bytes[64] = {};
  int numReleased = 0;
  auto release = [](void *count) { ++*static_cast<int *>(count); };
  const int64_t dims[] = {2};
  EXPECT_EQ(t.rowOf(t.im.makeForeign({bytes + 1, DType::Float32, dims}, release, &numReleased)), "E-71");
  EXPECT_EQ(numReleased, 0);
  { Tensor x = cantFail(t.im.makeForeign({bytes, DType::Float32, dims}, release, &numReleased)); }
  EXPECT_EQ(numReleased, 1);
  InferenceScope inference(t.im);
  Tensor y = cantFail(t.im.makeForeign({bytes, DType::Float64, dims}, release, &numReleased)), w = t.leaf({2}, {1, 2});
  EnableGradScope enable(t.im);
  EXPECT_EQ(t.rowOf(t.attempt("elemwise_mul", {y, w})), "E-31");
}

TEST(ImperativeEdges, REG_19_BadAttributesNameTheOperator) {
  Tape t;
  const GradcError missing = errorOf(t.im.kind("FullyConnected", {}).takeError());
  EXPECT_EQ(missing.message,
            "required attribute 'num_hidden' is missing in operator FullyConnected(name=\"FullyConnected\")");
  const GradcError bad = errorOf(t.im.kind("sum", {{"axis", "x"}, {"keepdims", "1"}}).takeError());
  EXPECT_NE(bad.message.find(" in operator sum(name=\"sum\", axis=\"x\", keepdims=\"1\")"), std::string::npos)
      << bad.message;
}

TEST(ImperativeEdges, E_50_ErrorsOfCallsNameTheCallAndItsSite) {
  Tape t;
  const Tensor a = t.leaf({2}, {1, 2}), b = t.leaf({3}, {1, 2, 3});
  t.mul(a, a);
  const Kind add = cantFail(t.im.kind("elemwise_add", {}));
  const GradcError error = errorOf(t.im.call(add, {a, b}, CallSite{"model.cc", 12}).takeError());
  EXPECT_EQ(error.kind, ErrorKind::InferConflict);
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_EQ(error.notes[0].text, "in call 2 of operator 'elemwise_add' at model.cc:12");
  const GradcError missing = errorOf(t.im.call(add, {a, Tensor()}, CallSite{"model.cc", 13}).takeError());
  ASSERT_EQ(missing.notes.size(), 1u);
  EXPECT_EQ(missing.notes[0].text, "in call 2 of operator 'elemwise_add' at model.cc:13");
}

}  // namespace
}  // namespace gradc
