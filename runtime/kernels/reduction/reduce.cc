// Sums and means over axes, and their gradients, which repeat along axes. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/reduction/reduce_axes.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/part_view.h"

using namespace llvm;

namespace gradc::fast {
namespace {

template <class T> class SumKernel : public ThreadedKernel {
 public:
  SumKernel(const PartView &parts, double factor, unsigned threads)
      : ThreadedKernel(threads), parts(parts), factor(factor) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    sumParts<T>(parts, threads, call.workspace, Elements<T>{x},
                [=, this](int64_t c, double total) { y[c] = static_cast<T>(total * factor); });
  }
  size_t workspaceBytes() const override { return sumPartsBytes<T>(parts); }

 private:
  PartView parts;
  double factor;
};

template <class T> class RepeatKernel : public ThreadedKernel {
 public:
  RepeatKernel(const PartView &parts, double factor, unsigned threads)
      : ThreadedKernel(threads), parts(parts), factor(static_cast<T>(factor)) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>(), scale = factor;
    T *y = call.out[0].as<T>();
    mapParts(parts, threads, [=](int64_t i, int64_t c) { y[i] = x[c] * scale; });
  }

 private:
  PartView parts;
  T factor;
};

/// The kernel between a whole and a part of shape `part`. Means are sums times 1/n, with n elements per sum.
template <template <class> class Kernel>
std::unique_ptr<PreparedKernel> make(const KernelSite &site, Dims whole, Dims part, bool isMean, Layout layout) {
  if (site.in[0].dtype != site.out[0].dtype) return nullptr;
  const std::optional<PartView> parts = partView(whole, part, layout);
  if (!parts) return nullptr;
  const double factor = isMean ? 1 / static_cast<double>(parts->view.count()) : 1;
  return floatingKernel<Kernel>(site.out[0].dtype, *parts, factor, site.threads);
}

std::unique_ptr<PreparedKernel> sumOrMean(const KernelSite &site, bool isMean) {
  const Dims whole = site.in[0].shape;
  return make<SumKernel>(site, whole, keptShape(site.kind->params<ReduceParams>(), whole), isMean, site.in[0].layout);
}

std::unique_ptr<PreparedKernel> repeatOverAxes(const KernelSite &site, bool isMean) {
  const Dims whole = site.out[0].shape;
  return make<RepeatKernel>(site, whole, keptShape(site.kind->params<ReduceParams>(), whole), isMean,
                            site.out[0].layout);
}

std::unique_ptr<PreparedKernel> sum(const KernelSite &site) { return sumOrMean(site, false); }
std::unique_ptr<PreparedKernel> mean(const KernelSite &site) { return sumOrMean(site, true); }
std::unique_ptr<PreparedKernel> sumBackward(const KernelSite &site) { return repeatOverAxes(site, false); }
std::unique_ptr<PreparedKernel> meanBackward(const KernelSite &site) { return repeatOverAxes(site, true); }

std::unique_ptr<PreparedKernel> sumDown(const KernelSite &site) {
  return make<SumKernel>(site, site.in[0].shape, site.out[0].shape, false, site.in[0].layout);
}
std::unique_ptr<PreparedKernel> repeat(const KernelSite &site) {
  return make<RepeatKernel>(site, site.out[0].shape, site.in[0].shape, false, site.out[0].layout);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_mean", meanBackward, LayoutRole::Same},
    {"_backward_sum", sumBackward, LayoutRole::Same},
    {"_broadcast_backward", sumDown, LayoutRole::Same},
    {"_sum_like", sumDown, LayoutRole::Same},
    {"broadcast_axis", repeat, LayoutRole::Same},
    {"broadcast_like", repeat, LayoutRole::Same},
    {"broadcast_to", repeat, LayoutRole::Same},
    {"mean", mean, LayoutRole::Same},
    {"sum", sum, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kReduceKernels = kRows;

}  // namespace gradc::fast
