// Loops over OpenMP's threads, what of OpenMP belongs to the host, and how many processors there are.
#include "runtime/kernels/core/processors.h"
#include "runtime/kernels/core/threads.h"
#include "tests/support/sanitizers.h"
#include "tests/support/tensors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include <omp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

// The thread sanitizer does not see how OpenMP's threads wait for each other, and takes regions of the tests' own for
// races.
#ifdef GRADC_THREAD_SANITIZER
#define GRADC_OWN_REGION GTEST_SKIP() << "the thread sanitizer does not know OpenMP's waiting"
#else
#define GRADC_OWN_REGION static_cast<void>(0)
#endif

namespace gradc {
namespace {

int64_t sumOfSquares(unsigned threads, int64_t size) {
  std::atomic<int64_t> sum{0};
  parallelFor(threads, size, 1, [&](int64_t begin, int64_t end) {
    int64_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += i * i;
    sum += part;
  });
  return sum;
}

constexpr int64_t kSquaresBelow100 = 328350;

TEST(Threads, LoopVisitsEveryElementOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u, 17u})
    for (int64_t size : {0, 1, 5, 1000, 5000}) {
      std::vector<int> visits(static_cast<size_t>(size), 0);
      parallelFor(threads, size, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(size), 1)) << threads << " threads, size " << size;
    }
}

std::vector<int64_t> pieces(unsigned threads, int64_t size, int64_t grain) {
  std::vector<std::atomic<int64_t>> endOf(static_cast<size_t>(size));
  parallelFor(threads, size, grain, [&](int64_t begin, int64_t end) { endOf[static_cast<size_t>(begin)] = end; });
  return std::vector<int64_t>(endOf.begin(), endOf.end());
}

int64_t numPieces(unsigned threads, int64_t size, int64_t grain) {
  const std::vector<int64_t> ends = pieces(threads, size, grain);
  return static_cast<int64_t>(ends.size()) - std::count(ends.begin(), ends.end(), 0);
}

TEST(Threads, PiecesDependOnSizeAndThreadsAlone) {
  const std::vector<int64_t> first = pieces(3, 4000, 1);
  EXPECT_EQ(numPieces(3, 4000, 1), 3);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(pieces(3, 4000, 1), first);
}

TEST(Threads, PiecesAreTheSameInARegionOfTheHosts) {
  GRADC_OWN_REGION;
  const std::vector<int64_t> first = pieces(3, 4000, 1);
  std::vector<int64_t> inHostRegion;
#pragma omp parallel num_threads(2)
#pragma omp single
  inHostRegion = pieces(3, 4000, 1);
  EXPECT_EQ(inHostRegion, first);
}

TEST(Threads, WorkDecidesHowManyTakePart) {
  EXPECT_EQ(numPieces(64, 1000, 1000), 1);
  EXPECT_EQ(numPieces(64, 1001, 1000), 2);
  EXPECT_EQ(numPieces(64, 5000, 1000), 10);
  EXPECT_EQ(numPieces(4, 5000, 1000), 4);
}

TEST(Threads, SmallLoopStaysOnTheCaller) {
  const std::thread::id caller = std::this_thread::get_id();
  parallelFor(4, 10, 10, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 10);
  });
}

TEST(Threads, HostsSettingsComeBack) {
  omp_set_num_threads(5);
  omp_set_dynamic(1);
  EXPECT_EQ(scopeThreads(), 1u);
  withThreads(3, [] {
    EXPECT_EQ(omp_get_max_threads(), 3);
    EXPECT_EQ(omp_get_dynamic(), 0);
    EXPECT_EQ(scopeThreads(), 3u);
    withThreads(2, [] { EXPECT_EQ(omp_get_max_threads(), 2); });
    EXPECT_EQ(scopeThreads(), 3u);
  });
  EXPECT_EQ(omp_get_max_threads(), 5);
  EXPECT_EQ(omp_get_dynamic(), 1);
  EXPECT_EQ(scopeThreads(), 1u);
  omp_set_dynamic(0);
}

