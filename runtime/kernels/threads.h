// How many threads fast kernels use, and loops over them.
//
// The threads are those of OpenMP, which oneDNN uses too, so that both have one team: each calling thread has its own, and
// callers side by side do not wait for each other. What the caller had set for OpenMP is put back when a scope ends.
//
// What a loop computes depends on its size and the number of threads requested, not on how many OpenMP grants.
// Tested by tests/threads_test.cc and tests/host/
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace gradc {

/// The threads of the calling thread's innermost `withThreads`; 1 outside of any, and inside of parallel work.
unsigned scopeThreads();

/// Runs `body`, whose parallel work (oneDNN, parallelFor) uses `threads` threads, the one that runs it among them. That is
/// the calling thread, unless it cannot have a team: in a parallel region of its own, or in a process that was forked.
/// Then `body` runs on a new thread. Passes on what `body` throws; std::system_error when that thread cannot be started.
void withThreads(unsigned threads, llvm::function_ref<void()> body);

/// Calls body(begin, end) on pieces of [0, size) that depend on the arguments alone: at most `threads`, one up to `grain`
/// elements, two above, and so on. Inside of `body` there is one thread. Passes on the first exception of `body`.
void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body);

}  // namespace gradc
