// The team of threads: loops, regions as oneDNN opens them, barriers, nesting, callers side by side.
#include "runtime/kernels/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier();
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
}

namespace gradc {
namespace {

TEST(Threads, LoopVisitsEveryElementOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u})
    for (int64_t size : {1, 5, 1000, 5000}) {
      std::vector<int> visits(static_cast<size_t>(size), 0);
      parallelFor(threads, size, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(size), 1)) << threads << " threads, size " << size;
    }
}

TEST(Threads, PiecesDependOnSizeAndThreadsAlone) {
  auto pieces = [](unsigned threads) {
    std::vector<std::atomic<int64_t>> endOf(4000);
    parallelFor(threads, 4000, 1, [&](int64_t begin, int64_t end) { endOf[static_cast<size_t>(begin)] = end; });
    return std::vector<int64_t>(endOf.begin(), endOf.end());
  };
  const std::vector<int64_t> first = pieces(3);
  EXPECT_EQ(std::accumulate(first.begin(), first.end(), int64_t{0}, [](int64_t n, int64_t end) { return n + (end != 0); }), 3);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(pieces(3), first);
}

TEST(Threads, SmallLoopStaysOnTheCaller) {
  const std::thread::id caller = std::this_thread::get_id();
  parallelFor(4, 10, 10, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 10);
  });
}

TEST(Threads, ScopeSaysHowManyThreadsThereAre) {
  EXPECT_GE(availableThreads(), 1u);
  EXPECT_EQ(omp_get_max_threads(), 1);
  {
    ThreadScope outer(3);
    EXPECT_EQ(omp_get_max_threads(), 3);
    EXPECT_EQ(scopeThreads(), 3u);
    ThreadScope inner(2);
    EXPECT_EQ(omp_get_max_threads(), 2);
  }
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_EQ(omp_in_parallel(), 0);
}

struct Region {
  std::atomic<int> seen[8] = {};
  std::atomic<int> arrived{0}, early{0};
};

TEST(Threads, RegionHasTheThreadsAskedFor) {
  for (int round = 0; round < 200; ++round) {
    const unsigned size = 1 + static_cast<unsigned>(round) % 5;
    Region region;
    GOMP_parallel(
        [](void *data) {
          Region &r = *static_cast<Region *>(data);
          ++r.seen[omp_get_thread_num()];
          EXPECT_EQ(omp_in_parallel(), omp_get_num_threads() > 1);
        },
        &region, size, 0);
    for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(region.seen[i], i < size) << "thread " << i << " of " << size;
  }
}

TEST(Threads, NobodyPassesABarrierBeforeAllAreThere) {
  Region region;
  GOMP_parallel(
      [](void *data) {
        Region &r = *static_cast<Region *>(data);
        for (int round = 1; round <= 100; ++round) {
          ++r.arrived;
          GOMP_barrier();
          if (r.arrived < round * 4) ++r.early;
          GOMP_barrier();
        }
      },
      &region, 4, 0);
  EXPECT_EQ(region.early, 0);
  EXPECT_EQ(region.arrived, 400);
}

// Pauses longer than a thread looks before it sleeps.
TEST(Threads, SleepingThreadsAreWokenUp) {
  static constexpr std::chrono::microseconds kPause(300);
  Region region;
  for (int round = 1; round <= 30; ++round) {
    std::this_thread::sleep_for(kPause);  // the workers wait for a region
    GOMP_parallel(
        [](void *data) {
          Region &r = *static_cast<Region *>(data);
          const int expected = r.arrived / 3 * 3 + 3;
          GOMP_barrier();
          if (omp_get_thread_num() == 1) std::this_thread::sleep_for(kPause);  // the others wait at the barrier
          ++r.arrived;
          GOMP_barrier();
          if (r.arrived != expected) ++r.early;
          if (omp_get_thread_num() == 2) std::this_thread::sleep_for(kPause);  // the caller waits for the end
        },
        &region, 3, 0);
  }
  EXPECT_EQ(region.early, 0);
  EXPECT_EQ(region.arrived, 90);
}

TEST(Threads, WorkInsideOfWorkHasOneThread) {
  std::atomic<int> calls{0};
  parallelFor(2, 2, 1, [&](int64_t, int64_t) {
    EXPECT_EQ(scopeThreads(), 1u);
    const std::thread::id self = std::this_thread::get_id();
    parallelFor(4, 4, 1, [&](int64_t begin, int64_t end) {
      ++calls;
      EXPECT_EQ(end - begin, 4);
      EXPECT_EQ(std::this_thread::get_id(), self);
    });
    const int before = omp_get_thread_num();
    GOMP_parallel([](void *) { EXPECT_EQ(omp_get_num_threads(), 1); }, nullptr, 3, 0);
    EXPECT_EQ(omp_get_thread_num(), before);
    EXPECT_EQ(omp_get_num_threads(), 2);
  });
  EXPECT_EQ(calls, 2);
}

TEST(Threads, CallersSideBySideGetTheirOwnResults) {
  std::vector<int64_t> sums(3, 0);
  std::vector<std::thread> callers;
  for (int64_t c = 0; c < 3; ++c)
    callers.emplace_back([&sums, c] {
      for (int round = 0; round < 100; ++round) {
        std::atomic<int64_t> sum{0};
        parallelFor(3, 100, 1, [&](int64_t begin, int64_t end) { sum += (end - begin) * (c + 1); });
        sums[static_cast<size_t>(c)] += sum;
      }
    });
  for (std::thread &caller : callers) caller.join();
  EXPECT_EQ(sums, (std::vector<int64_t>{10000, 20000, 30000}));
}

}  // namespace
}  // namespace gradc