TEST(Threads, WorkInsideOfWorkHasOneThread) {
  std::atomic<int> calls{0};
  withThreads(2, [&] {
    parallelFor(2, 2, 1, [&](int64_t, int64_t) {
      EXPECT_EQ(scopeThreads(), 1u);
      const std::thread::id self = std::this_thread::get_id();
      parallelFor(4, 4, 1, [&](int64_t begin, int64_t end) {
        ++calls;
        EXPECT_EQ(end - begin, 4);
        EXPECT_EQ(std::this_thread::get_id(), self);
      });
    });
    EXPECT_EQ(scopeThreads(), 2u);
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

TEST(Threads, ExceptionsOfTheBodyReachTheCaller) {
  for (int64_t culprit : {0, 1, 2})
    EXPECT_THROW(parallelFor(3, 3, 1,
                             [&](int64_t begin, int64_t) {
                               if (begin == culprit) throw std::bad_alloc();
                             }),
                 std::bad_alloc);
  EXPECT_THROW(withThreads(3, [] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(scopeThreads(), 1u);
  EXPECT_EQ(sumOfSquares(3, 100), kSquaresBelow100);
}

// A region inside of the host's would have one thread, and oneDNN would compute a part of what it was made for.
TEST(Threads, AllThreadsAreThereInARegionOfTheHosts) {
  GRADC_OWN_REGION;
  std::atomic<int> numFull{0};
#pragma omp parallel num_threads(2)
  {
    try {
      withThreads(3, [&] {
#pragma omp parallel num_threads(3)
#pragma omp single
        numFull += omp_get_num_threads() == 3;
      });
      withThreads(3, [] { throw std::bad_alloc(); });
    } catch (const std::bad_alloc &) {
      ++numFull;
    }
  }
  EXPECT_EQ(numFull, 4);
}

TEST(Threads, ForkedChildComputes) {
  GRADC_OWN_REGION;
  ASSERT_EQ(sumOfSquares(3, 100), kSquaresBelow100);  // the parent has a team
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // rather than hang
    int64_t sum = 0;
    for (int i = 0; i < 3; ++i) withThreads(3, [&] { sum += sumOfSquares(3, 100); });
    _exit(sum == 3 * kSquaresBelow100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// The calling thread's own affinity and environment, in a child.
unsigned availableIn(void (*prepare)()) {
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    llvm::Expected<unsigned> threads = availableThreads();
    _exit(threads ? static_cast<int>(*threads) : 255);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return static_cast<unsigned>(WEXITSTATUS(status));
}

TEST(Threads, DefaultHonoursAffinityAndEnvironment) {
  auto pin = [] {
    unsetenv("GRADC_NUM_THREADS");
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
  };
  EXPECT_EQ(availableIn(pin), 1u);
  EXPECT_EQ(availableIn([] { setenv("GRADC_NUM_THREADS", "7", 1); }), 7u);
  const unsigned none = availableIn([] { unsetenv("GRADC_NUM_THREADS"); });
  EXPECT_GE(none, 1u);
  EXPECT_LE(none, std::max(1u, std::thread::hardware_concurrency()));
}

TEST(Threads, AnEnvironmentThatIsNoCountIsAnError) {
  const char *const before = std::getenv("GRADC_NUM_THREADS");
  const std::string kept = before ? before : "";
  for (const char *text :
       {"", " ", "many", "0", "-1", "+2", "1e3", "2.0", "0x2", "2 ", "1025", "100000", "99999999999"}) {
    setenv("GRADC_NUM_THREADS", text, 1);
    const GradcError error = errorOf(availableThreads());
    EXPECT_EQ(error.kind, ErrorKind::Usage) << text;
    EXPECT_EQ(error.message, "the environment variable GRADC_NUM_THREADS is '" + std::string(text) +
                                 "', expected a number of threads from 1 to 1024");
  }
  for (unsigned count : {1u, 1024u}) {
    setenv("GRADC_NUM_THREADS", std::to_string(count).c_str(), 1);
    EXPECT_EQ(cantFail(availableThreads()), count);
  }
  if (before) setenv("GRADC_NUM_THREADS", kept.c_str(), 1);
  else unsetenv("GRADC_NUM_THREADS");
}

TEST(Threads, QuotasOfControlGroups) {
  EXPECT_EQ(processorsOfQuota("max 100000"), std::nullopt);
  EXPECT_EQ(processorsOfQuota("200000 100000"), 2u);
  EXPECT_EQ(processorsOfQuota("150000 100000"), 2u);
  EXPECT_EQ(processorsOfQuota("1000 100000"), 1u);
  EXPECT_EQ(processorsOfQuota("-1 100000"), std::nullopt);  // version 1: no limit
  EXPECT_EQ(processorsOfQuota(""), std::nullopt);
  EXPECT_EQ(processorsOfQuota("5 0"), std::nullopt);
}

}  // namespace
}  // namespace gradc
