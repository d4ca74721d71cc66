// A matrix product of fixed extents that runs many times: for float32 a oneDNN primitive made once, for float64
// `multiply`. Tested by tests/runtime/kernels/rnn_kernels_test.cc
#pragma once

#include "runtime/kernels/dnnl/dnnl_step.h"
#include "runtime/kernels/matrix/gemm.h"

namespace gradc {

/// Elements from one row of a scratch matrix to the next: at least `columns`, and not a multiple of 2 KiB. Rows that
/// far apart share a few sets of the first-level cache, and oneDNN's products that read columns of them take twice the
/// time.
template <class T> int64_t rowStride(int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T), kBad = 2048 / sizeof(T);
  return columns % kBad == 0 ? columns + kLine : columns;
}

template <class T> class PreparedProduct;

/// The same with strides instead of zeros: those of rows without gaps.
template <class T> Gemm<T> withStrides(Gemm<T> g) {
  if (g.lda == 0) g.lda = g.transA ? g.m : g.k;
  if (g.ldb == 0) g.ldb = g.transB ? g.k : g.n;
  if (g.ldc == 0) g.ldc = g.n;
  return g;
}

template <> class PreparedProduct<float> {
 public:
  /// Matrices with the extents of `shape` and, unless 0, its strides; its pointers are ignored, and beta is 0 or 1.
  /// `packsB`: b stays the same for many runs, so converting it to a better format pays. Runs use the number of threads
  /// of the scope that calls this constructor, and must be in a scope with the same number.
  explicit PreparedProduct(const Gemm<float> &shape, bool packsB = false);

  /// Memory for `pack`, and scratch for `run`; both aligned to 64.
  size_t packedBytes() const { return packedSize; }
  size_t scratchBytes() const { return scratchSize; }
  /// Returns the b to pass to `run`: b itself, or its copy in `packed`. Products with the same b, n and k can share the
  /// copy.
  const float *pack(const float *b, void *packed);
  /// Throws as PreparedKernel::run does.
  void run(const float *a, const float *b, float *c, void *scratch);

 private:
  Gemm<float> shape;
  dnnl::matmul primitive;  // empty: oneDNN has none, so `multiply` computes
  dnnl::reorder reorder;   // empty: b is not converted
  dnnl::stream stream;
  dnnl::memory plainB, packedB, scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;
  size_t packedSize = 0, scratchSize = 0;
};

template <> class PreparedProduct<double> {
 public:
  explicit PreparedProduct(const Gemm<double> &shape, bool = false) : shape(withStrides(shape)) {}
  size_t packedBytes() const { return 0; }
  size_t scratchBytes() const { return 0; }
  const double *pack(const double *b, void *) const { return b; }
  void run(const double *a, const double *b, double *c, void *) const {
    Gemm<double> g = shape;
    g.a = a, g.b = b, g.c = c;
    multiply(g);
  }

 private:
  Gemm<double> shape;
};

}  // namespace gradc
