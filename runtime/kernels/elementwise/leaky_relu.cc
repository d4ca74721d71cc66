// LeakyReLU with one slope (leaky), learnt ones (prelu) or an exponential (elu, selu), and its gradient.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/elementwise/leaky_relu.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/sliced.h"
#include "runtime/kernels/elementwise/element_kernels.h"
#include "runtime/kernels/elementwise/float_functions.h"
#include "runtime/kernels/elementwise/functions.h"

using namespace llvm;

namespace gradc::fast {
namespace {

/// Elements grouped by the slope that applies to them: one for all, or one per channel.
std::optional<ChannelView> slopesOf(const LeakyAttrs &attrs, const TensorRef &x, int64_t numSlopes, Layout layout) {
  if (attrs.type != LeakyType::Prelu || numSlopes == 1) return ChannelView{1, 1, x.size()};
  return channelView(x.shape, x.shape.size() > 1 ? 1 : 0, layout);
}

/// Calls visit(i, c) for every element. With one slope for all, elements are divided among threads without regard to
/// channels.
template <class F> void mapAll(const ChannelView &view, unsigned threads, F visit) {
  if (view.channels != 1) return forSlices(view, threads, [&](Slice slice) { mapChannels(view, slice, visit); });
  vectorFor(threads, view.count(), kChannelGrain, [=](int64_t begin, int64_t end) {
    GRADC_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) visit(i, 0);
  });
}

template <class T> class LeakyReluForward : public ThreadedKernel {
 public:
  LeakyReluForward(const LeakyAttrs &attrs, const ChannelView &view, unsigned threads)
      : ThreadedKernel(threads), attrs(attrs), view(view), slope(static_cast<T>(attrs.slope)) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>(), *slopes = attrs.type == LeakyType::Prelu ? call.in[1].as<const T>() : &slope;
    T *y = call.out[0].as<T>();
    mapAll(view, threads, [=](int64_t i, int64_t c) {
      const T value = x[i], below = slopes[c] * value;
      y[i] = value > T{0} ? value : below;
    });
  }

 private:
  LeakyAttrs attrs;
  ChannelView view;
  T slope;
};

// Inputs dy, x, [gamma,] y; outputs dx[, dgamma].
template <class T> class LeakyReluBackward : public ThreadedKernel {
 public:
  LeakyReluBackward(const LeakyAttrs &attrs, const ChannelView &view, unsigned threads)
      : ThreadedKernel(threads), attrs(attrs), view(view), slope(static_cast<T>(attrs.slope)) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>();
    const T *slopes = attrs.type == LeakyType::Prelu ? call.in[2].as<const T>() : &slope;
    if (attrs.type == LeakyType::Prelu && call.wants(1)) sumSlopes(call, dy, x);
    if (!call.wants(0)) return;
    T *dx = call.out[0].as<T>();
    mapAll(view, threads, [=](int64_t i, int64_t c) {
      const T head = dy[i], below = head * slopes[c];
      dx[i] = x[i] > T{0} ? head : below;
    });
  }

  size_t workspaceBytes() const override { return attrs.type == LeakyType::Prelu ? sumBlocksBytes<1, T>(view) : 0; }

 private:
  void sumSlopes(const KernelCall &call, const T *dy, const T *x) const {
    double *totals = static_cast<double *>(call.workspace);
    sumBlocks<1, T>(view, threads, call.workspace, [=](int64_t i, int64_t, T *v) {
      const T below = dy[i] * x[i];
      v[0] = x[i] > T{0} ? T{0} : below;
    });
    for (int64_t c = 0; c < view.channels; ++c) call.out[1].as<T>()[c] = static_cast<T>(totals[c]);
  }

  LeakyAttrs attrs;
  ChannelView view;
  T slope;
};

/// elu and selu: y = scale · (x > 0 ? x : slope · (exp(x) − 1)).
template <class T> class ExponentialForward : public ThreadedKernel {
 public:
  ExponentialForward(const LeakyAttrs &attrs, unsigned threads)
      : ThreadedKernel(threads), slope(static_cast<T>(attrs.slope)), scale(static_cast<T>(attrs.scale)) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>(), slope = this->slope, scale = this->scale;
    T *y = call.out[0].as<T>();
    mapElements(call.out[0].size(), threads, [=](int64_t i) {
      const T below = slope * math::expm1(x[i]), chosen = x[i] > T{0} ? x[i] : below;
      y[i] = scale * chosen;
    });
  }

 private:
  T slope, scale;
};

// Inputs dy, x, y.
template <class T> class ExponentialBackward : public ThreadedKernel {
 public:
  ExponentialBackward(const LeakyAttrs &attrs, unsigned threads)
      : ThreadedKernel(threads), scale(static_cast<T>(attrs.scale)), limit(scale * static_cast<T>(attrs.slope)) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *y = call.in[2].as<const T>();
    const T scale = this->scale, limit = this->limit;
    T *dx = call.out[0].as<T>();
    mapElements(call.out[0].size(), threads, [=](int64_t i) {
      const T below = y[i] + limit;
      dx[i] = dy[i] * (x[i] > T{0} ? scale : below);
    });
  }

 private:
  T scale, limit;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t data) {
  const LeakyAttrs attrs = leakyAttrs(*site.kind);
  const int64_t numSlopes = attrs.type == LeakyType::Prelu ? site.in[data + 1].size() : 1;
  const std::optional<ChannelView> view = slopesOf(attrs, site.in[data], numSlopes, site.in[data].layout);
  if (!view || (numSlopes != 1 && numSlopes != view->channels)) return nullptr;
  return floatingKernel<Kernel>(site.in[data].dtype, attrs, *view, site.threads);
}

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> exponential(const KernelSite &site) {
  return floatingKernel<Kernel>(site.out[0].dtype, leakyAttrs(*site.kind), site.threads);
}

/// Rrelu draws by the position of an element in the whole tensor, so it has no kernel here.
std::unique_ptr<PreparedKernel> leakyRelu(const KernelSite &site) {
  if (!site.wants(0)) return nullptr;
  switch (leakyAttrs(*site.kind).type) {
    case LeakyType::Leaky:
    case LeakyType::Prelu: return make<LeakyReluForward>(site, 0);
    case LeakyType::Elu:
    case LeakyType::Selu: return exponential<ExponentialForward>(site);
    case LeakyType::Gelu: return gelu(site);
    case LeakyType::Rrelu: return nullptr;
  }
  return nullptr;
}
std::unique_ptr<PreparedKernel> leakyReluBackward(const KernelSite &site) {
  switch (leakyAttrs(*site.kind).type) {
    case LeakyType::Leaky:
    case LeakyType::Prelu: return make<LeakyReluBackward>(site, 1);
    case LeakyType::Elu:
    case LeakyType::Selu: return exponential<ExponentialBackward>(site);
    case LeakyType::Gelu: return geluBackward(site);
    case LeakyType::Rrelu: return sliced(site);
  }
  return nullptr;
}

constexpr FastKernelRow kRows[] = {
    {"LeakyReLU", leakyRelu, LayoutRole::Same},
    {"_backward_LeakyReLU", leakyReluBackward, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kLeakyReluKernels = kRows;

}  // namespace gradc::fast
