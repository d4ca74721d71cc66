// Matrix products in either precision. Tested by tests/fast_kernels_test.cc
#pragma once

#include "ir/types.h"

#include "llvm/ADT/STLExtras.h"

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace gradc {

/// Whether products of such extents, m, n and k, can be computed: OpenBLAS, for double precision, counts in int.
inline bool canMultiply(DType type, std::initializer_list<int64_t> extents) {
  return type != DType::Float64 || llvm::all_of(extents, [](int64_t n) { return n <= std::numeric_limits<int>::max(); });
}

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
void multiply(const Gemm<float> &g);
void multiply(const Gemm<double> &g);

}  // namespace gradc
