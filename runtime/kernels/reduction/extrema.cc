// Largest and smallest elements over axes, and their gradients. As in the reference kernel, a NaN among the elements is
// the result. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/reduction/reduce_axes.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/part_view.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace gradc::fast {
namespace {

/// The extremum of two; a NaN stays.
template <bool isMax, class T> T better(T a, T best) {
  const bool isBeyond = isMax ? a > best : a < best;
  return (isBeyond | (a != a)) ? a : best;
}

/// The extremum of a run and `best`.
template <bool isMax, class T> T ofRun(const T *x, int64_t size, T best) {
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, best);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = better<isMax>(x[i + l], lanes[l]);
  for (; i < size; ++i) best = better<isMax>(x[i], best);
  for (const T lane : lanes) best = better<isMax>(lane, best);
  return best;
}

template <class T, bool isMax> class ExtremumKernel : public ThreadedKernel {
 public:
  ExtremumKernel(const PartView &parts, unsigned threads) : ThreadedKernel(threads), parts(parts), blocks(parts.view) {}

  void run(const KernelCall &call) override {
    const ChannelView &view = parts.view;
    for (int64_t b = 0; b < parts.batch; ++b) {
      const T *x = call.in[0].as<const T>() + b * parts.wholeSize();
      T *y = call.out[0].as<T>() + b * view.channels, *found = blocks.count == 1 ? y : static_cast<T *>(call.workspace);
      forBlocks(view, blocks, threads, [&](Slice slice, int64_t block) {
        T *to = found + block * view.channels;
        if (view.isRows()) alongRows(x, slice, to);
        else
          for (int64_t c = slice.begin; c < slice.end; ++c) to[c] = ofChannel(x, slice, c);
      });
      if (blocks.count == 1) continue;
      for (int64_t c = 0; c < view.channels; ++c) {
        y[c] = found[c];
        for (int64_t block = 1; block < blocks.count; ++block)
          y[c] = better<isMax>(found[block * view.channels + c], y[c]);
      }
    }
  }
  size_t workspaceBytes() const override {
    return blocks.count == 1 ? 0 : static_cast<size_t>(blocks.count * parts.view.channels) * sizeof(T);
  }

 private:
  void alongRows(const T *x, Slice slice, T *best) const {
    const int64_t channels = parts.view.channels, last = std::min(slice.last, parts.view.outer);
    std::copy(x + slice.first * channels + slice.begin, x + slice.first * channels + slice.end, best + slice.begin);
    for (int64_t row = slice.first + 1; row < last; ++row) {
      const T *from = x + row * channels;
      GRADC_INDEPENDENT
      for (int64_t c = slice.begin; c < slice.end; ++c) best[c] = better<isMax>(from[c], best[c]);
    }
  }

  T ofChannel(const T *x, Slice slice, int64_t c) const {
    T best = isMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
    forRuns(parts.view, slice, c, [&](int64_t begin, int64_t size) { best = ofRun<isMax>(x + begin, size, best); });
    return best;
  }

  PartView parts;
  ElementBlocks blocks;
};

// Inputs dy, x, y: dx = dy where x is the extremum.
template <class T> class ExtremumBackward : public ThreadedKernel {
 public:
  ExtremumBackward(const PartView &parts, unsigned threads) : ThreadedKernel(threads), parts(parts) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>(), *y = call.in[2].as<const T>();
    T *dx = call.out[0].as<T>();
    mapParts(parts, threads, [=](int64_t i, int64_t c) { dx[i] = x[i] == y[c] ? dy[c] : T{0}; });
  }

 private:
  PartView parts;
};
template <class T> using Largest = ExtremumKernel<T, true>;
template <class T> using Smallest = ExtremumKernel<T, false>;

template <template <class> class Kernel>
std::unique_ptr<PreparedKernel> make(const KernelSite &site, const TensorRef &whole) {
  const DimsBuffer part = keptShape(site.kind->params<ReduceParams>(), whole.shape);
  const std::optional<PartView> parts = partView(whole.shape, part, whole.layout);
  if (!parts) return nullptr;
  return floatingKernel<Kernel>(site.out[0].dtype, *parts, site.threads);
}

std::unique_ptr<PreparedKernel> largest(const KernelSite &site) { return make<Largest>(site, site.in[0]); }
std::unique_ptr<PreparedKernel> smallest(const KernelSite &site) { return make<Smallest>(site, site.in[0]); }
std::unique_ptr<PreparedKernel> extremumBackward(const KernelSite &site) {
  return make<ExtremumBackward>(site, site.in[1]);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_max", extremumBackward, LayoutRole::Same},
    {"_backward_min", extremumBackward, LayoutRole::Same},
    {"max", largest, LayoutRole::Same},
    {"min", smallest, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kExtremaKernels = kRows;

}  // namespace gradc::fast
