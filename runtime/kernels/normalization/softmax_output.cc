// SoftmaxOutput and its gradient: the softmax of the rows, then w · (p − target) in one pass.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/loss/softmax_loss.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/reduction/softmax_rows.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

AxisRows axisRows(const SoftmaxRows &rows) {
  const int64_t shape[] = {rows.outer, rows.classes, rows.inner};
  return AxisRows(shape, 1);
}

/// What is computed: the softmax of x, its gradient from x, or its gradient from the softmax, which is input 0 then.
enum class SoftmaxResult { Value, Gradient, GradientFromValue };

template <class T, SoftmaxResult kResult> class SoftmaxKernel : public ThreadedKernel {
 public:
  SoftmaxKernel(const SoftmaxRows &rows, unsigned threads) : ThreadedKernel(threads), rows(axisRows(rows)) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    const RowSoftmax<T> softmax{x, y, T{1}, false};
    if (kResult != SoftmaxResult::GradientFromValue)
      forRowBlocks(rows, threads, [&](RowBlock block) { softmax.run(rows, block); });
    else if (x != y) std::copy_n(x, call.out[0].size(), y);
    if (kResult != SoftmaxResult::Value) toGradient(call);
  }

 private:
  void toGradient(const KernelCall &call) const {
    const SoftmaxLabels labels(call.params<SoftmaxOutputParams>(), call.out[0].shape, call.in[1]);
    parallelFor(threads, rows.count(), std::max<int64_t>(kRowGrain / rows.length, 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) toGradient(labels, row, call.out[0].as<T>() + rows.begin(row));
    });
  }

  void toGradient(const SoftmaxLabels &labels, int64_t row, T *dx) const {
    const T weight = static_cast<T>(labels.weight(row));
    const int64_t step = rows.inner;
    const std::optional<SoftmaxLabels::ClassTarget> target = labels.classTarget(row);
    if (!target) {
      for (int64_t k = 0; k < rows.length; ++k)
        dx[k * step] = (dx[k * step] - static_cast<T>(labels.target(row, k))) * weight;
      return;
    }
    const bool hasLabel = target->label >= 0 && target->label < rows.length;
    const T off = static_cast<T>(target->offLabel), before = hasLabel ? dx[target->label * step] : T{0};
    for (int64_t k = 0; k < rows.length; ++k) dx[k * step] = (dx[k * step] - off) * weight;
    if (hasLabel) dx[target->label * step] = (before - static_cast<T>(target->onLabel)) * weight;
  }

  AxisRows rows;
};

template <SoftmaxResult kResult> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  if (!site.wants(0)) return nullptr;
  const SoftmaxRows rows(site.kind->params<SoftmaxOutputParams>(), site.out[0].shape);
  return ofFloatingType(site.out[0].dtype, [&](auto zero) {
    return std::make_unique<SoftmaxKernel<decltype(zero), kResult>>(rows, site.threads);
  });
}

/// Inputs x, label[, dy]. With out_grad the result is multiplied by the head gradient, which is left to the reference
/// kernel.
std::unique_ptr<PreparedKernel> softmaxOutputGrad(const KernelSite &site) {
  return site.in.size() == 2 ? make<SoftmaxResult::Gradient>(site) : nullptr;
}
/// Inputs y, label. The gradient of the label, which is hardly ever requested, and out_grad are left to the reference
/// kernel.
std::unique_ptr<PreparedKernel> softmaxOutputBackward(const KernelSite &site) {
  const bool isOurs = !site.wants(1) && !site.kind->params<SoftmaxOutputParams>().outGrad;
  return isOurs ? make<SoftmaxResult::GradientFromValue>(site) : nullptr;
}

constexpr FastKernelRow kRows[] = {
    {"SoftmaxOutput", make<SoftmaxResult::Value>, LayoutRole::Plain},
    {"_SoftmaxOutput_grad", softmaxOutputGrad, LayoutRole::Plain},
    {"_backward_SoftmaxOutput", softmaxOutputBackward, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kSoftmaxOutputKernels = kRows;

}  // namespace gradc::fast
