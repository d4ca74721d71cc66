// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/threads.h"

#include <algorithm>

// The runtime's own interface, which has no header without the compiler's OpenMP support.
extern "C" {
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
void omp_set_num_threads(int);
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
int openblas_get_num_threads();
void openblas_set_num_threads(int);
}

namespace gradc {

ThreadScope::ThreadScope(unsigned threads) : before(omp_get_max_threads()) {
  const int wanted = static_cast<int>(threads);
  if (before != wanted) omp_set_num_threads(wanted);
  if (openblas_get_num_threads() != wanted) openblas_set_num_threads(wanted);
}

ThreadScope::~ThreadScope() {
  if (omp_get_max_threads() != before) omp_set_num_threads(before);
}

namespace {

struct Loop {
  int64_t size, piece;
  llvm::function_ref<void(int64_t, int64_t)> body;
};

void runShare(void *data) {
  const Loop &loop = *static_cast<const Loop *>(data);
  const int64_t step = loop.piece * omp_get_num_threads();
  for (int64_t begin = loop.piece * omp_get_thread_num(); begin < loop.size; begin += step)
    loop.body(begin, std::min(begin + loop.piece, loop.size));
}

}  // namespace

void parallelFor(unsigned threads, int64_t size, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body) {
  if (threads <= 1 || size <= grain) return body(0, size);
  const int64_t share = (size + threads - 1) / threads;
  Loop loop{size, share < 1024 ? share : (share + 15) / 16 * 16, body};
  GOMP_parallel(runShare, &loop, threads, 0);
}

}  // namespace gradc
