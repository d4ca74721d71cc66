// Backwards inside of backwards, deeper than a stack (TA-81). GRADC_TAPE_DEPTH says how deep.
#include "imperative/plans/deep_stack.h"
#include "imperative/engine.h"
#include "tests/support/runs/host_functions.h"
#include "tests/support/sanitizers.h"

#include <cstdlib>
#include <fstream>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// Whether the page below the mapping of the stack that this runs on is protected.
bool isStackGuarded() {
  const char here = 0;
  const auto address = reinterpret_cast<uintptr_t>(&here);
  std::ifstream maps("/proc/self/maps");
  uintptr_t guardEnd = 0;
  for (std::string line; std::getline(maps, line);) {
    StringRef rest = line;
    uintptr_t begin = 0, end = 0;
    if (rest.consumeInteger(16, begin) || !rest.consume_front("-") || rest.consumeInteger(16, end)) return false;
    if (begin <= address && address < end) return guardEnd == begin || rest.ends_with("[stack]");
    if (rest.starts_with(" ---p")) guardEnd = end;
  }
  return false;
}

// In a child, which takes all mappings that the system allows but those of a few stacks. Where a stack can be mapped
// but not protected there must be an error; a death by a fault would be an overflow into a neighbour.
TEST(ImperativeDeep, TA_81_StacksThatCannotBeGuarded) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer has mappings of its own";
#endif
  for (int spare = 0; spare < 6; ++spare) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto page = static_cast<size_t>(getpagesize());
      std::vector<void *> holes;
      holes.reserve(1 << 18);
      // Every second page has another protection, so that no two mappings merge.
      for (int i = 0; i < 1 << 18; ++i) {
        void *const at = mmap(nullptr, page, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) break;
        holes.push_back(at);
      }
      for (int i = 0; i < spare && !holes.empty(); ++i) {
        munmap(holes.back(), page);
        holes.pop_back();
      }
      bool isGuarded = true;
      int refusals = 0;
      std::function<void(int)> descend = [&](int depth) {
        volatile char frame[size_t{100} << 10];
        frame[0] = 0;
        Error error = withRoomOnStack([&]() -> Error {
          const char inside = 0;
          const bool isOther = std::abs(&inside - const_cast<const char *>(frame)) > 1 << 20;
          isGuarded &= !isOther || isStackGuarded();
          if (depth < 400) descend(depth + 1);
          return Error::success();
        });
        refusals += error ? 1 : 0;
        consumeError(std::move(error));
      };
      descend(0);
      _exit(!isGuarded ? 1 : refusals == 1 ? 0 : 2);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "with " << spare << " mappings to spare";
  }
}

}  // namespace
}  // namespace gradc
