// LayerNorm along the last axis and its gradient. Rows have contiguous elements; sums are taken in lanes.
// Tested by tests/fast_kernels_test.cc
#include "ops/kernel_dispatch.h"
#include "ops/layer_attrs.h"
#include "runtime/kernels/channel_loops.h"
#include "runtime/kernels/factories.h"

#include <cmath>

using namespace llvm;

namespace gradc::fast {
namespace {

struct NormPlan {
  int64_t rows, length;
  double eps;
  unsigned threads;

  template <class F> void forRows(F body) const { fast::forRows(rows, length, threads, body); }
};

template <class T> class ForwardKernel : public PreparedKernel {
 public:
  explicit ForwardKernel(const NormPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    const T *gamma = call.in[1].as<const T>(), *beta = call.in[2].as<const T>();
    plan.forRows([&](int64_t row) {
      const T *x = call.in[0].as<const T>() + row * plan.length;
      const double count = static_cast<double>(plan.length);
      double sum = 0, squares = 0;
      addElements(x, plan.length, &sum);
      const T mean = static_cast<T>(sum / count);
      addRun<T, 1>(0, plan.length, [=](int64_t i, T *v) { v[0] = (x[i] - mean) * (x[i] - mean); }, &squares);
      const double deviation = std::sqrt(squares / count + plan.eps);
      if (call.wants(1)) call.out[1].as<T>()[row] = mean;
      if (call.wants(2)) call.out[2].as<T>()[row] = static_cast<T>(deviation);
      if (!call.wants(0)) return;
      T *y = call.out[0].as<T>() + row * plan.length;
      const T scale = static_cast<T>(1 / deviation);
      GRADC_INDEPENDENT
      for (int64_t k = 0; k < plan.length; ++k) y[k] = (x[k] - mean) * scale * gamma[k] + beta[k];
    });
  }

 private:
  NormPlan plan;
};

// Inputs dy, x, gamma, mean, deviation; outputs dx, dgamma, dbeta.
template <class T> class BackwardKernel : public PreparedKernel {
 public:
  explicit BackwardKernel(const NormPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    if (call.wants(1) || call.wants(2)) toVectors(call);
    if (call.wants(0)) plan.forRows([&](int64_t row) { toData(call, row); });
  }

  /// Two columns of sums along the axis, and two for partial sums.
  size_t workspaceBytes() const override { return static_cast<size_t>(plan.length) * 2 * (sizeof(double) + sizeof(T)); }

 private:
  // dx = (h − mean h − x̂·mean(h·x̂))/s, h = dy·γ
  void toData(const KernelCall &call, int64_t row) const {
    const T *dy = call.in[0].as<const T>() + row * plan.length, *x = call.in[1].as<const T>() + row * plan.length;
    const T *gamma = call.in[2].as<const T>(), mean = call.in[3].as<const T>()[row];
    const T scale = T{1} / call.in[4].as<const T>()[row];
    double sums[2] = {};
    addRun<T, 2>(
        0, plan.length,
        [=](int64_t i, T *v) {
          v[0] = dy[i] * gamma[i];
          v[1] = v[0] * ((x[i] - mean) * scale);
        },
        sums);
    const T shift = static_cast<T>(sums[0] / static_cast<double>(plan.length));
    const T slope = static_cast<T>(sums[1] / static_cast<double>(plan.length));
    T *dx = call.out[0].as<T>() + row * plan.length;
    GRADC_INDEPENDENT
    for (int64_t k = 0; k < plan.length; ++k)
      dx[k] = (dy[k] * gamma[k] - shift - (x[k] - mean) * scale * slope) * scale;
  }

  // dγ = Σ over rows of dy·x̂, dβ = Σ of dy; each thread takes a slice of the axis.
  void toVectors(const KernelCall &call) const {
    double *products = static_cast<double *>(call.workspace), *sums = products + plan.length;
    T *partProducts = reinterpret_cast<T *>(sums + plan.length), *partSums = partProducts + plan.length;
    const ChannelView view{plan.rows, plan.length, 1};
    forSlices(view, plan.threads, [&](Slice slice) {
      std::fill(products + slice.begin, products + slice.end, 0.0);
      std::fill(sums + slice.begin, sums + slice.end, 0.0);
      for (int64_t row = 0; row < plan.rows; row += kBlockRows) {
        std::fill(partProducts + slice.begin, partProducts + slice.end, T{0});
        std::fill(partSums + slice.begin, partSums + slice.end, T{0});
        for (int64_t r = row; r < std::min(row + kBlockRows, plan.rows); ++r)
          addRow(call, r, slice, partProducts, partSums);
        for (int64_t k = slice.begin; k < slice.end; ++k) {
          products[k] += static_cast<double>(partProducts[k]);
          sums[k] += static_cast<double>(partSums[k]);
        }
      }
      for (int64_t k = slice.begin; k < slice.end; ++k) {
        if (call.wants(1)) call.out[1].as<T>()[k] = static_cast<T>(products[k]);
        if (call.wants(2)) call.out[2].as<T>()[k] = static_cast<T>(sums[k]);
      }
    });
  }

  void addRow(const KernelCall &call, int64_t row, Slice slice, T *products, T *sums) const {
    const T *dy = call.in[0].as<const T>() + row * plan.length, *x = call.in[1].as<const T>() + row * plan.length;
    const T mean = call.in[3].as<const T>()[row], scale = T{1} / call.in[4].as<const T>()[row];
    GRADC_INDEPENDENT
    for (int64_t k = slice.begin; k < slice.end; ++k) {
      products[k] += dy[k] * ((x[k] - mean) * scale);
      sums[k] += dy[k];
    }
  }

  NormPlan plan;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t data) {
  std::unique_ptr<PreparedKernel> kernel;
  const LayerNormAttrs attrs = layerNormAttrs(*site.kind);
  const TensorRef &x = site.in[data];
  if (!isFloatingKernelType(x.dtype)) return kernel;
  if (normalizeAxis(attrs.axis, x.shape.size()) != x.shape.size() - 1) return kernel;
  const NormPlan plan{x.size() / x.shape.back(), x.shape.back(), attrs.eps, site.threads};
  dispatchFloating(x.dtype, [&](auto zero) { kernel = std::make_unique<Kernel<decltype(zero)>>(plan); });
  return kernel;
}

}  // namespace

std::unique_ptr<PreparedKernel> layerNorm(const KernelSite &site) { return make<ForwardKernel>(site, 0); }
std::unique_ptr<PreparedKernel> layerNormBackward(const KernelSite &site) { return make<BackwardKernel>(site, 1); }

}  // namespace gradc::fast
