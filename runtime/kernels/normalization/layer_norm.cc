// LayerNorm and its gradient. Along the last axis rows have contiguous elements, and sums are taken in lanes; along
// another one, adjacent rows are computed side by side. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ir/rules/missing_inputs.h"
#include "ops/kit/axis_rows.h"
#include "ops/normalization/layer_norm.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/reduction/softmax_rows.h"

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

template <class T> class LayerNormForward : public PreparedKernel {
 public:
  explicit LayerNormForward(const NormPlan &plan) : plan(plan) {}

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
template <class T> class LayerNormBackward : public PreparedKernel {
 public:
  explicit LayerNormBackward(const NormPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    if (call.wants(1) || call.wants(2)) withMissingInputs(call, [&](const KernelCall &filled) { toVectors(filled); });
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

/// Rows whose elements are `inner` apart.
struct StridedPlan {
  AxisRows rows;
  double eps;
  unsigned threads;

  /// visit(i, r, k) for element k of row r of the block; for one k independent of each other.
  template <class F> void forBlock(RowBlock block, F visit) const {
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t first = block.first + k * rows.inner;
      GRADC_INDEPENDENT
      for (int64_t r = 0; r < block.width; ++r) visit(first + r, r, k);
    }
  }
};

template <class T> class StridedForward : public PreparedKernel {
 public:
  explicit StridedForward(const StridedPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    forRowBlocks(plan.rows, plan.threads, [&](RowBlock block) { runBlock(call, block); });
  }

 private:
  void runBlock(const KernelCall &call, RowBlock block) const {
    const T *x = call.in[0].as<const T>(), *gamma = call.in[1].as<const T>(), *beta = call.in[2].as<const T>();
    const double count = static_cast<double>(plan.rows.length);
    double sums[kRowBlock] = {}, squares[kRowBlock] = {};
    T means[kRowBlock], scales[kRowBlock];
    double *const sum = sums, *const square = squares;
    T *const mean = means, *const scale = scales;
    plan.forBlock(block, [=](int64_t i, int64_t r, int64_t) { sum[r] += static_cast<double>(x[i]); });
    for (int64_t r = 0; r < block.width; ++r) mean[r] = static_cast<T>(sum[r] / count);
    plan.forBlock(block, [=](int64_t i, int64_t r, int64_t) {
      const double centred = static_cast<double>(x[i] - mean[r]);
      square[r] += centred * centred;
    });
    for (int64_t r = 0, row = rowNumber(plan.rows, block); r < block.width; ++r) {
      const double deviation = std::sqrt(square[r] / count + plan.eps);
      scale[r] = static_cast<T>(1 / deviation);
      if (call.wants(1)) call.out[1].as<T>()[row + r] = mean[r];
      if (call.wants(2)) call.out[2].as<T>()[row + r] = static_cast<T>(deviation);
    }
    if (!call.wants(0)) return;
    T *y = call.out[0].as<T>();
    plan.forBlock(block,
                  [=](int64_t i, int64_t r, int64_t k) { y[i] = (x[i] - mean[r]) * scale[r] * gamma[k] + beta[k]; });
  }

  StridedPlan plan;
};

template <class T> class StridedBackward : public PreparedKernel {
 public:
  explicit StridedBackward(const StridedPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    if (call.wants(0)) forRowBlocks(plan.rows, plan.threads, [&](RowBlock block) { toData(call, block); });
    if (!call.wants(1) && !call.wants(2)) return;
    withMissingInputs(call, [&](const KernelCall &filled) {
      vectorFor(plan.threads, plan.rows.length, std::max<int64_t>(kChannelGrain / plan.rows.count(), 1),
                [&](int64_t begin, int64_t end) {
                  for (int64_t k = begin; k < end; ++k) toVectors(filled, k);
                });
    });
  }

 private:
  void toData(const KernelCall &call, RowBlock block) const {
    const int64_t row = rowNumber(plan.rows, block);
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *gamma = call.in[2].as<const T>();
    const T *mean = call.in[3].as<const T>() + row;
    double sums[kRowBlock] = {}, products[kRowBlock] = {};
    T scales[kRowBlock], shifts[kRowBlock], slopes[kRowBlock];
    double *const sum = sums, *const product = products;
    T *const scale = scales, *const shift = shifts, *const slope = slopes;
    for (int64_t r = 0; r < block.width; ++r) scale[r] = T{1} / call.in[4].as<const T>()[row + r];
    plan.forBlock(block, [=](int64_t i, int64_t r, int64_t k) {
      const T h = dy[i] * gamma[k];
      sum[r] += static_cast<double>(h);
      product[r] += static_cast<double>(h * ((x[i] - mean[r]) * scale[r]));
    });
    const double count = static_cast<double>(plan.rows.length);
    for (int64_t r = 0; r < block.width; ++r) {
      shift[r] = static_cast<T>(sum[r] / count);
      slope[r] = static_cast<T>(product[r] / count);
    }
    T *dx = call.out[0].as<T>();
    plan.forBlock(block, [=](int64_t i, int64_t r, int64_t k) {
      dx[i] = (dy[i] * gamma[k] - shift[r] - (x[i] - mean[r]) * scale[r] * slope[r]) * scale[r];
    });
  }

  void toVectors(const KernelCall &call, int64_t k) const {
    const int64_t inner = plan.rows.inner;
    double sums[2] = {};
    for (int64_t o = 0; o < plan.rows.outer; ++o) {
      const int64_t first = (o * plan.rows.length + k) * inner;
      const T *dy = call.in[0].as<const T>() + first, *x = call.in[1].as<const T>() + first;
      const T *mean = call.in[3].as<const T>() + o * inner, *deviation = call.in[4].as<const T>() + o * inner;
      addRun<T, 2>(
          0, inner,
          [=](int64_t r, T *v) {
            v[0] = dy[r] * ((x[r] - mean[r]) / deviation[r]);
            v[1] = dy[r];
          },
          sums);
    }
    for (size_t i : {0, 1})
      if (call.wants(i + 1)) call.out[i + 1].as<T>()[k] = static_cast<T>(sums[i]);
  }

  StridedPlan plan;
};

template <template <class> class Kernel, template <class> class Strided>
std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t data) {
  const LayerNormAttrs attrs = layerNormAttrs(*site.kind);
  const TensorRef &x = site.in[data];
  const size_t axis = *normalizeAxis(attrs.axis, x.shape.size());
  const StridedPlan strided{AxisRows(x.shape, axis), attrs.eps, site.threads};
  if (strided.rows.inner != 1) return floatingKernel<Strided>(x.dtype, strided);
  return floatingKernel<Kernel>(x.dtype, NormPlan{strided.rows.outer, strided.rows.length, attrs.eps, site.threads});
}

std::unique_ptr<PreparedKernel> layerNorm(const KernelSite &site) {
  return make<LayerNormForward, StridedForward>(site, 0);
}
std::unique_ptr<PreparedKernel> layerNormBackward(const KernelSite &site) {
  return make<LayerNormBackward, StridedBackward>(site, 1);
}

constexpr FastKernelRow kRows[] = {
    {"LayerNorm", layerNorm, LayoutRole::Plain},
    {"_backward_LayerNorm", layerNormBackward, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kLayerNormKernels = kRows;

}  // namespace gradc::fast
