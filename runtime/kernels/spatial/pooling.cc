// Maximum and mean pooling, and their gradients. oneDNN computes float32, and with two axes also channels last by
// attribute; pooling_loops.h computes float64 over one or two axes or whole volumes, and means that count only part of
// the padding.
//
// The gradient of the maximum needs the positions of the maxima. oneDNN's forward primitive writes them, so the
// backward kernel runs it again into scratch instead of keeping them from the forward pass. oneDNN's maximum starts at
// the lowest finite number: images with windows of −∞ and NaN alone run on the loops of the reference kernel. Padding
// that the operator and oneDNN count differently is left to that kernel altogether. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/kernel_dispatch.h"
#include "ops/spatial/pooling_kernel.h"
#include "ops/spatial/pooling_params.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/vector_loops.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"
#include "runtime/kernels/matrix/column_sums.h"
#include "runtime/kernels/spatial/pooling_loops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <atomic>
#include <limits>

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

/// The shape of images as (n, c, h, w): a line becomes an image of one row; a volume under global pooling has its
/// slices stacked below each other. Other volumes stay (n, c, d, h, w).
DimsBuffer imageShape(const PoolingParams &p, Dims shape) {
  const Dims extent = p.channelsLast() ? shape.drop_front().drop_back() : shape.drop_front(2);
  if (extent.size() == 3 && !p.globalPool) return DimsBuffer(shape);
  DimsBuffer image = {shape[0], p.channelsLast() ? shape.back() : shape[1], 1, extent.back()};
  for (int64_t size : extent.drop_back()) image[2] *= size;
  return image;
}

std::optional<PoolingPlan> planOf(const PoolingParams &p, Dims xShape, Dims yShape) {
  const size_t rank = xShape.size();
  if (p.poolType != PoolType::Max && p.poolType != PoolType::Avg) return std::nullopt;
  PoolingPlan plan;
  plan.x = imageShape(p, xShape);
  plan.y = imageShape(p, yShape);
  const Dims x = plan.x, y = plan.y;
  const size_t added = rank == 3 ? 1 : 0;  // the axis across a line
  int64_t taps = 1;
  for (size_t i = 0; i < plan.numAxes(); ++i) {
    const bool isAxis = !p.globalPool && i >= added;
    const size_t axis = i - added;
    const int64_t kernel = p.globalPool ? x[2 + i] : isAxis ? p.kernel[axis] : 1;
    const int64_t stride = isAxis ? p.stride[axis] : 1, low = isAxis ? p.pad[axis] : 0;
    const int64_t high = (y[2 + i] - 1) * stride + kernel - x[2 + i] - low;
    plan.countsPadding |= p.countsPadding() && low > 0;  // without padding there is nothing to count
    plan.isClipped |= p.poolType == PoolType::Avg && high > low;
    // Windows that are entirely padding are special.
    if (low >= kernel || high >= kernel) return std::nullopt;
    // Windows that are mostly padding, which the reference kernel skips.
    if (low > x[2 + i] || high > x[2 + i]) return std::nullopt;
    plan.kernel[i] = kernel;
    plan.stride[i] = stride;
    plan.padLow[i] = low;
    plan.padHigh[i] = high;
    if (kernel > std::numeric_limits<int32_t>::max() / taps) return std::nullopt;  // oneDNN counts in int
    taps *= kernel;
  }
  plan.taps = taps;
  plan.isMax = p.poolType == PoolType::Max;
  plan.isClipped &= plan.countsPadding;
  return plan;
}

dnnl::algorithm algorithmOf(const PoolingPlan &plan) {
  if (plan.isMax) return dnnl::algorithm::pooling_max;
  return plan.countsPadding ? dnnl::algorithm::pooling_avg_include_padding
                            : dnnl::algorithm::pooling_avg_exclude_padding;
}

/// Both operands are computed in the same layout: channels-last if one of them is channels-last and the difference
/// matters.
struct PoolingDescs {
  memory::desc x, y;  // outside
  memory::desc insideX, insideY;
};

/// The layout of an operand as images (n, c, h, w).
Layout outside(const PoolingParams &p, const TensorRef &tensor) {
  return p.channelsLast() ? Layout::ChannelsLast : tensor.layout;
}

