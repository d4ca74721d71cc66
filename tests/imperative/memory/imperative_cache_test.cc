// What is found in the cache of compiled backwards, what a steady step costs, and threads.
#include "imperative/engine.h"
#include "tests/support/runs/imperative.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

using namespace llvm;

namespace {

thread_local bool isCounting = false;
thread_local size_t numAllocations = 0;

}  // namespace

// Of this test program.
[[gnu::noinline]] void *operator new(size_t bytes) {
  if (isCounting) ++numAllocations;
  if (void *at = std::malloc(bytes ? bytes : 1)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void *at, size_t) noexcept { std::free(at); }

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

TEST(ImperativeCache, TheSameStructureIsCompiledOnce) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  auto step = [&](StringRef factor) { t.backward({t.sum(t.times(t("square", {x}), factor))}); };
  for (int i = 0; i < 5; ++i) step("2");
  EXPECT_EQ(t.im.cacheStats().misses, 1u);
  EXPECT_EQ(t.im.cacheStats().hits, 4u);
  step("3");  // an attribute is part of the structure
  EXPECT_EQ(t.im.cacheStats().misses, 2u);
}

// Numbers that change are inputs.
TEST(ImperativeCache, ChangingNumbersMissNothing) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  for (int i = 0; i < 100; ++i) {
    Tensor factor = t.value(i);
    t.backward({t.sum(t("broadcast_mul", {x, factor}))});
  }
  EXPECT_EQ(t.im.cacheStats().misses, 1u);
  EXPECT_EQ(t.gradOf(x), (Doubles{4950, 4950}));
}

// Structures that differ in one thing each.
TEST(ImperativeCache, RUN_02_WholeKeysAreCompared) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), y = t.leaf({2}, {3, 4}), c = t.value({2}, {5, 6});
  auto expect = [&](Doubles expected, Tensors ys, Tensors xs, const GradOptions &options = {}) {
    const uint64_t misses = t.im.cacheStats().misses;
    EXPECT_EQ(doublesOf(t.grad(ys, xs, options)[0]), expected);
    EXPECT_EQ(t.im.cacheStats().misses, misses + 1);
  };
  expect({3, 4}, {t.mul(x, y)}, {x});
  expect({1, 2}, {t.mul(x, y)}, {y});
  expect({1, 2}, {t.mul(y, x)}, {y, x});
  expect({5, 6}, {t.mul(x, c)}, {x});  // c is not tracked
  expect({2, 4}, {t.mul(x, x)}, {x});
  expect({30, 40}, {t.mul(x, y)}, {x}, {.heads = t.value({2}, {10, 10})});
  expect({6, 8}, {t.mul(x, y), t.mul(x, y)}, {x});
  Tensor wide = t.leaf({3}, {1, 2, 3});
  expect({2, 4, 6}, {t.mul(wide, wide)}, {wide});
  expect({1, 1}, {x}, {x});
  expect({1, 1, 1}, {wide}, {wide});
}

TEST(ImperativeCache, TheCacheIsBounded) {
  ImperativeOptions options = Tape::referenceOptions();
  options.planBytes = 1 << 16;
  Tape t(options);
  Tensor x = t.leaf(1);
  for (int length = 1; length <= 60; ++length) {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = t.plus(y, "1");
    t.backward({y});
  }
  EXPECT_EQ(scalar(x.grad()), 60);
  EXPECT_LE(t.im.cacheStats().bytes, options.planBytes);
  EXPECT_LT(t.im.cacheStats().entries, 60u);
  EXPECT_GE(t.im.cacheStats().entries, 1u);
}

// A plan of which a graph is wanted later becomes larger.
TEST(ImperativeCache, TheCacheIsBoundedWhereItsPlansGrow) {
  ImperativeOptions options = Tape::referenceOptions();
  options.planBytes = 1 << 16;
  Tape t(options);
  Tensor x = t.leaf(2);
  for (int length = 1; length <= 30; ++length)
    for (bool createsGraph : {false, true}) {
      Tensor y = x;
      for (int i = 0; i < length; ++i) y = t.mul(y, x);
      GradOptions asked;
      asked.createGraph = createsGraph;
      t.grad({y}, {x}, asked);
      EXPECT_TRUE(t.im.cacheStats().bytes <= options.planBytes || t.im.cacheStats().entries == 1) << length;
    }
}

TEST(ImperativeCache, ExplainMissNamesTheFirstDifference) {
  Tape t;
  Tensor x = t.leaf(2);
  t.backward({t.plus(t("square", {x}), "1")});
  t.backward({t.plus(t("exp", {x}), "1")});
  EXPECT_EQ(t.im.explainMiss(), "call 1 of 2 is operator 'exp' on (1,) float64, in the nearest entry 'square' on (1,) "
                                "float64");
}

