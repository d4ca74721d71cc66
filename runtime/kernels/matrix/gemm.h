// Matrix products in either precision. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include <cstdint>

namespace gradc {

/// Row-major c(m, n) = a·b + beta·c, where `a` is (m, k), or (k, m) and transposed; `b` is (k, n), or (n, k).
/// Rows are `lda`, `ldb`, `ldc` elements apart.
template <class T> struct Gemm {
  bool transA = false, transB = false;
  int64_t m = 0, n = 0, k = 0;
  const T *a = nullptr, *b = nullptr;
  int64_t lda = 0, ldb = 0;
  T beta = 0;
  T *c = nullptr;
  int64_t ldc = 0;
};

/// Whether sums are so long that float32 products add them up in blocks, and these in float64. oneDNN adds up hundreds
/// of terms, and these sums one by one; of small results, all terms one by one.
template <class T> bool hasLongSums(const Gemm<T> &g) {
  constexpr int64_t kSmall = 4096, kLong = int64_t{1} << 15;
  return sizeof(T) == sizeof(float) && g.k > (g.m * g.n <= kSmall ? kSmall : kLong);
}

/// Uses scopeThreads() threads. Throws std::bad_alloc if there is no memory for the packed blocks, and KernelError if
/// oneDNN refuses.
void multiply(const Gemm<float> &g);
void multiply(const Gemm<double> &g);

}  // namespace gradc
