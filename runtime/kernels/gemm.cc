// Single precision by oneDNN, on the threads everything else runs on; double by OpenBLAS.
// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <cassert>

namespace gradc {

void multiply(const Gemm<float> &g) {
  const dnnl_status_t status = dnnl_sgemm(g.transA ? 'T' : 'N', g.transB ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a, g.lda,
                                          g.b, g.ldb, g.beta, g.c, g.ldc);
  assert(status == dnnl_success && "a matrix product of valid extents");
  (void)status;
}

void multiply(const Gemm<double> &g) {
  cblas_dgemm(CblasRowMajor, g.transA ? CblasTrans : CblasNoTrans, g.transB ? CblasTrans : CblasNoTrans,
              static_cast<int>(g.m), static_cast<int>(g.n), static_cast<int>(g.k), 1.0, g.a, static_cast<int>(g.lda),
              g.b, static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}

}  // namespace gradc
