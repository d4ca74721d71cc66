// Calls and backwards that fail half-way leave everything as it was (RET-05).
#include "imperative/imperative.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "tests/support/runs/fail_each.h"
#include "tests/support/runs/imperative.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::failingHeap;
using testing::FailingHeap;
using testing::scalar;
using testing::Tape;

// ---- an operator of the host whose gradient fails when it is told to

enum class Fault { None, Left, Thrown };
Fault fault = Fault::None;

void copyOrFail(const KernelCall &call) {
  if (fault == Fault::Left) {
    *call.failure = Failure(ErrorKind::Io, "the host refuses");
    return;
  }
  if (fault == Fault::Thrown) throw KernelError{"the host throws"};
  std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
}

constinit const OpDef kFragileGradient = {
    .name = "_backward_fragile", .inputs = {"dy"}, .shape = shapes::same, .kernel = copyOrFail};
constinit const OpDef kFragile = {
    .name = "fragile",
    .inputs = {"data"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kFragileGradient, {g.dy(0)})); },
    .kernel = [](const KernelCall &call) { std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes()); },
};

struct FragileTape : Tape {
  FragileTape() {
    cantFail(context.ops.add(kFragile));
    cantFail(context.ops.add(kFragileGradient));
  }
};

// The values of `exp` and of both squares are read before the host's operator fails, those behind it not.
TEST(ImperativeFailures, RET_05_AKernelOfTheHostThatFailsHalfWay) {
  for (Fault how : {Fault::Left, Fault::Thrown})
    for (bool createGraph : {false, true}) {
      FragileTape t;
      Tensor x = t.leaf({2}, {1, 0.5});
      Tensor y = t.sum(t("square", {t("exp", {t("fragile", {t("square", {x})})})}));
      t.backward({y}, {.retain = true});
      const Doubles once = t.gradOf(x);
      const size_t kept = t.im.memoryStats().pool.keptBytes;
      ASSERT_GT(kept, 0u);
      fault = how;
      const BackwardOptions options{.retain = false, .createGraph = createGraph};
      const GradcError error = errorOf(t.im.backward({y}, options));
      fault = Fault::None;
      EXPECT_EQ(error.message, how == Fault::Left ? "the host refuses" : "the host throws");
      EXPECT_EQ(t.gradOf(x), once);
      EXPECT_EQ(t.im.memoryStats().pool.keptBytes, kept);
      t.backward({y}, options);
      EXPECT_EQ(t.gradOf(x), (Doubles{2 * once[0], 2 * once[1]}));
      EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-20");
    }
}

// 0 · sqrt(x) at 0: the gradient of the product is 0, that of the root 0 · inf, after the value of `exp` was read.
TEST(ImperativeFailures, RET_05_HOOK_09_AnomalyModeEndsABackwardHalfWay) {
  Tape t;
  Tensor x = t.leaf(0);
  Tensor y = t("exp", {t.times(t("sqrt", {x}), "0")});
  {
    AnomalyScope anomaly(t.im);
    EXPECT_NE(t.rowOf(t.im.backward({y}, {})), "success");
  }
  EXPECT_FALSE(x.grad());
  t.backward({y});
  EXPECT_TRUE(std::isnan(scalar(x.grad())));
}

// A kernel that fails may have written half of its output: who kept what was there must not read it.
TEST(ImperativeFailures, E_31_AFailedWriteIsAWrite) {
  static constinit const OpDef kHalfway = {
      .name = "halfway", .inputs = {"data"}, .shape = shapes::same, .kernel = [](const KernelCall &call) {
        call.out[0].as<double>()[0] = 99;
        *call.failure = Failure(ErrorKind::Io, "left");
        throw KernelError{"thrown"};
      }};
  Tape t;
  cantFail(t.context.ops.add(kHalfway));
  Tensor x = t.leaf({2}, {1, 2}), y = t("square", {x});
  {
    NoGradScope quiet(t.im);
    EXPECT_EQ(errorOf(t.into("halfway", {t.value({2}, {0, 0})}, {x})).message, "thrown");
  }
  const GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
  EXPECT_NE(error.message.find("written by call 2 of operator 'halfway'"), std::string::npos) << error.message;
  // Nothing of the first failure is left.
  EXPECT_EQ(t.rowOf(t.attempt("square", {x})), "success");
}

// ---- functions of the host's operators, which run with the lock held

Tape *calledBack = nullptr;
enum class From { None, Check, Shape, Kernel, Rule, GradientKernel };
From callsFrom = From::None;

