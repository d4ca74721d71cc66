// Backwards inside of backwards, deeper than a stack (TA-81). GRADC_TAPE_DEPTH says how deep.
#include "imperative/deep_stack.h"
#include "imperative/engine.h"
#include "tests/support/host_functions.h"

#include <cstdlib>

using namespace llvm;

namespace gradc {
namespace {

using testing::apply;
using testing::identity;
using testing::scalar;
using testing::Tape;

int depthFrom(const char *variable, int otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::atoi(text) : otherwise;
}

TEST(ImperativeDeep, TA_81_FunctionsWhoseGradientsRunBackwards) {
  const int depth = depthFrom("GRADC_TAPE_DEPTH", 10000);
  Tape t;
  int innermost = 0;
  std::function<Expected<Tensor>(int)> gradientAt = [&](int level) -> Expected<Tensor> {
    EnableGradScope enable(t.im);
    Tensor x = t.leaf(1);
    auto f = identity(t, [&, level](const FunctionContext &, Tensors dy) -> Expected<TensorList> {
      innermost = std::max(innermost, level);
      if (level == depth) return TensorList{dy[0]};
      Expected<Tensor> inner = gradientAt(level + 1);
      if (!inner) return inner.takeError();
      return TensorList{t.mul(dy[0], *inner)};
    });
    if (Error error = t.im.backward({apply(t, f, {x})[0]}, {})) return error;
    return x.grad();
  };
  EXPECT_EQ(scalar(cantFail(gradientAt(0))), 1);
  EXPECT_EQ(innermost, depth);
  EXPECT_EQ(t.im.cacheStats().misses, static_cast<uint64_t>(depth) + 1);
  // What is kept for later is bounded.
  EXPECT_LE(t.im.internals().spare.size(), 16u);
  EXPECT_LE(t.im.memoryStats().planBytes, size_t{64} << 20);
  EXPECT_EQ(scalar(cantFail(gradientAt(depth - 3))), 1);
}

TEST(ImperativeDeep, TA_81_HooksThatRunGrad) {
  const int depth = depthFrom("GRADC_TAPE_DEPTH", 10000) / 10;
  Tape t;
  int level = 0;
  Tensor x = t.leaf(3);
  cantFail(t.im.addHook(x, [&](const Tensor &) -> Expected<Tensor> {
    if (level == depth) return Tensor();
    ++level;
    EnableGradScope enable(t.im);
    Expected<std::vector<Tensor>> inner = t.im.grad({t.mul(x, x)}, {x}, {});
    if (!inner) return inner.takeError();
    return (*inner)[0];
  }));
  EXPECT_EQ(scalar(t.grad({t.mul(x, x)}, {x})[0]), 6);
  EXPECT_EQ(level, depth);
}

// What the host throws, and what it returns, comes back over the border of stacks.
TEST(ImperativeDeep, TA_81_ErrorsOfTheInnermostRun) {
  Tape t;
  for (bool throws : {false, true}) {
    int level = 0;
    std::function<Error()> run = [&]() -> Error {
      return withRoomOnStack([&]() -> Error {
        volatile char room[2000] = {};
        room[0] = room[1];
        if (++level < 20000) return run();
        if (throws) throw 7;
        return Failure(ErrorKind::Io, "boom");
      });
    };
    if (throws) EXPECT_THROW(cantFail(run()), int);
    else EXPECT_EQ(errorOf(run()).message, "boom");
    EXPECT_EQ(level, 20000);
  }
}

// Each leaf is the gradient of the next.
TEST(ImperativeDeep, TA_21_LeavesThatAreGradientsOfOneAnother) {
  Tape t;
  {
    Tensor last = t.leaf(1);
    for (int i = 0; i < 200000; ++i) {
      Tensor x = t.leaf(1);
      cantFail(t.im.setGrad(x, last));
      last = x;
    }
  }
  EXPECT_EQ(t.im.memoryStats().pool.leafBytes, 0u);
}

}  // namespace
}  // namespace gradc
