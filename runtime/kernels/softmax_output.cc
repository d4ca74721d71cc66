// SoftmaxOutput and its gradient: the softmax of the rows, then w · (p − target) in one pass.
// Tested by tests/fast_kernels_test.cc
#include "ops/kernel_dispatch.h"
#include "ops/loss/softmax_loss.h"
#include "runtime/kernels/factories.h"
#include "runtime/kernels/softmax_rows.h"

using namespace llvm;

namespace gradc::fast {
namespace {

AxisRows axisRows(const SoftmaxRows &rows) {
  const int64_t shape[] = {rows.outer, rows.classes, rows.inner};
  return AxisRows(shape, 1);
}

template <class T, bool IsGradient> class SoftmaxKernel : public PreparedKernel {
 public:
  SoftmaxKernel(const SoftmaxRows &rows, unsigned threads) : rows(axisRows(rows)), threads(threads) {}

  void run(const KernelCall &call) override {
    const RowSoftmax<T> softmax{call.in[0].as<const T>(), call.out[0].as<T>(), T{1}, false};
    forRowBlocks(rows, threads, [&](RowBlock block) { softmax.run(rows, block); });
    if constexpr (IsGradient) toGradient(call);
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
  unsigned threads;
};

template <bool IsGradient> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  std::unique_ptr<PreparedKernel> kernel;
  if (!isFloatingKernelType(site.out[0].dtype) || !site.wants(0)) return kernel;
  const SoftmaxRows rows(site.kind->params<SoftmaxOutputParams>(), site.out[0].shape);
  dispatchFloating(site.out[0].dtype, [&](auto zero) {
    kernel = std::make_unique<SoftmaxKernel<decltype(zero), IsGradient>>(rows, site.threads);
  });
  return kernel;
}

}  // namespace

std::unique_ptr<PreparedKernel> softmaxOutput(const KernelSite &site) { return make<false>(site); }
/// Inputs x, label[, dy]. With out_grad the result is multiplied by the head gradient, which is left to the reference kernel.
std::unique_ptr<PreparedKernel> softmaxOutputGrad(const KernelSite &site) {
  return site.in.size() == 2 ? make<true>(site) : nullptr;
}

}  // namespace gradc::fast
