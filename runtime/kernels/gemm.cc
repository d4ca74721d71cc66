// Single precision by oneDNN; double by OpenBLAS, one call per thread of the team on a share of the rows or columns of c:
// OpenBLAS has threads of its own, which wait for work without sleeping, so they are never started.
// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/gemm.h"

#include "runtime/kernels/threads.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <cassert>

namespace gradc {

void multiply(const Gemm<float> &g) {
  const dnnl_status_t status = dnnl_sgemm(g.transA ? 'T' : 'N', g.transB ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a, g.lda,
                                          g.b, g.ldb, g.beta, g.c, g.ldc);
  assert(status == dnnl_success && "a matrix product of valid extents");
  (void)status;
}

namespace {

constexpr int64_t kGrain = int64_t{1} << 16;  // multiplications that are not worth a second thread
constexpr int64_t kStripe = 8;                // rows or columns of c that stay together

void multiplyAlone(const Gemm<double> &g) {
  cblas_dgemm(CblasRowMajor, g.transA ? CblasTrans : CblasNoTrans, g.transB ? CblasTrans : CblasNoTrans,
              static_cast<int>(g.m), static_cast<int>(g.n), static_cast<int>(g.k), 1.0, g.a, static_cast<int>(g.lda),
              g.b, static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}

/// The product of the columns [begin, end) of c, or of its rows.
Gemm<double> part(Gemm<double> g, bool byColumns, int64_t begin, int64_t end) {
  if (byColumns) {
    g.b += g.transB ? begin * g.ldb : begin;
    g.c += begin;
    g.n = end - begin;
  } else {
    g.a += g.transA ? begin : begin * g.lda;
    g.c += begin * g.ldc;
    g.m = end - begin;
  }
  return g;
}

}  // namespace

void multiply(const Gemm<double> &g) {
  openblas_set_num_threads(1);
  const bool byColumns = g.n >= g.m;
  const int64_t size = byColumns ? g.n : g.m, stripes = (size + kStripe - 1) / kStripe;
  const int64_t grain = g.m * g.n * g.k <= kGrain ? stripes : 1;
  parallelFor(scopeThreads(), stripes, grain, [&](int64_t begin, int64_t end) {
    multiplyAlone(part(g, byColumns, begin * kStripe, std::min(end * kStripe, size)));
  });
}

}  // namespace gradc
