// How many threads fast kernels use, the threads themselves, and loops over them.
//
// oneDNN brings no threads: it calls the entry points of the OpenMP runtime, six of them, and threads.cc defines those six
// itself, over one team for everything. Threads of the usual runtime wait for each other for milliseconds without
// sleeping; on a machine with other work that makes a step take many times as long. Threads of this team wait for some
// microseconds and then sleep. A program that links this library can therefore not use OpenMP for itself.
//
// What a thread computes depends on the sizes and the number of threads alone. Tested by tests/threads_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace gradc {

/// The processors this process may use, at least 1.
unsigned availableThreads();

/// The threads of the innermost ThreadScope of the calling thread; 1 inside of parallel work.
unsigned scopeThreads();

/// While it lives, the calling thread's parallel work (oneDNN, parallelFor) uses `threads` threads, itself among them.
class ThreadScope {
 public:
  explicit ThreadScope(unsigned threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope &) = delete;

 private:
  unsigned before;
};

/// Calls body(begin, end) on pieces of [0, size) that depend on size and threads alone; one piece below `grain`. Inside
/// of `body` there is one thread.
void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body);

}  // namespace gradc
