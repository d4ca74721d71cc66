// Single precision uses oneDNN; double uses Eigen, with one call per thread on a share of the rows or columns of c.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/matrix/gemm.h"

#include "ir/base/instruction_sets.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/prepared_kernel.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/matrix/gemm_double.h"

#include <dnnl.h>

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>

namespace gradc {

namespace {

void multiplyByOneDnn(const Gemm<float> &g) {
  requireTeam();
  const dnnl_status_t status = dnnl_sgemm(g.transA ? 'T' : 'N', g.transB ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a, g.lda,
                                          g.b, g.ldb, g.beta, g.c, g.ldc);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) throw KernelError{"oneDNN refuses a matrix product of valid extents"};
}

/// c := beta·c + sum at (i, j).
void addTo(const Gemm<float> &g, int64_t i, int64_t j, double sum) {
  float &c = g.c[i * g.ldc + j];
  const double before = g.beta == 0 ? 0 : static_cast<double>(g.beta) * static_cast<double>(c);
  c = static_cast<float>(before + sum);
}

/// One tile of a product of long sums: the products of blocks, added up in float64.
void multiplyTile(const Gemm<float> &g, float *part, double *sums) {
  const int64_t size = g.m * g.n, most = size <= 4096 ? 1024 : 16384;
  std::fill_n(sums, size, 0.0);
  for (int64_t first = 0; first < g.k; first += most) {
    Gemm<float> block = g;
    block.k = std::min(most, g.k - first);
    block.a += g.transA ? first * g.lda : first;
    block.b += g.transB ? first : first * g.ldb;
    block.beta = 0, block.c = part, block.ldc = g.n;
    multiplyByOneDnn(block);
    for (int64_t i = 0; i < size; ++i) sums[i] += static_cast<double>(part[i]);
  }
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) addTo(g, i, j, sums[i * g.n + j]);
}

/// The same for a few elements of c, by block sums: calls would take longer than their products.
void multiplyDots(const Gemm<float> &g) {
  const fast::ChannelView view{1, 1, g.k};
  const fast::ElementBlocks blocks(view);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      const float *a = g.a + (g.transA ? i : i * g.lda), *b = g.b + (g.transB ? j * g.ldb : j);
      const int64_t aStep = g.transA ? g.lda : 1, bStep = g.transB ? 1 : g.ldb;
      double partial[fast::kPieces] = {}, *const sums = partial;
      fast::forBlocks(view, blocks, scopeThreads(), [=](fast::Slice slice, int64_t block) {
        double sum = 0;
        fast::addRun<float, 1>(
            slice.first, std::min(slice.last, view.count()) - slice.first,
            [=](int64_t k, float *v) { v[0] = a[k * aStep] * b[k * bStep]; }, &sum);
        sums[block] = sum;
      });
      addTo(g, i, j, std::accumulate(sums, sums + blocks.count, 0.0));
    }
}

}  // namespace

void multiply(const Gemm<float> &g) {
  if (!hasLongSums(g)) return multiplyByOneDnn(g);
  if (g.m * g.n <= 4) return multiplyDots(g);
  constexpr int64_t kTile = 512;  // rows and columns of c at once
  const size_t most = static_cast<size_t>(std::min(g.m, kTile) * std::min(g.n, kTile));
  const std::unique_ptr<double[]> sums(new double[most]);
  const std::unique_ptr<float[]> part(new float[most]);
  for (int64_t i = 0; i < g.m; i += kTile)
    for (int64_t j = 0; j < g.n; j += kTile) {
      Gemm<float> tile = g;
      tile.m = std::min(kTile, g.m - i), tile.n = std::min(kTile, g.n - j);
      tile.a += g.transA ? i : i * g.lda;
      tile.b += g.transB ? j * g.ldb : j;
      tile.c += i * g.ldc + j;
      multiplyTile(tile, part.get(), sums.get());
    }
}

namespace {

constexpr int64_t kGrain = int64_t{1} << 16;  // fewer multiplications are not worth a second thread
constexpr int64_t kStripe = 8;                // rows or columns of c that stay on one thread

void multiplyAlone(const Gemm<double> &g) {
#if defined(__x86_64__)
  if (instructionSet() == InstructionSet::Avx512) return multiply_avx512(g);
  if (instructionSet() == InstructionSet::Avx2) return multiply_avx2(g);
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