PoolingDescs describe(const PoolingPlan &plan, Layout xLayout, Layout yLayout) {
  const Layout inside = plan.isOnePixel() ? xLayout : std::max(xLayout, yLayout);
  return {denseDesc(plan.x, xLayout), denseDesc(plan.y, plan.isOnePixel() ? inside : yLayout),
          denseDesc(plan.x, inside), denseDesc(plan.y, inside)};
}

bool isMoved(const TensorRef &tensor) { return tensor.layout != Layout::Plain; }

/// Whether pooling_loops.h can compute the node.
bool isPlain(const KernelSite &site, const PoolingPlan &plan) {
  const bool isLast = site.kind->params<PoolingParams>().channelsLast();
  return plan.numAxes() == 2 && !isLast && none_of(site.in, isMoved) && none_of(site.out, isMoved);
}

/// Whether oneDNN cannot compute the node.
bool needsLoops(const KernelSite &site, const PoolingPlan &plan) {
  return site.in[0].dtype != DType::Float32 || plan.isClipped;
}

/// Nodes with channels last by attribute, and volumes, are left to oneDNN: float32 only, with operands in no other
/// layout.
bool canHandle(const KernelSite &site, const PoolingParams &p) {
  if (!isFloatingKernelType(site.in[0].dtype) || !site.wants(0)) return false;
  const bool isVolume = site.in[0].shape.size() == 5 && !p.globalPool;
  if (isVolume && p.channelsLast()) return false;
  if (!isVolume && !p.channelsLast()) return true;
  return site.in[0].dtype == DType::Float32 && none_of(site.in, isMoved) && none_of(site.out, isMoved);
}

using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

PoolingWindow windowOf(const PoolingPlan &plan) {
  auto list = [&](const int64_t(&values)[3]) { return memory::dims(values, values + plan.numAxes()); };
  return {list(plan.stride), list(plan.kernel), list(plan.padLow), list(plan.padHigh)};
}

Forward::primitive_desc forwardDesc(const PoolingPlan &plan, const PoolingDescs &d, dnnl::prop_kind kind) {
  return poolingDescOf(kind, algorithmOf(plan), d.insideX, d.insideY, windowOf(plan));
}

/// Row-major images where oneDNN has only scalar code, which takes 2 to 20 times as long: without AVX-512. Loops over
/// rows of a single output are no faster.
bool prefersLoops(const KernelSite &site, const PoolingPlan &plan) {
  if (plan.y.back() == 1 || !isPlain(site, plan)) return false;
  bool isGenerated = false;
  guarded([&] {
    const PoolingDescs d = describe(plan, Layout::Plain, Layout::Plain);
    const Forward::primitive_desc desc = forwardDesc(plan, d, dnnl::prop_kind::forward_training);
    isGenerated = StringRef(desc.impl_info_str()).starts_with("jit");
  });
  return !isGenerated;
}

ImageView viewOf(Dims shape, Layout layout) {
  ImageView view = imageView(shape, false);
  if (layout == Layout::ChannelsLast) {
    view.channelStride = 1;
    view.pixelStride = view.channels;
  }
  return view;
}

/// The maximum by the loops of the reference kernel, image by image.
class PlainMaximum {
 public:
  PlainMaximum(const PoolingPlan &plan, Layout xLayout, Layout yLayout, unsigned threads)
      : images(plan.x[0]), threads(threads) {
    g.in = viewOf(plan.x, xLayout);
    g.out = viewOf(plan.y, yLayout);
    g.in.batch = g.out.batch = 1;
    setSpatial(g.kernel, Dims(plan.kernel, plan.numAxes()));
    setSpatial(g.stride, Dims(plan.stride, plan.numAxes()));
    setSpatial(g.pad, Dims(plan.padLow, plan.numAxes()));
  }

