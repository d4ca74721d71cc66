// A matrix product of fixed extents that runs many times: of float32 a oneDNN primitive made once, of float64 `multiply`.
// Tested by tests/rnn_kernels_test.cc
#pragma once

#include "runtime/kernels/dnnl_step.h"
#include "runtime/kernels/gemm.h"

namespace gradc {

template <class T> class PreparedProduct;

/// The same without gaps between rows.
template <class T> Gemm<T> dense(Gemm<T> g) {
  g.lda = g.transA ? g.m : g.k;
  g.ldb = g.transB ? g.k : g.n;
  g.ldc = g.n;
  return g;
}

template <> class PreparedProduct<float> {
 public:
  /// Dense matrices of the extents of `shape`, whose pointers do not count; beta is 0 or 1. `packsB`: b is the same in many
  /// runs, so that it pays to bring it in an order of oneDNN's. As many threads as the calling scope has take part in each
  /// run, which has to be in a scope of as many.
  explicit PreparedProduct(const Gemm<float> &shape, bool packsB = false);

  /// What `pack` needs, what `run` needs; aligned to 64.
  size_t packedBytes() const { return packedSize; }
  size_t scratchBytes() const { return scratchSize; }
  /// What to give `run` as b: itself, or its copy in `packed`. One product packs for all of the same b, n and k.
  const float *pack(const float *b, void *packed);
  /// Throws as PreparedKernel::run does.
  void run(const float *a, const float *b, float *c, void *scratch);

 private:
  Gemm<float> shape;
  dnnl::matmul primitive;  // empty: oneDNN has none, and `multiply` computes
  dnnl::reorder reorder;   // empty: b is used as it is
  dnnl::stream stream;
  dnnl::memory plainB, packedB, scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;
  size_t packedSize = 0, scratchSize = 0;
};

template <> class PreparedProduct<double> {
 public:
  explicit PreparedProduct(const Gemm<double> &shape, bool = false) : shape(dense(shape)) {}
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
