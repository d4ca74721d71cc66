// The team: workers that are started when first needed and stay. A region is published as a new value of `epoch`, which
// holds its number of threads; worker i takes part when there are more than i, and counts itself out of `pending`. Regions
// of different callers follow one another; a region inside of a region has one thread. Tested by tests/threads_test.cc
#include "runtime/kernels/threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <climits>
#include <thread>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gradc {
namespace {

using Body = void (*)(void *);

constexpr unsigned kMaxThreads = 1024;
constexpr uint32_t kEpochStep = 2 * kMaxThreads;
/// Looks at a value before a thread sleeps: some 30 µs, about what waking up costs.
constexpr int kLooks = 700;

/// A number that threads wait to change.
///
/// std::atomic's own `wait` gives the processor up a few times before it sleeps. Two threads on one processor then take
/// turns without either ever sleeping, and only a thread that is woken up is given a processor that is free at once: the
/// first steps of a process ran on one processor. Here a thread sleeps when it has looked long enough.
struct Signal {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  /// Waits until the value is no longer `old`, and returns what it is.
  uint32_t awaitChange(uint32_t old);
  /// After a change of the value that is sequentially consistent.
  void notifyAll();

 private:
  void sleep(uint32_t old);
};

struct Team {
  std::mutex region;                  // held by the caller of a region
  unsigned numWorkers = 0;            // started so far
  Body body = nullptr;
  void *data = nullptr;
  Signal epoch;                       // a count, times kEpochStep, plus the threads of the region
  Signal pending;                     // workers that have not finished
  std::atomic<uint32_t> arrived{0};   // at the barrier
  Signal generation;
};

constinit Team team;
constinit thread_local unsigned maxThreads = 1;
constinit thread_local unsigned position = 0, teamSize = 1;
constinit thread_local bool isInRegion = false;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

uint32_t Signal::awaitChange(uint32_t old) {
  for (int i = 0; i < kLooks; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    relax();
  }
  // Whoever changes the value looks at `sleepers` afterwards, and the system at the value before it lets a thread sleep.
  sleepers.fetch_add(1);
  while (value.load() == old) sleep(old);
  sleepers.fetch_sub(1);
  return value.load(std::memory_order_acquire);
}

#if defined(__linux__)
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "what a futex is");

void Signal::sleep(uint32_t old) { syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0); }

void Signal::notifyAll() {
  if (sleepers.load() != 0) syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
#else
void Signal::sleep(uint32_t old) { value.wait(old); }

void Signal::notifyAll() { value.notify_all(); }
#endif

void runAs(unsigned at, unsigned size, Body body, void *data) {
  position = at, teamSize = size, isInRegion = true;
  body(data);
  position = 0, teamSize = 1, isInRegion = false;
}

[[noreturn]] void work(unsigned at, uint32_t seen) {
  for (;;) {
    seen = team.epoch.awaitChange(seen);
    const unsigned size = seen % kEpochStep;
    if (at >= size) continue;
    runAs(at, size, team.body, team.data);
    if (team.pending.value.fetch_sub(1) == 1) team.pending.notifyAll();
  }
}

void runRegion(unsigned size, Body body, void *data) {
  std::lock_guard<std::mutex> lock(team.region);
  for (; team.numWorkers + 1 < size; ++team.numWorkers)
    std::thread(work, team.numWorkers + 1, team.epoch.value.load(std::memory_order_relaxed)).detach();
  team.body = body;
  team.data = data;
  team.pending.value.store(size - 1, std::memory_order_relaxed);
  const uint32_t before = team.epoch.value.load(std::memory_order_relaxed);
  team.epoch.value.store((before / kEpochStep + 1) * kEpochStep + size);
  team.epoch.notifyAll();
  runAs(0, size, body, data);
  while (uint32_t left = team.pending.value.load(std::memory_order_acquire)) team.pending.awaitChange(left);
}

void run(unsigned threads, Body body, void *data) {
  if (threads > 1 && !isInRegion) return runRegion(std::min(threads, kMaxThreads), body, data);
  const unsigned at = position, size = teamSize;
  const bool wasInRegion = isInRegion;
  runAs(0, 1, body, data);
  position = at, teamSize = size, isInRegion = wasInRegion;
}

void barrier() {
  if (teamSize <= 1) return;
  const uint32_t generation = team.generation.value.load(std::memory_order_acquire);
  if (team.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == teamSize) {
    team.arrived.store(0, std::memory_order_relaxed);
    team.generation.value.fetch_add(1);
    team.generation.notifyAll();
    return;
  }
  team.generation.awaitChange(generation);
}

struct Loop {
  int64_t size, piece;
  llvm::function_ref<void(int64_t, int64_t)> body;
};

void runShare(void *data) {
  const Loop &loop = *static_cast<const Loop *>(data);
  const int64_t step = loop.piece * teamSize;
  for (int64_t begin = loop.piece * position; begin < loop.size; begin += step)
    loop.body(begin, std::min(begin + loop.piece, loop.size));
}

}  // namespace

unsigned availableThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

unsigned scopeThreads() { return isInRegion ? 1 : maxThreads; }

ThreadScope::ThreadScope(unsigned threads) : before(maxThreads) { maxThreads = std::max(1u, threads); }
ThreadScope::~ThreadScope() { maxThreads = before; }

void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body) {
  if (threads <= 1 || size <= grain || isInRegion) return body(0, size);
  const int64_t share = (size + threads - 1) / threads;
  Loop loop{size, share < 1024 ? share : (share + 15) / 16 * 16, body};
  run(threads, runShare, &loop);
}

}  // namespace gradc

// What oneDNN calls. Definitions in the program go before those of the OpenMP runtime's library.
extern "C" {

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned) {
  gradc::run(threads ? threads : gradc::maxThreads, body, data);
}
void GOMP_barrier() { gradc::barrier(); }
int omp_get_max_threads() { return static_cast<int>(gradc::maxThreads); }
int omp_get_num_threads() { return static_cast<int>(gradc::teamSize); }
int omp_get_thread_num() { return static_cast<int>(gradc::position); }
int omp_in_parallel() { return gradc::isInRegion && gradc::teamSize > 1; }

}  // extern "C"
