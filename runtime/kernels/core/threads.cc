// Tested by tests/runtime/threads_test.cc
#include "runtime/kernels/core/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <omp.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace gradc {
namespace {

constinit thread_local unsigned numThreads = 1;
constinit thread_local bool isInRegion = false;
constinit thread_local unsigned largestTeam = 1;  // that the calling thread is known to be able to have

/// A forked child has none of the threads its parent's team had, and OpenMP would wait for them.
const pid_t loadedBy = getpid();

bool canHaveTeam() { return !omp_in_parallel() && getpid() == loadedBy; }

/// OpenMP's threads wait for work inside its library, which must stay loaded when a plugin that brought it is unloaded.
void keepLoaded() {
  [[maybe_unused]] static const bool isKept = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void *>(&omp_get_max_threads), &info) && info.dli_fname &&
           dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }();
}

/// oneDNN divides work among the number of threads that OpenMP reports, and gives wrong results if it then gets fewer.
int grantedThreads(unsigned threads) {
  if (omp_get_max_active_levels() == 0) return 1;
  return static_cast<int>(std::min(threads, static_cast<unsigned>(omp_get_thread_limit())));
}

/// Sets the calling thread's number of OpenMP threads, and restores it.
class Scope {
 public:
  explicit Scope(unsigned threads)
      : outer(numThreads), outerMax(omp_get_max_threads()), outerDynamic(omp_get_dynamic()) {
    numThreads = std::max(1u, threads);
    omp_set_dynamic(0);
    omp_set_num_threads(grantedThreads(numThreads));
  }
  ~Scope() {
    numThreads = outer;
    omp_set_num_threads(outerMax);
    omp_set_dynamic(outerDynamic);
  }
  Scope(const Scope &) = delete;

 private:
  unsigned outer;
  int outerMax, outerDynamic;
};

/// Starts as many threads as a team has beside the calling thread, and ends them. Throws std::system_error.
void tryThreads(unsigned team) {
  std::latch mayEnd(1);
  std::vector<std::thread> started;
  std::exception_ptr failure;
  try {
    started.reserve(team - 1);
    while (started.size() + 1 < team) started.emplace_back([&] { mayEnd.wait(); });
  } catch (...) {
    failure = std::current_exception();
  }
  mayEnd.count_down();
  for (std::thread &thread : started) thread.join();
  if (failure) std::rethrow_exception(failure);
}

void requireTeam(unsigned team) {
  if (team <= largestTeam) return;
  tryThreads(team);
  largestTeam = team;
}

struct Loop {
  int64_t size, share;
  llvm::function_ref<void(int64_t, int64_t)> body;
  std::atomic_flag hasFailed = ATOMIC_FLAG_INIT;
  std::exception_ptr failure;  // of the thread that set the flag

  /// No exception may leave a region: it would unwind through frames of C.
  void runPieces(int64_t first, int64_t step) {
    try {
      for (int64_t begin = first * share; begin < size; begin += step * share)
        body(begin, std::min(begin + share, size));
    } catch (...) {
      if (!hasFailed.test_and_set()) failure = std::current_exception();
    }
  }
};

// The thread sanitizer does not see how OpenMP's threads wait for each other.
void publish([[maybe_unused]] void *at) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(at);
#endif
}
void receive([[maybe_unused]] void *at) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(at);
#endif
}

// The compiler's code for the region reads its variables before `receive` is called.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
void runRegion(unsigned threads, Loop &loop) {
  keepLoaded();
  requireTeam(grantedThreads(threads));
  Loop *const shared = &loop;
  publish(shared);
  // Always the same number of threads: OpenMP ends those that a smaller team leaves over.
#pragma omp parallel num_threads(threads)
  {
    receive(shared);
    isInRegion = true;
    shared->runPieces(omp_get_thread_num(), omp_get_num_threads());
    isInRegion = false;
    publish(shared);
  }
  receive(shared);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace

void requireTeam() {
  if (!isInRegion) requireTeam(omp_get_max_threads());
}

unsigned scopeThreads() { return isInRegion ? 1 : numThreads; }

void withThreads(unsigned threads, llvm::function_ref<void()> body) {
  if (threads <= 1 || isInRegion || canHaveTeam()) {
    Scope scope(threads);
    return body();
  }
  std::exception_ptr failure;
  std::thread([&] {
    Scope scope(threads);
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body) {
  const int64_t numPieces = size <= grain ? 1 : std::min<int64_t>(threads, size / std::max<int64_t>(grain / 2, 1));
  if (numPieces <= 1 || isInRegion) return body(0, size);
  const int64_t share = (size + numPieces - 1) / numPieces;
  Loop loop{size, share < 1024 ? share : (share + 15) / 16 * 16, body, ATOMIC_FLAG_INIT, nullptr};
  runRegion(threads, loop);
}

}  // namespace gradc
