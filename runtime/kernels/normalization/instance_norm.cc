// InstanceNorm and GroupNorm, and their gradients. A row has the pixels of one channel, or of one group of channels, of
// one image; sums are taken in lanes. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ir/rules/missing_inputs.h"
#include "ops/normalization/group_norm.h"
#include "ops/normalization/instance_norm.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"

#include <cmath>

using namespace llvm;

namespace gradc::fast {
namespace {

/// The two operators as one: `channels` are groups of channels, too.
struct RowPlan {
  int64_t rows, channels, pixels;
  double eps;
  bool keepsDeviation;  // output 2 is the deviation, not the variance
  unsigned threads;

  /// 1 / deviation, from output 2.
  double reciprocalDeviation(double saved) const { return 1 / (keepsDeviation ? saved : std::sqrt(saved + eps)); }
};

/// Positions of the inputs of a gradient; dy is the first, the other statistic follows the mean.
struct BackwardInputs {
  size_t x, gamma, mean;
};

template <class T> class InstanceNormForward : public PreparedKernel {
 public:
  explicit InstanceNormForward(const RowPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    forRows(plan.rows, plan.pixels, plan.threads, [&](int64_t row) { runRow(call, row); });
  }

 private:
  void runRow(const KernelCall &call, int64_t row) const {
    const int64_t pixels = plan.pixels, channel = row % plan.channels;
    const T *x = call.in[0].as<const T>() + row * pixels;
    double sum = 0, squares = 0;
    addElements(x, pixels, &sum);
    const T mean = static_cast<T>(sum / static_cast<double>(pixels));
    addRun<T, 1>(0, pixels, [=](int64_t i, T *v) { v[0] = (x[i] - mean) * (x[i] - mean); }, &squares);
    const double variance = squares / static_cast<double>(pixels);
    const double saved = plan.keepsDeviation ? std::sqrt(variance + plan.eps) : variance;
    if (call.wants(1)) call.out[1].as<T>()[row] = mean;
    if (call.wants(2)) call.out[2].as<T>()[row] = static_cast<T>(saved);
    if (!call.wants(0)) return;
    const double gamma = static_cast<double>(call.in[1].as<const T>()[channel]);
    const T scale = static_cast<T>(gamma * plan.reciprocalDeviation(saved)), beta = call.in[2].as<const T>()[channel];
    T *y = call.out[0].as<T>() + row * pixels;
    GRADC_INDEPENDENT
    for (int64_t i = 0; i < pixels; ++i) y[i] = (x[i] - mean) * scale + beta;
  }

  RowPlan plan;
};

// Outputs dx, dgamma, dbeta.
template <class T> class InstanceNormBackward : public PreparedKernel {
 public:
  InstanceNormBackward(const RowPlan &plan, BackwardInputs at) : plan(plan), at(at) {}

  void run(const KernelCall &call) override {
    withMissingInputs(call, [&](const KernelCall &filled) {
      forRows(plan.rows, plan.pixels, plan.threads, [&](int64_t row) { runRow(filled, row); });
    });
    const double *sums = static_cast<const double *>(call.workspace);
    for (int64_t c = 0; c < plan.channels; ++c) {
      double heads = 0, products = 0;
      for (int64_t row = c; row < plan.rows; row += plan.channels) {
        heads += sums[2 * row];
        products += sums[2 * row + 1];
      }
      if (call.wants(1)) call.out[1].as<T>()[c] = static_cast<T>(products);
      if (call.wants(2)) call.out[2].as<T>()[c] = static_cast<T>(heads);
    }
  }

  /// Σ dy and Σ dy·x̂ of every row.
  size_t workspaceBytes() const override { return static_cast<size_t>(plan.rows) * 2 * sizeof(double); }

 private:
  // dx = γ·r·(dy − mean dy − x̂·mean(dy·x̂)), x̂ = (x − mean)·r
  void runRow(const KernelCall &call, int64_t row) const {
    const int64_t pixels = plan.pixels;
    const T *dy = call.in[0].as<const T>() + row * pixels, *x = call.in[at.x].as<const T>() + row * pixels;
    const T mean = call.in[at.mean].as<const T>()[row];
    const double r = plan.reciprocalDeviation(static_cast<double>(call.in[at.mean + 1].as<const T>()[row]));
    double *sums = static_cast<double *>(call.workspace) + 2 * row, found[2] = {};
    addRun<T, 2>(
        0, pixels,
        [=](int64_t i, T *v) {
          v[0] = dy[i];
          v[1] = dy[i] * (x[i] - mean);
        },
        found);
    sums[0] = found[0];
    sums[1] = found[1] * r;
    if (!call.wants(0)) return;
    const double count = static_cast<double>(pixels);
    const T shift = static_cast<T>(sums[0] / count), slope = static_cast<T>(sums[1] / count * r);
    const T scale = static_cast<T>(static_cast<double>(call.in[at.gamma].as<const T>()[row % plan.channels]) * r);
    T *dx = call.out[0].as<T>() + row * pixels;
    GRADC_INDEPENDENT
    for (int64_t i = 0; i < pixels; ++i) dx[i] = (dy[i] - shift - (x[i] - mean) * slope) * scale;
  }

  RowPlan plan;
  BackwardInputs at;
};

RowPlan planOf(const KernelSite &site, const TensorRef &x, const TensorRef &gamma, double eps, bool keepsDeviation) {
  const int64_t channels = gamma.size(), rows = x.shape[0] * channels;
  return {rows, channels, x.size() / rows, eps, keepsDeviation, site.threads};
}

template <template <class> class Kernel, class... Args>
std::unique_ptr<PreparedKernel> make(const KernelSite &site, const Args &...args) {
  const DType type = site.in[0].dtype;
  return floatingKernel<Kernel>(type, args...);
}

std::unique_ptr<PreparedKernel> forward(const KernelSite &site, double eps, bool keepsDeviation) {
  return make<InstanceNormForward>(site, planOf(site, site.in[0], site.in[1], eps, keepsDeviation));
}
std::unique_ptr<PreparedKernel> backward(const KernelSite &site, BackwardInputs at, double eps, bool keepsDeviation) {
  return make<InstanceNormBackward>(site, planOf(site, site.in[at.x], site.in[at.gamma], eps, keepsDeviation), at);
}

std::unique_ptr<PreparedKernel> groupNorm(const KernelSite &site) {
  return forward(site, groupNormEps(*site.kind), true);
}
std::unique_ptr<PreparedKernel> groupNormBackward(const KernelSite &site) {
  return backward(site, {.x = 1, .gamma = 2, .mean = 3}, groupNormEps(*site.kind), true);
}
std::unique_ptr<PreparedKernel> instanceNorm(const KernelSite &site) {
  return forward(site, instanceNormEps(*site.kind), false);
}
std::unique_ptr<PreparedKernel> instanceNormBackward(const KernelSite &site) {
  return backward(site, {.x = 3, .gamma = 4, .mean = 1}, instanceNormEps(*site.kind), false);
}

constexpr FastKernelRow kRows[] = {
    {"GroupNorm", groupNorm, LayoutRole::Plain},
    {"InstanceNorm", instanceNorm, LayoutRole::Plain},
    {"_backward_GroupNorm", groupNormBackward, LayoutRole::Plain},
    {"_backward_InstanceNorm", instanceNormBackward, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kInstanceNormKernels = kRows;

}  // namespace gradc::fast