  /// Whether oneDNN's maxima `y` may be wrong: it found nothing above the number where it starts.
  bool isNeeded(const float *y) const {
    std::atomic<bool> isFound = false;
    vectorFor(threads, images * g.out.batchStride, kGrain, [&isFound, y](int64_t begin, int64_t end) {
      constexpr int64_t kLanes = 16;  // so that the loop is vectorised
      int32_t lanes[kLanes] = {};
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes)
        for (int64_t l = 0; l < kLanes; ++l) lanes[l] |= static_cast<int32_t>(y[i + l] == kLowest);
      for (; i < end; ++i) lanes[0] |= static_cast<int32_t>(y[i] == kLowest);
      if (std::any_of(lanes, lanes + kLanes, [](int32_t lane) { return lane != 0; })) isFound = true;
    });
    return isFound;
  }
  void gather(const float *x, float *y) const {
    forImages([&](int64_t n) {
      const float *image = x + n * g.in.batchStride;
      poolGather(g, image, image, kLowest, y + n * g.out.batchStride);
    });
  }
  void scatter(const float *dy, const float *x, float *dx) const {
    forImages([&](int64_t n) {
      std::vector<double> sums(poolSums(g));
      poolScatter(g, dy + n * g.out.batchStride, x + n * g.in.batchStride, dx + n * g.in.batchStride, sums.data());
    });
  }

 private:
  static constexpr float kLowest = std::numeric_limits<float>::lowest();
  static constexpr int64_t kGrain = 65536;  // fewer comparisons are not worth a second thread

  void forImages(function_ref<void(int64_t)> body) const {
    parallelFor(threads, images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) body(n);
    });
  }

  PoolGeometry g;  // of one image
  int64_t images;
  unsigned threads;
};

class PoolingForward : public PreparedKernel {
 public:
  PoolingForward(const PoolingPlan &plan, const PoolingDescs &d, const PlainMaximum &plain)
      : isMax(plan.isMax), plain(plain) {
    const Forward::primitive_desc desc = forwardDesc(plan, d, dnnl::prop_kind::forward_inference);
    step.input(DNNL_ARG_SRC, d.x, d.insideX);
    step.output(DNNL_ARG_DST, d.y, d.insideY);
    step.finish(Forward(desc), desc.scratchpad_desc());
  }
  void run(const KernelCall &call) override {
    step.run({call.in[0].data, call.out[0].data}, call.workspace);
    float *y = call.out[0].as<float>();
    if (isMax && plain.isNeeded(y)) plain.gather(call.in[0].as<const float>(), y);
  }
  size_t workspaceBytes() const override { return step.bytes(); }
  Reorders reorders() const override { return step.reorders(); }

 private:
  bool isMax;
  PlainMaximum plain;
  DnnlStep step;
};

/// The mean of every channel of large images, by block sums.
template <class T> class ImageMeans : public PreparedKernel {
 public:
  ImageMeans(const PoolingPlan &plan, Layout layout) : images(layout == Layout::ChannelsLast ? plan.x[0] : 1) {
    const ImageView view = viewOf(plan.x, layout);
    if (layout == Layout::ChannelsLast) channels = {view.pixels(), view.channels, 1};
    else channels = {1, view.batch * view.channels, view.pixels()};
  }
  void run(const KernelCall &call) override {
    T *y = call.out[0].as<T>();
    for (int64_t n = 0; n < images; ++n)
      sumPerChannel(channels, call.in[0].as<const T>() + n * channels.count() * channels.channels,
                    y + n * channels.channels);
    const T count = static_cast<T>(channels.count());
    for (int64_t i = 0; i < images * channels.channels; ++i) y[i] /= count;
  }

 private:
  int64_t images;
  ChannelView channels;
};

/// Empty for windows whose sums are too long for one number in the type of the data, unless they are the whole image.
std::unique_ptr<PreparedKernel> widePooling(const KernelSite &site, const PoolingPlan &plan, Layout layout) {
  if (!plan.isOnePixel()) return nullptr;
  for (size_t i = 0; i < plan.numAxes(); ++i)
    if (plan.kernel[i] != plan.x[2 + i] || plan.padLow[i] != 0 || plan.padHigh[i] != 0) return nullptr;
  return floatingKernel<ImageMeans>(site.in[0].dtype, plan, layout);
}

