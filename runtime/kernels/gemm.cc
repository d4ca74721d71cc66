// Single precision uses oneDNN; double uses Eigen, with one call per thread on a share of the rows or columns of c.
// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/gemm.h"

#include "ops/instruction_sets.h"
#include "runtime/kernels/gemm_double.h"
#include "runtime/kernels/prepared_kernel.h"
#include "runtime/kernels/threads.h"

#include <dnnl.h>

#include <algorithm>
#include <new>

namespace gradc {

void multiply(const Gemm<float> &g) {
  requireTeam();
  const dnnl_status_t status = dnnl_sgemm(g.transA ? 'T' : 'N', g.transB ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a, g.lda,
                                          g.b, g.ldb, g.beta, g.c, g.ldc);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) throw KernelError{"oneDNN refuses a matrix product of valid extents"};
}

namespace {

constexpr int64_t kGrain = int64_t{1} << 16;  // fewer multiplications are not worth a second thread
constexpr int64_t kStripe = 8;                // rows or columns of c that stay on one thread

void multiplyAlone(const Gemm<double> &g) {
#if defined(__x86_64__)
  if (instructionSet() == InstructionSet::Avx512) return multiply_avx512(g);
  if (instructionSet() == InstructionSet::Avx2 && __builtin_cpu_supports("fma")) return multiply_avx2(g);
#endif
  multiply_baseline(g);
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
  const bool byColumns = g.n >= g.m;
  const int64_t size = byColumns ? g.n : g.m, stripes = (size + kStripe - 1) / kStripe;
  const int64_t grain = g.m * g.n * g.k <= kGrain ? stripes : 1;
  parallelFor(scopeThreads(), stripes, grain, [&](int64_t begin, int64_t end) {
    multiplyAlone(part(g, byColumns, begin * kStripe, std::min(end * kStripe, size)));
  });
}

}  // namespace gradc
