// Local response normalisation across channels, its gradient, and sums over windows of channels, in either layout.
//
// Within one image, the element j channels away from element i is i ± j · step in either layout, so a sum over the
// window is a sum of shifted runs. oneDNN's primitive is not used: it keeps what the gradient needs in an opaque
// workspace. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/normalization/lrn.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"

#include <cmath>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kBlock = 512;  // elements whose windows are summed at once

/// Rows of channels: an image (or a pixel, with channels last) is `size` elements, channels `step` apart.
struct ChannelRuns {
  int64_t count, size, step, half;

  ChannelRuns(const TensorRef &x, Layout layout, int64_t nsize) : step(1), half(nsize / 2) {
    const int64_t channels = x.shape[1];
    if (layout == Layout::Plain)
      for (int64_t dim : x.shape.drop_front(2)) step *= dim;
    size = channels * step;
    count = x.size() / size;
    half = std::min(half, channels - 1);
  }

  /// Calls body(image, from, to) for blocks [from, to) of the elements of each image, divided among threads.
  template <class F> void forBlocks(unsigned threads, F body) const {
    const int64_t perImage = (size + kBlock - 1) / kBlock;
    vectorFor(threads, count * perImage, kChannelGrain / std::min(size, kBlock), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t from = at % perImage * kBlock;
        body(at / perImage * size, from, std::min(from + kBlock, size));
      }
    });
  }

  /// sums[i − from] = Σ of term(element) over the window around i, for i in [from, to). Windows end at the ends of the
  /// image.
  template <class T, class Term> void sumWindows(int64_t image, int64_t from, int64_t to, Term term, T *sums) const {
    std::fill(sums, sums + (to - from), T{0});
    for (int64_t j = -half; j <= half; ++j) {
      const int64_t shift = j * step, first = std::max(from, -shift), last = std::min(to, size - shift);
      GRADC_INDEPENDENT
      for (int64_t i = first; i < last; ++i) sums[i - from] += term(image + i + shift);
    }
  }
};

/// n^−β, by square roots where β allows.
template <class T> T power(T norm, double beta) {
  if (beta == 0.75) return T{1} / (std::sqrt(norm) * std::sqrt(std::sqrt(norm)));
  if (beta == 0.5) return T{1} / std::sqrt(norm);
  return std::pow(norm, static_cast<T>(-beta));
}

template <class T> void powers(const T *norms, int64_t size, double beta, T *to) {
  if (beta == 0.75) {
    GRADC_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) to[i] = power(norms[i], 0.75);
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = power(norms[i], beta);
  }
}

/// Attributes and data shape of one node, in the form that all kernels of this file share.
struct LrnPlan {
  LrnAttrs attrs;
  ChannelRuns runs;
  unsigned threads;
};

template <class T> class LrnForward : public PreparedKernel {
 public:
  explicit LrnForward(const LrnPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.wants(0) ? call.out[0].as<T>() : nullptr, *norms = call.wants(1) ? call.out[1].as<T>() : nullptr;
    const T scale = static_cast<T>(plan.attrs.scale), knorm = static_cast<T>(plan.attrs.knorm);
    plan.runs.forBlocks(plan.threads, [&](int64_t image, int64_t from, int64_t to) {
      T sums[kBlock], factors[kBlock];
      plan.runs.sumWindows(image, from, to, [=](int64_t i) { return x[i] * x[i]; }, sums);
      const int64_t size = to - from, first = image + from;
      for (int64_t i = 0; i < size; ++i) sums[i] = knorm + scale * sums[i];
      if (norms) std::copy(sums, sums + size, norms + first);
      if (!y) return;
      powers(sums, size, plan.attrs.beta, factors);
      for (int64_t i = 0; i < size; ++i) y[first + i] = x[first + i] * factors[i];
    });
  }

 private:
  LrnPlan plan;
};

// Inputs dy, x, n: dx = dy·n^−β − 2·β·scale · x · Σ over the window of dy·x·n^(−β−1), whose terms are in the workspace.
template <class T> class LrnBackward : public PreparedKernel {
 public:
  LrnBackward(const LrnPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *norms = call.in[2].as<const T>();
    T *dx = call.out[0].as<T>(), *shares = static_cast<T *>(call.workspace);
    const T slope = static_cast<T>(2 * plan.attrs.beta * plan.attrs.scale);
    plan.runs.forBlocks(plan.threads, [&](int64_t image, int64_t from, int64_t to) {
      const int64_t size = to - from, first = image + from;
      T factors[kBlock];
      powers(norms + first, size, plan.attrs.beta, factors);
      GRADC_INDEPENDENT
      for (int64_t i = 0; i < size; ++i) {
        const T direct = dy[first + i] * factors[i];
        shares[first + i] = direct * x[first + i] / norms[first + i];
        dx[first + i] = direct;
      }
    });
    plan.runs.forBlocks(plan.threads, [&](int64_t image, int64_t from, int64_t to) {
      T sums[kBlock];
      plan.runs.sumWindows(image, from, to, [=](int64_t i) { return shares[i]; }, sums);
      T *at = dx + image + from;
      const T *factor = x + image + from;
      for (int64_t i = 0; i < to - from; ++i) at[i] -= slope * factor[i] * sums[i];
    });
  }
  size_t workspaceBytes() const override { return static_cast<size_t>(plan.runs.count * plan.runs.size) * sizeof(T); }

 private:
  LrnPlan plan;
};

template <class T> class WindowSum : public PreparedKernel {
 public:
  explicit WindowSum(const LrnPlan &plan) : plan(plan) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    plan.runs.forBlocks(plan.threads, [&](int64_t image, int64_t from, int64_t to) {
      plan.runs.sumWindows(image, from, to, [=](int64_t i) { return x[i]; }, y + image + from);
    });
  }

 private:
  LrnPlan plan;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  const LrnAttrs attrs = lrnAttrs(*site.kind);
  if (attrs.nsize > kWidestLrnWindow) return nullptr;
  const LrnPlan plan{attrs, ChannelRuns(site.in[0], site.in[0].layout, attrs.nsize), site.threads};
  return floatingKernel<Kernel>(site.in[0].dtype, plan);
}

constexpr FastKernelRow kRows[] = {
    {"LRN", make<LrnForward>, LayoutRole::Same},
    {"_backward_LRN", make<LrnBackward>, LayoutRole::Same},
    {"_channel_window_sum", make<WindowSum>, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kLrnKernels = kRows;

}  // namespace gradc::fast