class PoolingBackward : public PreparedKernel {
 public:
  /// `data` is the position of x among the inputs.
  PoolingBackward(const PoolingPlan &plan, const PoolingDescs &d, const PlainMaximum &plain, size_t data)
      : data(data), plain(plain) {
    const Forward::primitive_desc again = forwardDesc(plan, d, dnnl::prop_kind::forward_training);
    const Backward::primitive_desc desc =
        poolingBackwardDescOf(again, algorithmOf(plan), d.insideX, d.insideY, windowOf(plan));
    if (plan.isMax) {
      positions.input(DNNL_ARG_SRC, d.x, d.insideX);
      positions.scratch(DNNL_ARG_DST, d.insideY);
      positions.scratch(DNNL_ARG_WORKSPACE, again.workspace_desc());
      positions.finish(Forward(again), again.scratchpad_desc());
      step.reserve(positions.bytes());
      step.scratchAt(DNNL_ARG_WORKSPACE, again.workspace_desc(), positions.offsetOf(DNNL_ARG_WORKSPACE));
    }
    step.input(DNNL_ARG_DIFF_DST, d.y, d.insideY);
    step.output(DNNL_ARG_DIFF_SRC, d.x, d.insideX);
    step.finish(Backward(desc), desc.scratchpad_desc());
  }
  void run(const KernelCall &call) override {
    if (positions.isReady()) {
      positions.run({call.in[data].data}, call.workspace);
      const char *maxima = static_cast<const char *>(call.workspace) + positions.offsetOf(DNNL_ARG_DST);
      if (plain.isNeeded(reinterpret_cast<const float *>(maxima)))
        return plain.scatter(call.in[0].as<const float>(), call.in[data].as<const float>(), call.out[0].as<float>());
    }
    step.run({call.in[0].data, call.out[0].data}, call.workspace);
  }
  size_t workspaceBytes() const override { return step.bytes(); }
  Reorders reorders() const override {
    Reorders count = positions.reorders();
    count += step.reorders();
    return count;
  }

 private:
  size_t data;
  PlainMaximum plain;
  DnnlStep positions, step;
};

std::unique_ptr<PreparedKernel> pooling(const KernelSite &site) {
  const PoolingParams &p = site.kind->params<PoolingParams>();
  if (!canHandle(site, p) || (site.out.size() == 2 && site.wants(1))) return nullptr;
  const std::optional<PoolingPlan> plan = planOf(p, site.in[0].shape, site.out[0].shape);
  if (!plan) return nullptr;
  if (plan->isWide() && !plan->isMax) return widePooling(site, *plan, outside(p, site.in[0]));
  if (needsLoops(site, *plan) || prefersLoops(site, *plan))
    return isPlain(site, *plan) ? poolingLoops(site, *plan) : nullptr;
  std::unique_ptr<PreparedKernel> kernel;
  const bool isMade = guarded(site, [&] {
    const Layout x = outside(p, site.in[0]), y = outside(p, site.out[0]);
    kernel = std::make_unique<PoolingForward>(*plan, describe(*plan, x, y), PlainMaximum(*plan, x, y, site.threads));
  });
  return isMade ? std::move(kernel) : nullptr;
}

// Inputs dy, [zero,] x, y, [positions].
std::unique_ptr<PreparedKernel> poolingBackward(const KernelSite &site) {
  const PoolingParams &p = site.kind->params<PoolingParams>();
  const size_t data = site.in.size() == 5 ? 2 : 1;
  if (!canHandle(site, p)) return nullptr;
  const std::optional<PoolingPlan> plan = planOf(p, site.out[0].shape, site.in[0].shape);
  if (!plan || (plan->isWide() && !plan->isOnePixel())) return nullptr;
  if (needsLoops(site, *plan) || prefersLoops(site, *plan))
    return isPlain(site, *plan) ? poolingLoopsBackward(site, *plan, data) : nullptr;
  // The gradient of the maximum reads x, whose layout may differ from that of dx.
  if (p.poolType == PoolType::Max && site.in[data].layout != site.out[0].layout) return nullptr;
  std::unique_ptr<PreparedKernel> kernel;
  const bool isMade = guarded(site, [&] {
    const Layout x = outside(p, site.out[0]), y = outside(p, site.in[0]);
    kernel =
        std::make_unique<PoolingBackward>(*plan, describe(*plan, x, y), PlainMaximum(*plan, x, y, site.threads), data);
  });
  return isMade ? std::move(kernel) : nullptr;
}

constexpr FastKernelRow kRows[] = {
    {"Pooling", pooling, LayoutRole::Independent},
    {"_backward_Pooling", poolingBackward, LayoutRole::Independent},
};

}  // namespace

constinit const FastKernels kPoolingKernels = kRows;

}  // namespace gradc::fast
