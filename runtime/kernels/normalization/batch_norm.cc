// Batch normalisation in training and inference mode, and its gradient, in either precision and either layout. In a
// group (runtime/fusion/norm_group.h) the same passes over memory also compute a sum and a relu that follow it, or the
// gradient of a relu before that of the batch norm.
//
// oneDNN's primitive is not used: its threads spin while they wait for each other. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/normalization/batch_norm.h"

#include "ops/normalization/batch_norm.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/normalization/channel_moments.h"

#include <cmath>

using namespace llvm;

namespace gradc::fast {
namespace {

/// Per-channel columns of one call, in its workspace.
template <class T> struct Columns {
  double *totals, *squares;
  T *partial, *morePartial;
  T *mean, *scale, *shift, *slope;

  Columns(void *workspace, const ChannelView &view)
      : totals(static_cast<double *>(workspace)), squares(totals + view.channels),
        partial(reinterpret_cast<T *>(squares + view.channels)), morePartial(partial + view.channels),
        mean(reinterpret_cast<T *>(static_cast<char *>(workspace) + sumBlocksBytes<2, T>(view))),
        scale(mean + view.channels), shift(scale + view.channels), slope(shift + view.channels) {}
  ChannelSums<T> sums() const { return {totals, partial}; }
  MomentColumns<T> moments() const { return {totals, squares, partial, morePartial}; }
  static size_t bytes(const ChannelView &view) {
    return sumBlocksBytes<2, T>(view) + static_cast<size_t>(view.channels) * 4 * sizeof(T);
  }
};

/// A pass over the channels in three steps: ofSlice(slice) or, for all channels, ofAll() sums their elements;
/// settle(slice) turns the sums into coefficients, and map(slice) uses them.
template <class OfSlice, class OfAll, class Settle, class Map>
void forChannels(const ChannelView &view, unsigned threads, OfSlice ofSlice, OfAll ofAll, Settle settle, Map map) {
  const ElementBlocks blocks(view);
  if (blocks.count == 1)
    return forSlices(view, threads, [&](Slice slice) {
      ofSlice(slice);
      settle(slice);
      map(slice);
    });
  ofAll();
  settle(Slice{0, view.channels});
  forBlocks<Order::Backwards>(view, blocks, threads, [&](Slice slice, int64_t) { map(slice); });
}

template <class T> class BatchNormForward : public ThreadedKernel {
 public:
  BatchNormForward(const KernelSite &site, const BatchNormAttrs &attrs, const ChannelView &view, NormTail tail)
      : ThreadedKernel(site.threads), attrs(attrs), view(view), tail(tail),
        usesBatch(site.isTraining && !attrs.useGlobalStats && view.count() > 0) {}

  void run(const KernelCall &call) override {
    const Columns<T> columns(call.workspace, view);
    const T *x = call.in[0].as<const T>();
    forChannels(
        view, threads,
        [&](Slice slice) {
          if (usesBatch) channelMoments(view, slice, columns.moments(), x);
        },
        [&] {
          if (usesBatch) blockMoments(view, threads, call.workspace, x);
        },
        [&](Slice slice) { settle(call, slice, columns); },
        [&](Slice slice) {
          if (call.wants(0)) normalise(call, slice, columns);
        });
  }
  size_t workspaceBytes() const override { return Columns<T>::bytes(view); }

 private:
  /// Statistics of the slice: updates the moving ones, and writes requested outputs and the coefficients of
  /// y = (x − mean)·scale.
  void settle(const KernelCall &call, Slice slice, const Columns<T> &columns) const {
    const T *gamma = call.in[1].as<const T>();
    T *movingMean = call.in[3].as<T>(), *movingVar = call.in[4].as<T>();
    for (int64_t c = slice.begin; c < slice.end; ++c) {
      double variance = static_cast<double>(movingVar[c]);
      if (usesBatch) {
        const double mean = columns.totals[c];
        variance = columns.squares[c] / static_cast<double>(view.count());
        columns.mean[c] = static_cast<T>(mean);
        movingMean[c] = moved(movingMean[c], mean);
        movingVar[c] = moved(movingVar[c], variance);
      } else {
        columns.mean[c] = movingMean[c];
      }
      const T deviation = static_cast<T>(1 / std::sqrt(variance + attrs.eps));
      columns.scale[c] = attrs.fixGamma ? deviation : gamma[c] * deviation;
      if (call.wants(1)) call.out[1].as<T>()[c] = columns.mean[c];
      if (call.wants(2)) call.out[2].as<T>()[c] = deviation;
    }
  }

  void normalise(const KernelCall &call, Slice slice, const Columns<T> &columns) const {
    const T *addend = tail.hasAddend ? call.in.back().as<const T>() : nullptr;
    auto relu = [](T y) { return y <= 0 ? T{0} : y; };
    if (tail.hasAddend && tail.hasRelu)
      mapNormal(call, slice, columns, [=](T y, int64_t i) { return relu(y + addend[i]); });
    else if (tail.hasAddend) mapNormal(call, slice, columns, [=](T y, int64_t i) { return y + addend[i]; });
    else if (tail.hasRelu) mapNormal(call, slice, columns, [=](T y, int64_t) { return relu(y); });
    else mapNormal(call, slice, columns, [](T y, int64_t) { return y; });
  }

  template <class Then>
  void mapNormal(const KernelCall &call, Slice slice, const Columns<T> &columns, Then then) const {
    const T *x = call.in[0].as<const T>(), *beta = call.in[2].as<const T>();
    const T *mean = columns.mean, *scale = columns.scale;
    T *y = call.out[0].as<T>();
    mapChannels(view, slice, [=](int64_t i, int64_t c) { y[i] = then((x[i] - mean[c]) * scale[c] + beta[c], i); });
  }

  T moved(T moving, double batch) const {
    return static_cast<T>(static_cast<double>(moving) * attrs.momentum + batch * (1 - attrs.momentum));
  }

  BatchNormAttrs attrs;
  ChannelView view;
  NormTail tail;
  bool usesBatch;
};

// Inputs dy, mean, r, x, gamma, beta, …; outputs dx, dgamma, dbeta. After the gradient of a relu, dy is that node's
// head gradient.
template <class T> class BatchNormBackward : public ThreadedKernel {
 public:
  BatchNormBackward(const KernelSite &site, const BatchNormAttrs &attrs, const ChannelView &view, bool isBehindRelu)
      : ThreadedKernel(site.threads), attrs(attrs), view(view),
        usesBatch(site.isTraining && !attrs.useGlobalStats && view.count() > 0), isBehindRelu(isBehindRelu) {}

  void run(const KernelCall &call) override {
    const Columns<T> columns(call.workspace, view);
    const T *dy = call.in[0].as<const T>(), *mean = call.in[1].as<const T>(), *x = call.in[3].as<const T>();
    const T *deviation = call.in[2].as<const T>(), *gamma = call.in[4].as<const T>();
    for (int64_t c = 0; c < view.channels; ++c)
      columns.scale[c] = attrs.fixGamma ? deviation[c] : gamma[c] * deviation[c];
    if (!isBehindRelu) return runFrom(call, columns, [=](int64_t i, int64_t) { return dy[i]; });
    // Recomputes the relu's input as the forward kernel computes it, so its sign is the same and it need not be stored.
    const T *scale = columns.scale, *beta = call.in[5].as<const T>();
    runFrom(call, columns,
            [=](int64_t i, int64_t c) { return keptWhere((x[i] - mean[c]) * scale[c] + beta[c], dy[i]); });
  }
  size_t workspaceBytes() const override { return Columns<T>::bytes(view); }

 private:
  /// head(i, c) is the gradient of element i of the output, in channel c.
  template <class Head> void runFrom(const KernelCall &call, const Columns<T> &columns, Head head) const {
    const T *mean = call.in[1].as<const T>(), *x = call.in[3].as<const T>();
    auto terms = [=](int64_t i, int64_t c, T *v) {
      v[0] = head(i, c);
      v[1] = v[0] * (x[i] - mean[c]);
    };
    forChannels(
        view, threads, [&](Slice slice) { sumChannels<2>(view, slice, columns.sums(), terms); },
        [&] { sumBlocks<2, T>(view, threads, call.workspace, terms); },
        [&](Slice slice) { settle(call, slice, columns); },
        [&](Slice slice) {
          if (call.wants(0)) toData(call, slice, columns, head);
        });
  }

  /// The coefficients of dx = (dy − shift − (x − mean)·slope)·scale.
  void settle(const KernelCall &call, Slice slice, const Columns<T> &columns) const {
    const T *deviation = call.in[2].as<const T>();
    const double weight = usesBatch ? 1 / static_cast<double>(view.count()) : 0;
    for (int64_t c = slice.begin; c < slice.end; ++c) {
      const double r = static_cast<double>(deviation[c]), total = columns.totals[c];
      const double product = columns.totals[view.channels + c] * r;
      if (call.wants(1)) call.out[1].as<T>()[c] = attrs.fixGamma ? T{0} : static_cast<T>(product);
      if (call.wants(2)) call.out[2].as<T>()[c] = static_cast<T>(total);
      columns.shift[c] = static_cast<T>(total * weight);
      columns.slope[c] = static_cast<T>(product * weight * r);
    }
  }

  template <class Head> void toData(const KernelCall &call, Slice slice, const Columns<T> &columns, Head head) const {
    const T *mean = call.in[1].as<const T>(), *x = call.in[3].as<const T>();
    const T *scale = columns.scale, *shift = columns.shift, *slope = columns.slope;
    T *dx = call.out[0].as<T>();
    mapChannels(view, slice, [=](int64_t i, int64_t c) {
      dx[i] = (head(i, c) - shift[c] - (x[i] - mean[c]) * slope[c]) * scale[c];
    });
  }

  BatchNormAttrs attrs;
  ChannelView view;
  bool usesBatch, isBehindRelu;
};

template <template <class> class Kernel, class... Args>
std::unique_ptr<PreparedKernel> make(const KernelSite &site, size_t data, Args... args) {
  const BatchNormAttrs attrs = batchNormAttrs(*site.kind);
  const std::optional<ChannelView> view = channelView(site.in[data].shape, attrs.axis, site.in[data].layout);
  if (!view) return nullptr;
  return floatingKernel<Kernel>(site.in[data].dtype, site, attrs, *view, args...);
}

}  // namespace

std::unique_ptr<PreparedKernel> batchNorm(const KernelSite &site) { return batchNormThen(site, {}); }
std::unique_ptr<PreparedKernel> batchNormBackward(const KernelSite &site) {
  return make<BatchNormBackward>(site, 3, false);
}
std::unique_ptr<PreparedKernel> batchNormBackwardBehindRelu(const KernelSite &site) {
  return make<BatchNormBackward>(site, 3, true);
}

std::unique_ptr<PreparedKernel> batchNormThen(const KernelSite &site, NormTail tail) {
  return make<BatchNormForward>(site, 0, tail);
}

namespace {

constexpr FastKernelRow kRows[] = {
    {"BatchNorm", batchNorm, LayoutRole::Same},
    {"_backward_BatchNorm", batchNormBackward, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kBatchNormKernels = kRows;

}  // namespace gradc::fast