/// A call of the host that it may make anywhere but here.
Error callBack(From from) {
  if (from != callsFrom) return Error::success();
  return calledBack->im.kind("square", {}).takeError();
}
/// For functions that return nothing.
void callBackOrThrow(From from) {
  if (Error error = callBack(from)) throw KernelError{errorOf(std::move(error)).message, ErrorKind::BadCallback};
}
void copyAndCall(const KernelCall &call, From from) {
  std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
  if (Error error = callBack(from)) *call.failure = std::move(error);
}

constinit const OpDef kCallingGradient = {
    .name = "_backward_calling", .inputs = {"dy"}, .shape = shapes::same, .kernel = [](const KernelCall &call) {
      copyAndCall(call, From::GradientKernel);
    }};
constinit const OpDef kCalling = {
    .name = "calling",
    .inputs = {"data"},
    .check = [](const OpDef &, void *) -> Error { return callBack(From::Check); },
    .shape = [](ShapeInference &s) { callBackOrThrow(From::Shape), shapes::same(s); },
    .gradient = [](GradRule &g) { callBackOrThrow(From::Rule), g.dx(0, g.emit(kCallingGradient, {g.dy(0)})); },
    .kernel = [](const KernelCall &call) { copyAndCall(call, From::Kernel); },
};

TEST(ImperativeFailures, E_21_AFunctionOfTheHostsOperatorThatCallsBack) {
  for (From from : {From::Check, From::Shape, From::Kernel, From::Rule, From::GradientKernel}) {
    Tape t;
    for (const OpDef *op : {&kCalling, &kCallingGradient}) cantFail(t.context.ops.add(*op));
    const Tensor x = t.leaf({2}, {1, 2});
    calledBack = &t;
    auto step = [&]() -> Error {
      Expected<Kind> kind = t.im.kind("calling", {});
      if (!kind) return kind.takeError();
      Expected<Tensor> y = t.im.call(*kind, {x});
      if (!y) return y.takeError();
      return t.im.backward({*y}, {});
    };
    callsFrom = from;
    const GradcError error = errorOf(step());
    callsFrom = From::None;
    EXPECT_EQ(error.kind, ErrorKind::BadCallback) << static_cast<int>(from) << error.message;
    EXPECT_NE(error.message.find("calls the Imperative"), std::string::npos) << error.message;
    EXPECT_EQ(t.rowOf(step()), "success");
    EXPECT_EQ(t.gradOf(x), (Doubles{1, 1}));
  }
}

/// What the kernel below does with the Imperative that runs it; none of it may throw.
std::function<void()> insideKernel;
constinit const OpDef kLooking = {
    .name = "looking", .inputs = {"data"}, .shape = shapes::same, .kernel = [](const KernelCall &call) {
      std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
      insideKernel();
    }};

TEST(ImperativeFailures, E_21_EveryEntryInsideAKernelIsAnErrorAndNoException) {
  Tape t;
  cantFail(t.context.ops.add(kLooking));
  const Tensor x = t.leaf({2}, {1, 2}), y = t("square", {x});
  const Kind square = cantFail(t.im.kind("square", {}));
  const auto function = std::make_shared<Function>();
  function->forward = [](const FunctionContext &, Tensors in) -> Expected<TensorList> { return TensorList(in); };
  function->backward = [](const FunctionContext &, Tensors dy) -> Expected<TensorList> { return TensorList(dy); };
  const TensorHook hook = [](const Tensor &) -> Expected<Tensor> { return Tensor(); };
  std::vector<std::string> rows;
  insideKernel = [&] {
    rows = {t.rowOf(t.im.kind("exp", {})),
            t.rowOf(t.im.make({1}, DType::Float64)),
            t.rowOf(t.im.makeForeign(x.ref(), nullptr, nullptr)),
            t.rowOf(t.im.setName(x, "x")),
            t.rowOf(t.im.mark(x, Request::Add)),
            t.rowOf(t.im.requireGrad(x)),
            t.rowOf(t.im.retainGrad(y)),
            t.rowOf(t.im.dropGrad(x)),
            t.rowOf(t.im.setGrad(x, Tensor())),
            t.rowOf(t.im.clearGrad(x)),
            t.rowOf(t.im.call(square, {x})),
            t.rowOf(t.im.callAll(square, {x})),
            t.rowOf(t.im.callWith(std::make_shared<int>(1), square, {x})),
            t.rowOf(t.im.callInto(square, {x}, {y})),
            t.rowOf(t.im.apply(function, {x})),
            t.rowOf(t.im.willWrite(x)),
            t.rowOf(t.im.backward({y}, {})),
            t.rowOf(t.im.grad({y}, {x}, {})),
            t.rowOf(t.im.graphOf({y})),
            t.rowOf(t.im.addHook(x, hook)),
            t.rowOf(t.im.addPostAccumulateHook(x, hook))};
    EXPECT_FALSE(t.im.attachGrad(x, Request::Add));
    EXPECT_FALSE(t.im.detach(x));
    EXPECT_FALSE(t.im.zeros({1}, DType::Float64));
    EXPECT_FALSE(t.im.full({1}, 1.0));
    // Those that only look.
    EXPECT_FALSE(x.grad());
    EXPECT_EQ(x.name(), "");
    EXPECT_FALSE(x.isFresh());
    x.setFresh(false);
    EXPECT_EQ(x.gradRequest(), Request::Add);
    EXPECT_TRUE(x.isLeaf() && x.isTracked() && !y.isLeaf());
    EXPECT_EQ(t.im.cacheStats().hits, 0u);
    EXPECT_GT(t.im.memoryStats().totalBytes(), 0u);
    EXPECT_EQ(t.im.explainMiss(), "no lookup has missed");
  };
  EXPECT_EQ(testing::doublesOf(t("looking", {x})), (Doubles{1, 2}));
  EXPECT_EQ(rows, std::vector<std::string>(21, "E-21"));
  t.backward({y});
  EXPECT_EQ(t.gradOf(x), (Doubles{2, 4}));
}

