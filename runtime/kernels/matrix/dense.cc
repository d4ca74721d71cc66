// Fully connected layers, dot and batch_dot as matrix products. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ir/base/instruction_sets.h"
#include "ops/linear/batch_dot.h"
#include "ops/linear/dot.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/matrix/batched_product.h"
#include "runtime/kernels/matrix/column_sums.h"
#include "runtime/kernels/matrix/gemm.h"
#include "runtime/kernels/matrix/prepared_product.h"

#include <algorithm>
#include <cstring>

namespace gradc::fast {
namespace {

constexpr int64_t kGrain = 32768;  // fewer elements are not worth a second thread

/// The distance of rows from which oneDNN reads columns. With AVX-512 it has other code, and Eigen computes in float64.
template <class T> int64_t strideOfColumns(int64_t columns) {
  const bool isSlow = std::is_same_v<T, float> && instructionSet() != InstructionSet::Avx512;
  return isSlow ? rowStride<T>(columns) : columns;
}

template <class T> class FullyConnectedKernel : public PreparedKernel {
 public:
  explicit FullyConnectedKernel(const KernelSite &) {}
  void run(const KernelCall &call) override {
    const int64_t hidden = call.in[1].shape[0], features = call.in[1].shape[1], rows = call.out[0].size() / hidden;
    T *y = call.out[0].as<T>();
    const bool hasBias = call.in.size() == 3;
    if (hasBias)
      parallelFor(scopeThreads(), rows, std::max<int64_t>(kGrain / hidden, 1), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          std::memcpy(y + row * hidden, call.in[2].data, static_cast<size_t>(hidden) * sizeof(T));
      });
    gradc::multiply(Gemm<T>{false, true, rows, hidden, features, call.in[0].as<const T>(), call.in[1].as<const T>(),
                            features, features, hasBias ? T{1} : T{0}, y, hidden});
  }
};

// Inputs dy, x, w; outputs dx, dw[, db]. The product for dw reads columns of dy, which takes less time from a copy
// where its rows are a bad distance apart (rowStride).
template <class T> class FullyConnectedBackward : public PreparedKernel {
 public:
  explicit FullyConnectedBackward(const KernelSite &site)
      : hidden(site.in[2].shape[0]), features(site.in[2].shape[1]), rows(hidden ? site.in[0].size() / hidden : 0),
        stride(site.wants(1) ? strideOfColumns<T>(hidden) : hidden) {}
  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>();
    if (call.wants(0))
      gradc::multiply(Gemm<T>{false, false, rows, features, hidden, dy, call.in[2].as<const T>(), hidden, features,
                              T{0}, call.out[0].as<T>(), features});
    if (call.wants(1))
      gradc::multiply(Gemm<T>{true, false, hidden, features, rows, columnsOf(dy, static_cast<T *>(call.workspace)),
                              call.in[1].as<const T>(), stride, features, T{0}, call.out[1].as<T>(), features});
    if (call.out.size() == 3 && call.wants(2)) sumColumns(dy, rows, hidden, call.out[2].as<T>());
  }
  size_t workspaceBytes() const override {
    return stride == hidden ? 0 : static_cast<size_t>(rows * stride) * sizeof(T);
  }

 private:
  const T *columnsOf(const T *dy, T *copy) const {
    if (stride == hidden) return dy;
    parallelFor(scopeThreads(), rows, std::max<int64_t>(kGrain / hidden, 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        std::memcpy(copy + row * stride, dy + row * hidden, static_cast<size_t>(hidden) * sizeof(T));
    });
    return copy;
  }

  const int64_t hidden, features, rows, stride;
};

template <class T> class DotKernel : public PreparedKernel {
 public:
  explicit DotKernel(const KernelSite &site) : transposes(dotTransposes(*site.kind)) {}
  void run(const KernelCall &call) override {
    const auto [m, n, k] = dotExtents(transposes, call.in[0].shape, call.in[1].shape);
    gradc::multiply(Gemm<T>{transposes.a, transposes.b, m, n, k, call.in[0].as<const T>(), call.in[1].as<const T>(),
                            transposes.a ? m : k, transposes.b ? k : n, T{0}, call.out[0].as<T>(), n});
  }

 private:
  DotTransposes transposes;
};

// Inputs dy, lhs, rhs; outputs dlhs, drhs. With A = op(lhs), B = op(rhs): dA = dy·Bᵀ, dB = Aᵀ·dy, each transposed where
// its operand is.
template <class T> class DotBackward : public PreparedKernel {
 public:
  explicit DotBackward(const KernelSite &site) : transposes(dotTransposes(*site.kind)) {}
  void run(const KernelCall &call) override {
    const DotExtents size = dotExtents(transposes, call.in[1].shape, call.in[2].shape);
    if (call.wants(0)) toLhs(size, call.in[0].as<const T>(), call.in[2].as<const T>(), call.out[0].as<T>());
    if (call.wants(1)) toRhs(size, call.in[0].as<const T>(), call.in[1].as<const T>(), call.out[1].as<T>());
  }

 private:
  void toLhs(const DotExtents &size, const T *dy, const T *rhs, T *dlhs) const {
    const auto [m, n, k] = size;
    const int64_t step = transposes.b ? k : n;
    if (transposes.a) gradc::multiply(Gemm<T>{transposes.b, true, k, m, n, rhs, dy, step, n, T{0}, dlhs, m});
    else gradc::multiply(Gemm<T>{false, !transposes.b, m, k, n, dy, rhs, n, step, T{0}, dlhs, k});
  }
  void toRhs(const DotExtents &size, const T *dy, const T *lhs, T *drhs) const {
    const auto [m, n, k] = size;
    const int64_t step = transposes.a ? m : k;
    if (transposes.b) gradc::multiply(Gemm<T>{true, transposes.a, n, k, m, dy, lhs, n, step, T{0}, drhs, k});
    else gradc::multiply(Gemm<T>{!transposes.a, false, k, n, m, lhs, dy, step, n, T{0}, drhs, n});
  }

  DotTransposes transposes;
};

template <class T> class BatchDotKernel : public ThreadedKernel {
 public:
  explicit BatchDotKernel(const KernelSite &site)
      : ThreadedKernel(site.threads), transposes(batchDotTransposes(*site.kind)) {}
  void run(const KernelCall &call) override {
    const int64_t batch = call.out[0].shape[0], m = call.out[0].shape[1], n = call.out[0].shape[2];
    const int64_t k = call.in[0].shape[transposes.a ? 1 : 2];
    const T *a = call.in[0].as<const T>(), *b = call.in[1].as<const T>();
    T *y = call.out[0].as<T>();
    forProducts(threads, batch, m * n * k, [&](int64_t i) {
      gradc::multiply(Gemm<T>{transposes.a, transposes.b, m, n, k, a + i * m * k, b + i * k * n, transposes.a ? m : k,
                              transposes.b ? k : n, T{0}, y + i * m * n, n});
    });
  }

 private:
  DotTransposes transposes;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  return floatingKernel<Kernel>(site.in[0].dtype, site);
}

constexpr FastKernelRow kRows[] = {
    {"FullyConnected", make<FullyConnectedKernel>, LayoutRole::Plain},
    {"_backward_FullyConnected", make<FullyConnectedBackward>, LayoutRole::Plain},
    {"_backward_dot", make<DotBackward>, LayoutRole::Plain},
    {"batch_dot", make<BatchDotKernel>, LayoutRole::Plain},
    {"dot", make<DotKernel>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kDenseKernels = kRows;

}  // namespace gradc::fast
