// linalg_gemm and attention on interleaved projections, matrix product by matrix product.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/linear/interleaved_matmul.h"
#include "ops/linear/linalg_gemm.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/matrix/batched_product.h"

namespace gradc::fast {
namespace {

template <class T> void scale(MatrixView<T> matrix, int64_t rows, int64_t columns, T factor) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) matrix.data[i * matrix.rowStride + j] *= factor;
}

/// MatrixProducts::compute, divided among threads.
template <class T, class Products> void computeFast(unsigned threads, const Products &products) {
  const auto [m, n, k] = products.extents;
  forProducts(threads, products.count, m * n * k, [&](int64_t i) {
    const MatrixView<const T> a = products.a.at(i), b = products.b.at(i);
    const MatrixView<T> out = products.out.at(i);
    gradc::multiply(Gemm<T>{products.transA, products.transB, m, n, k, a.data, b.data, a.rowStride, b.rowStride, T{0},
                            out.data, out.rowStride});
    if (products.factor != 1) scale(out, m, n, static_cast<T>(products.factor));
  });
}

/// The products of one operator: run<T>(call, compute).
template <class T, class Operator> class MatrixBatchKernel : public ThreadedKernel {
 public:
  using ThreadedKernel::ThreadedKernel;
  void run(const KernelCall &call) override {
    Operator::template run<T>(call, [&](const auto &products) { computeFast<T>(threads, products); });
  }
};

template <class Operator> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  return ofFloatingType(site.in[0].dtype, [&](auto zero) {
    return std::make_unique<MatrixBatchKernel<decltype(zero), Operator>>(site.threads);
  });
}

struct GemmForward {
  template <class T, class F> static void run(const KernelCall &call, F compute) { gemmProducts<T>(call, compute); }
};
struct GemmBackward {
  template <class T, class F> static void run(const KernelCall &call, F compute) { gemmGradients<T>(call, compute); }
};
template <AttentionLayout layout> struct QueryKey {
  template <class T, class F> static void run(const KernelCall &call, F compute) {
    queryKeyProducts<T, layout>(call, compute);
  }
};
template <AttentionLayout layout> struct QueryKeyBackward {
  template <class T, class F> static void run(const KernelCall &call, F compute) {
    queryKeyGradients<T, layout>(call, compute);
  }
};
template <AttentionLayout layout> struct Values {
  template <class T, class F> static void run(const KernelCall &call, F compute) {
    valueProducts<T, layout>(call, compute);
  }
};
template <AttentionLayout layout> struct ValuesBackward {
  template <class T, class F> static void run(const KernelCall &call, F compute) {
    valueGradients<T, layout>(call, compute);
  }
};

constexpr KernelFactory linalgGemm = make<GemmForward>;
constexpr KernelFactory linalgGemmBackward = make<GemmBackward>;

constexpr FastKernelRow kRows[] = {
    {"_backward_interleaved_matmul_encdec_qk", make<QueryKeyBackward<kCrossAttention>>, LayoutRole::Plain},
    {"_backward_interleaved_matmul_encdec_valatt", make<ValuesBackward<kCrossAttention>>, LayoutRole::Plain},
    {"_backward_interleaved_matmul_selfatt_qk", make<QueryKeyBackward<kSelfAttention>>, LayoutRole::Plain},
    {"_backward_interleaved_matmul_selfatt_valatt", make<ValuesBackward<kSelfAttention>>, LayoutRole::Plain},
    {"_backward_linalg_gemm", linalgGemmBackward, LayoutRole::Plain},
    {"_backward_linalg_gemm2", linalgGemmBackward, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_encdec_qk", make<QueryKey<kCrossAttention>>, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_encdec_valatt", make<Values<kCrossAttention>>, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_selfatt_qk", make<QueryKey<kSelfAttention>>, LayoutRole::Plain},
    {"_contrib_interleaved_matmul_selfatt_valatt", make<Values<kSelfAttention>>, LayoutRole::Plain},
    {"_linalg_gemm", linalgGemm, LayoutRole::Plain},
    {"_linalg_gemm2", linalgGemm, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kMatrixBatchesKernels = kRows;

}  // namespace gradc::fast
