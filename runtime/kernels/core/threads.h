// The number of threads that fast kernels use, and loops divided among them.
//
// The threads are OpenMP's, as are oneDNN's, so both share a team. Each calling thread has a separate team, so
// concurrent callers do not wait for each other. The caller's OpenMP settings are restored when a scope ends.
//
// How a loop is divided depends on its size and the number of threads requested, not on how many OpenMP grants.
// Tested by tests/runtime/threads_test.cc and tests/host/
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace gradc {

/// The threads of the calling thread's innermost `withThreads`; 1 outside of any, and inside parallel work.
unsigned scopeThreads();

/// Runs `body`, whose parallel work (oneDNN, parallelFor) uses `threads` threads, including the one that runs `body`.
/// That is the calling thread, unless it cannot have a team, being in a parallel region or in a forked process; then
/// `body` runs on a new thread. Rethrows what `body` throws; std::system_error if the new thread cannot be started.
void withThreads(unsigned threads, llvm::function_ref<void()> body);

/// Call before oneDNN divides work among the threads of the scope. OpenMP ends the process when it cannot start a
/// thread; this throws std::system_error first.
void requireTeam();

/// Calls body(begin, end) on pieces of [0, size) that depend only on the arguments: at most `threads`; one up to
/// `grain` elements, two above, and so on. Inside `body` there is one thread. Rethrows the first exception of `body`.
void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body);

}  // namespace gradc
