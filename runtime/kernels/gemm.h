// Matrix products in either precision. Tested by tests/fast_kernels_test.cc
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

/// Longer sums are added up in blocks, and these in float64: oneDNN alone adds up hundreds of elements, and these sums one by one.
inline constexpr int64_t kLongSum = int64_t{1} << 15;

/// Uses scopeThreads() threads. Throws std::bad_alloc if there is no memory for the packed blocks, and KernelError if oneDNN
/// refuses.
void multiply(const Gemm<float> &g);
void multiply(const Gemm<double> &g);

}  // namespace gradc
