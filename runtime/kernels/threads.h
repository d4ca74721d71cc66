// How many threads fast kernels use, and loops that use them.
//
// All parallel work runs on the OpenMP runtime's threads, which oneDNN uses too: a second pool would compete with the
// first one's threads, which spin for a while after their work. The calls are those that compilers emit, so nothing has
// to be compiled with OpenMP. Tested by tests/fast_kernels_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace gradc {

/// While it lives, the calling thread's parallel work (oneDNN, OpenBLAS, parallelFor) uses `threads` threads.
class ThreadScope {
 public:
  explicit ThreadScope(unsigned threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope &) = delete;

 private:
  int before;
};

/// Calls body(begin, end) on pieces of [0, size) that depend on size and threads alone; one piece below `grain`.
void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body);

}  // namespace gradc