// oneDNN apart, which the reference backend does not use.
TEST(ImperativeCache, ASteadyStepAllocatesNothing) {
  Tape t;
  Tensor x = t.leaf({8}, Doubles(8, 0.5));
  const Kind mul = cantFail(t.im.kind("elemwise_mul", {})), add = cantFail(t.im.kind("elemwise_add", {})),
             tanh = cantFail(t.im.kind("tanh", {}));
  auto step = [&] {
    Tensor y = x;
    for (int i = 0; i < 20; ++i) {
      y = cantFail(t.im.call(mul, {y, x}));
      y = cantFail(t.im.call(add, {y, x}));
      y = cantFail(t.im.call(tanh, {y}));
    }
    cantFail(t.im.backward({y}, {}));
  };
  for (int i = 0; i < 3; ++i) step();
  numAllocations = 0;
  isCounting = true;
  for (int i = 0; i < 10; ++i) step();
  isCounting = false;
  EXPECT_EQ(numAllocations, 0u);
  const size_t bytes = t.im.memoryStats().pool.systemBytes;
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(t.im.memoryStats().pool.systemBytes, bytes);
}

TEST(ImperativeCache, PreparedKernelsAreBounded) {
  ImperativeOptions options;
  options.maxKernels = 10;
  Tape t(options);
  for (int round = 0; round < 2; ++round)
    for (int64_t size = 1; size <= 50; ++size) {
      Tensor x = t.leaf({size}, Doubles(static_cast<size_t>(size), 2));
      EXPECT_EQ(doublesOf(t("tanh", {x})).size(), static_cast<size_t>(size));
    }
  EXPECT_LE(t.im.memoryStats().numKernels, 10u);
}

TEST(ImperativeThreads, TA_84_OneLeafManyThreads) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2});
  const Kind square = cantFail(t.im.kind("square", {})), sum = cantFail(t.im.kind("sum", {}));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, own = x] {
      for (int k = 0; k < 50; ++k)
        cantFail(t.im.backward({cantFail(t.im.call(sum, {cantFail(t.im.call(square, {own}))}))}, {}));
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(t.gradOf(x), (Doubles{800, 1600}));
}

TEST(ImperativeThreads, TA_86_TA_87_RecordHereDifferentiateThere) {
  Tape t;
  Tensor x = t.leaf(3);
  const Kind mul = cantFail(t.im.kind("elemwise_mul", {}));
  constexpr int kRounds = 10000;
  for (int i = 0; i < kRounds; ++i) {
    Tensor y = cantFail(t.im.call(mul, {x, x}));
    std::thread([&t, y = std::move(y)]() mutable {
      EXPECT_EQ(Tape::rowOf(t.im.backward({y}, {})), "success");
      EXPECT_EQ(Tape::rowOf(t.im.backward({y}, {})), "E-20");
    }).join();
  }
  EXPECT_EQ(scalar(x.grad()), 6 * kRounds);
}

TEST(ImperativeThreads, TensorsEndInAnyThread) {
  Tape t;
  Tensor x = t.leaf({16}, Doubles(16, 1));
  for (int round = 0; round < 20; ++round) {
    std::vector<Tensor> made;
    for (int i = 0; i < 50; ++i) made.push_back(t("exp", {x}));
    std::thread other([made = std::move(made)]() mutable { made.clear(); });
    for (int i = 0; i < 50; ++i) t("exp", {x});
    other.join();
  }
  const PoolStats stats = t.im.memoryStats().pool;
  EXPECT_LT(stats.systemBytes, size_t{1} << 20);
}

TEST(ImperativeStorage, ClassesHoldWhatTheyAreAskedFor) {
  for (size_t bytes = 0; bytes < (size_t{1} << 20); bytes += bytes / 7 + 1) {
    const uint8_t sizeClass = Store::classOf(bytes);
    EXPECT_GE(Store::classBytes(sizeClass), bytes);
    EXPECT_LE(Store::classBytes(sizeClass), std::max<size_t>(64, bytes + bytes / 4 + 64));
    EXPECT_EQ(Store::classOf(Store::classBytes(sizeClass)), sizeClass);
  }
  EXPECT_LT(Store::classOf(static_cast<size_t>(kMaxTensorBytes) + sizeof(Storage)), 168);
}

TEST(ImperativeStorage, LargeBlocksGoBackBeyondTheBound) {
  ImperativeOptions options;
  options.cachedBytes = size_t{8} << 20;
  Tape t(options);
  {
    std::vector<Tensor> large;
    for (int i = 0; i < 10; ++i) large.push_back(t.im.zeros({1 << 19}, DType::Float64));  // 4 MiB
    EXPECT_GE(t.im.memoryStats().pool.systemBytes, size_t{40} << 20);
  }
  EXPECT_LE(t.im.memoryStats().pool.systemBytes, size_t{16} << 20);
}

}  // namespace
}  // namespace gradc
