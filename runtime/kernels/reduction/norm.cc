// Norms over axes and their gradients. Squares are added up in double precision. Where their sums leave its range, the
// reference kernel computes the norms: it scales rows by their largest element. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/reduction/norm.h"
#include "ops/reduction/reduce_axes.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/part_view.h"

#include <atomic>
#include <cmath>

using namespace llvm;

namespace gradc::fast {
namespace {

struct NormPlan {
  PartView parts;
  bool isEuclidean;
  unsigned threads;
};

/// Whether the squares of the elements can have been added up without overflow and underflow; NaN is what it is.
template <class T> bool isPlainSum(double squares) {
  if constexpr (sizeof(T) < sizeof(double)) return squares < HUGE_VAL || squares != squares;
  else return (squares > 0x1p-900 && squares < HUGE_VAL) || squares != squares;
}

template <class T> class NormKernel : public PreparedKernel {
 public:
  explicit NormKernel(const NormPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    auto sum = [&](auto term, auto store) { sumParts<double>(plan.parts, plan.threads, call.workspace, term, store); };
    if (!plan.isEuclidean) {
      sum([=](int64_t i, int64_t) { return std::abs(static_cast<double>(x[i])); },
          [=](int64_t c, double total) { y[c] = static_cast<T>(total); });
      return;
    }
    std::atomic<bool> isPlain = true;
    sum([=](int64_t i, int64_t) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); },
        [=, &isPlain](int64_t c, double total) {
          if (!isPlainSum<T>(total)) isPlain = false;
          y[c] = static_cast<T>(std::sqrt(total));
        });
    if (!isPlain) call.kind->op->kernel(call);
  }
  size_t workspaceBytes() const override { return sumPartsBytes<double>(plan.parts); }

 private:
  NormPlan plan;
};

// Inputs dy, x, y: dx = dy · sign x, or dy · x/y and 0 where y is 0.
template <class T> class NormBackward : public PreparedKernel {
 public:
  explicit NormBackward(const NormPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *y = call.in[2].as<const T>();
    T *dx = call.out[0].as<T>();
    if (plan.isEuclidean)
      mapParts(plan.parts, plan.threads,
               [=](int64_t i, int64_t c) { dx[i] = y[c] == T{0} ? T{0} : dy[c] * (x[i] / y[c]); });
    else
      mapParts(plan.parts, plan.threads,
               [=](int64_t i, int64_t c) { dx[i] = dy[c] * static_cast<T>((x[i] > T{0}) - (x[i] < T{0})); });
  }

 private:
  NormPlan plan;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t whole) {
  const TensorRef &x = site.in[whole];
  const DimsBuffer part = keptShape(site.kind->params<ReduceParams>(), x.shape);
  const std::optional<PartView> parts = partView(x.shape, part, x.layout);
  if (!parts) return nullptr;
  const NormPlan plan{*parts, normOrder(*site.kind) == 2, site.threads};
  return floatingKernel<Kernel>(site.out[0].dtype, plan);
}

std::unique_ptr<PreparedKernel> norm(const KernelSite &site) { return make<NormKernel>(site, 0); }
std::unique_ptr<PreparedKernel> normBackward(const KernelSite &site) { return make<NormBackward>(site, 1); }

constexpr FastKernelRow kRows[] = {
    {"_backward_norm", normBackward, LayoutRole::Same},
    {"norm", norm, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kNormKernels = kRows;

}  // namespace gradc::fast
