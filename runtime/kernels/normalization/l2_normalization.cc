// L2Normalization and its gradient. Squares are added up in double precision, where they do not overflow.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/axis_rows.h"
#include "ops/normalization/l2_normalization.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/reduction/softmax_rows.h"

#include <cmath>

using namespace llvm;

namespace gradc::fast {
namespace {

template <class T> class L2NormalizationForward : public ThreadedKernel {
 public:
  L2NormalizationForward(const KernelSite &site, const AxisRows &rows)
      : ThreadedKernel(site.threads), rows(rows), eps(l2Eps(*site.kind)) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.wants(0) ? call.out[0].as<T>() : nullptr, *norms = call.wants(1) ? call.out[1].as<T>() : nullptr;
    forRowBlocks(rows, threads, [=, this](RowBlock block) {
      double totals[kRowBlock];
      T scales[kRowBlock];
      sumRows<double>(
          rows, block, [=](int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); }, totals);
      for (int64_t r = 0; r < block.width; ++r) {
        const double norm = std::sqrt(totals[r] + eps);
        scales[r] = static_cast<T>(1 / norm);
        if (norms) norms[rowNumber(rows, block) + r] = static_cast<T>(norm);
      }
      const T *scale = scales;
      if (y) forElements(rows, block, [=](int64_t i, int64_t r) { y[i] = x[i] * scale[r]; });
    });
  }

 private:
  AxisRows rows;
  double eps;
};

// Inputs dy, y, norm: dx = (dy − y·Σ dy·y)/norm.
template <class T> class L2NormalizationBackward : public ThreadedKernel {
 public:
  L2NormalizationBackward(const KernelSite &site, const AxisRows &rows) : ThreadedKernel(site.threads), rows(rows) {}

  void run(const KernelCall &call) override {
    if (!call.wants(0)) return;
    const T *dy = call.in[0].as<const T>(), *y = call.in[1].as<const T>(), *norms = call.in[2].as<const T>();
    T *dx = call.out[0].as<T>();
    forRowBlocks(rows, threads, [=, this](RowBlock block) {
      double totals[kRowBlock];
      T sums[kRowBlock], scales[kRowBlock];
      sumRows<T>(rows, block, [=](int64_t i) { return dy[i] * y[i]; }, totals);
      for (int64_t r = 0; r < block.width; ++r) {
        sums[r] = static_cast<T>(totals[r]);
        scales[r] = T{1} / norms[rowNumber(rows, block) + r];
      }
      const T *sum = sums, *scale = scales;
      forElements(rows, block, [=](int64_t i, int64_t r) { dx[i] = (dy[i] - y[i] * sum[r]) * scale[r]; });
    });
  }

 private:
  AxisRows rows;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  const AxisRows rows = l2Rows(*site.kind, site.in[0].shape);
  return floatingKernel<Kernel>(site.in[0].dtype, site, rows);
}

constexpr FastKernelRow kRows[] = {
    {"L2Normalization", make<L2NormalizationForward>, LayoutRole::Plain},
    {"_backward_L2Normalization", make<L2NormalizationBackward>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kL2NormalizationKernels = kRows;

}  // namespace gradc::fast