// ---- memory

/// Whether `work` fails when its first allocation does; then it does nothing, and the next time it works.
template <class Work> bool failsWithoutMemory(Work work) {
  failingHeap.count = 0;
  failingHeap.failsAt = 1;
  failingHeap.failing = testing::Failing::Once;
  Error error = failingHeap.during(work);
  failingHeap.failsAt = FailingHeap::kNever;
  if (!error) return false;
  EXPECT_EQ(errorOf(std::move(error)).kind, ErrorKind::TooLarge);
  cantFail(work());
  return true;
}

// Whatever the pool has to take from the system, at that call or another: contents, the tensor, the node of the tape.
TEST(ImperativeFailures, RET_05_ACallWithoutMemoryIsAnError) {
  ASSERT_TRUE(testing::isInstalled);
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  for (bool isTracked : {false, true}) {
    Tape t;
    // 31 contents, 63 nodes and 126 tensors to a chunk of the pool.
    Tensor x = isTracked ? t.leaf({20}, Doubles(20, 1)) : t.value({20}, Doubles(20, 1));
    const Kind exp = cantFail(t.im.kind("exp", {}));
    std::vector<Tensor> made{cantFail(t.im.call(exp, {x}))};
    made.reserve(4000);
    int numFailed = 0;
    for (int i = 0; i < 3000; ++i)
      numFailed += failsWithoutMemory([&]() -> Error {
        Expected<Tensor> y = t.im.call(exp, {x});
        if (!y) return y.takeError();
        made.push_back(*y);
        return Error::success();
      });
    EXPECT_GE(numFailed, isTracked ? 30 : 20);
    for (const Tensor &y : made) ASSERT_TRUE(static_cast<bool>(y));
    if (isTracked) {
      EXPECT_EQ(t.rowOf(t.im.backward(made, {})), "success");
    }
  }
}

TEST(ImperativeFailures, RET_05_AnOutputThatIsNotThereIsNotWritten) {
  ASSERT_TRUE(testing::isInstalled);
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  ImperativeOptions options = Tape::referenceOptions();
  options.cachedBytes = 0;
  Tape t(options);
  const int64_t size = 1 << 18;
  Tensor x = t.value({size}, Doubles(size, 3)), into = t.value({size}, Doubles(size, 7));
  // A running sum may not be computed in place: it needs memory beside its target.
  const Kind cumsum = cantFail(t.im.kind("_np_cumsum", {{"axis", "0"}}));
  cantFail(t.im.call(cumsum, {x}));
  failingHeap.count = 0;
  failingHeap.failsAt = 1;
  Error error = failingHeap.during([&] { return t.im.callInto(cumsum, {into}, {into}); });
  failingHeap.failsAt = FailingHeap::kNever;
  EXPECT_EQ(errorOf(std::move(error)).kind, ErrorKind::TooLarge);
  EXPECT_EQ(into.version(), 0u);
  EXPECT_EQ(into.data<double>()[size - 1], 7);
}

}  // namespace
}  // namespace gradc
