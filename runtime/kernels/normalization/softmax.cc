// softmax, softmin, log_softmax, SoftmaxActivation and their gradients. Nodes with row lengths, or with outputs of
// another type, are left to the reference kernels. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/axis_rows.h"
#include "ops/normalization/softmax.h"
#include "ops/normalization/softmax_activation.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/reduction/softmax_rows.h"

using namespace llvm;

namespace gradc::fast {
namespace {

template <class T> class SoftmaxForward : public ThreadedKernel {
 public:
  SoftmaxForward(const AxisRows &rows, const SoftmaxAttrs &attrs, unsigned threads)
      : ThreadedKernel(threads), rows(rows), factor(static_cast<T>(attrs.factor)), isLog(attrs.isLog) {}

  void run(const KernelCall &call) override {
    const RowSoftmax<T> softmax{call.in[0].as<const T>(), call.out[0].as<T>(), factor, isLog};
    forRowBlocks(rows, threads, [&](RowBlock block) { softmax.run(rows, block); });
  }

 private:
  AxisRows rows;
  T factor;
  bool isLog;
};

// Inputs dy, …, y: dx = y·(dy − Σ dy·y)·factor, or (dy − exp(y)·Σ dy)·factor.
template <class T> class SoftmaxBackward : public ThreadedKernel {
 public:
  SoftmaxBackward(const AxisRows &rows, const SoftmaxAttrs &attrs, unsigned threads)
      : ThreadedKernel(threads), rows(rows), factor(static_cast<T>(attrs.factor)), isLog(attrs.isLog) {}

  void run(const KernelCall &call) override {
    forRowBlocks(rows, threads, [&](RowBlock block) {
      const T *dy = call.in[0].as<const T>(), *y = call.in.back().as<const T>(), scale = factor;
      T *dx = call.out[0].as<T>();
      double totals[kRowBlock];
      T sums[kRowBlock];
      if (isLog) sumRows<T>(rows, block, [=](int64_t i) { return dy[i]; }, totals);
      else sumRows<T>(rows, block, [=](int64_t i) { return dy[i] * y[i]; }, totals);
      for (int64_t r = 0; r < block.width; ++r) sums[r] = static_cast<T>(totals[r]);
      const T *sum = sums;
      if (isLog)
        forElements(rows, block,
                    [=](int64_t i, int64_t r) { dx[i] = (dy[i] - math::expOfNonPositive(y[i]) * sum[r]) * scale; });
      else forElements(rows, block, [=](int64_t i, int64_t r) { dx[i] = y[i] * (dy[i] - sum[r]) * scale; });
    });
  }

 private:
  AxisRows rows;
  T factor;
  bool isLog;
};

template <template <class> class Kernel>
std::unique_ptr<PreparedKernel> make(const KernelSite &site, const SoftmaxAttrs &attrs) {
  const DType type = site.out[0].dtype;
  if (site.in[0].dtype != type || site.in.back().dtype != type) return nullptr;
  if (attrs.hasLength || !site.wants(0) || site.out[0].shape.empty()) return nullptr;
  const std::optional<size_t> axis = normalizeAxis(attrs.axis, site.out[0].shape.size());
  if (!axis) return nullptr;
  const AxisRows rows(site.out[0].shape, *axis);
  return floatingKernel<Kernel>(type, rows, attrs, site.threads);
}

std::unique_ptr<PreparedKernel> softmax(const KernelSite &site) {
  return make<SoftmaxForward>(site, softmaxAttrs(*site.kind));
}
std::unique_ptr<PreparedKernel> softmaxBackward(const KernelSite &site) {
  return make<SoftmaxBackward>(site, softmaxAttrs(*site.kind));
}
std::unique_ptr<PreparedKernel> softmaxActivation(const KernelSite &site) {
  return make<SoftmaxForward>(site, softmaxActivationAttrs(*site.kind));
}
std::unique_ptr<PreparedKernel> softmaxActivationBackward(const KernelSite &site) {
  return make<SoftmaxBackward>(site, softmaxActivationAttrs(*site.kind));
}

constexpr FastKernelRow kRows[] = {
    {"SoftmaxActivation", softmaxActivation, LayoutRole::Plain},
    {"_backward_SoftmaxActivation", softmaxActivationBackward, LayoutRole::Plain},
    {"_backward_log_softmax", softmaxBackward, LayoutRole::Plain},
    {"_backward_softmax", softmaxBackward, LayoutRole::Plain},
    {"_backward_softmin", softmaxBackward, LayoutRole::Plain},
    {"log_softmax", softmax, LayoutRole::Plain},
    {"softmax", softmax, LayoutRole::Plain},
    {"softmin", softmax, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kSoftmaxKernels = kRows;

}  // namespace gradc::fast
