// Deconvolution and its gradients. With C the convolution from images of y to images of x: y = Cᵀ(x, w), dx = C(dy, w),
// and dw is that of C with the images exchanged. float32 over one or two spatial axes uses oneDNN, everything else
// products of gathered matrices. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/spatial/convolution_kernel.h"
#include "ops/spatial/deconvolution.h"
#include "ops/spatial/up_sampling.h"
#include "runtime/kernels/convolution/convolution_choices.h"
#include "runtime/kernels/convolution/convolution_steps.h"
#include "runtime/kernels/convolution/deconvolution.h"
#include "runtime/kernels/convolution/gemm_convolution.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"
#include "runtime/kernels/matrix/column_sums.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using dnnl::memory;

namespace gradc::fast {
namespace {

/// The formats of one deconvolution: those of the entries, and `any` where the primitives choose.
struct Descs {
  memory::desc x, w, b, y;
  memory::desc anyX, anyW, anyY;
  memory::dims stride, dilate, padLow, padHigh;
};

/// Weights are (input, output of the group, h, w), which oneDNN calls (output, input, h, w) with other strides.
memory::desc weightDesc(const ConvGeometry &g) {
  const int64_t in = g.groupFilters(), out = g.groupChannels(), h = g.kernel[1], w = g.kernel[2], taps = h * w;
  if (g.groups == 1) return memory::desc({out, in, h, w}, memory::data_type::f32, memory::dims{taps, out * taps, w, 1});
  return memory::desc({g.groups, out, in, h, w}, memory::data_type::f32,
                      memory::dims{in * out * taps, taps, out * taps, w, 1});
}

/// The padding at the end of axis `i`: the part of the full result that is cut off, as adj and target_shape determine.
int64_t padBehind(const ConvGeometry &g, size_t i) {
  const int64_t full = g.stride[i] * (g.out.extent[i] - 1) + g.dilate[i] * (g.kernel[i] - 1) + 1;
  return full - g.in.extent[i] - g.pad[i];
}

/// Of the images of a map, x or dx and y or dy.
struct ImageLayouts {
  Layout x, y;
};

Descs describe(const ConvGeometry &g, ImageLayouts layouts) {
  Descs d;
  const int64_t x[] = {g.out.batch, g.out.channels, g.out.extent[1], g.out.extent[2]};
  const int64_t y[] = {g.in.batch, g.in.channels, g.in.extent[1], g.in.extent[2]};
  d.x = denseDesc(x, layouts.x);
  d.y = denseDesc(y, layouts.y);
  d.w = weightDesc(g);
  d.b = denseDesc(g.in.channels, Layout::Plain);
  const bool isLast = suitsChannelsLast(g) && (layouts.x == Layout::ChannelsLast || layouts.y == Layout::ChannelsLast);
  d.anyX = isLast ? denseDesc(x, Layout::ChannelsLast) : anyDesc(x);
  d.anyY = isLast ? denseDesc(y, Layout::ChannelsLast) : anyDesc(y);
  const memory::dims weights = dimsOf(d.w);
  d.anyW = anyDesc(Dims(weights.data(), weights.size()));
  d.stride = {g.stride[1], g.stride[2]};
  d.dilate = {g.dilate[1] - 1, g.dilate[2] - 1};
  d.padLow = {g.pad[1], g.pad[2]};
  d.padHigh = {padBehind(g, 1), padBehind(g, 2)};
  return d;
}

/// oneDNN's own reference code is slower than products of gathered matrices, so it is treated as missing.
template <class Desc> void refuseReference(const Desc &desc) {
  if (StringRef(desc.impl_info_str()).contains("ref")) throw dnnl::error(dnnl_unimplemented, "reference code only");
}

constexpr dnnl::algorithm kAlgorithm = dnnl::algorithm::deconvolution_direct;

dnnl::deconvolution_forward::primitive_desc forwardDesc(const Descs &d, bool hasBias) {
  using Forward = dnnl::deconvolution_forward;
  constexpr dnnl::prop_kind kKind = dnnl::prop_kind::forward_training;
  if (hasBias)
    return forwardDescOf<Forward>(kKind, kAlgorithm, d.anyX, d.anyW, d.b, d.anyY, d.stride, d.dilate, d.padLow,
                                  d.padHigh);
  return forwardDescOf<Forward>(kKind, kAlgorithm, d.anyX, d.anyW, d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
}

DnnlStep forwardStep(const Descs &d, bool hasBias) {
  const dnnl::deconvolution_forward::primitive_desc desc = forwardDesc(d, hasBias);
  refuseReference(desc);
  return forwardStepOf<dnnl::deconvolution_forward>(desc, {d.x, d.w, hasBias ? &d.b : nullptr, d.y});
}

DnnlStep dataStep(const Descs &d) {
  using Backward = dnnl::deconvolution_backward_data;
  const Backward::primitive_desc desc = backwardDescOf<Backward>(forwardDesc(d, false), kAlgorithm, d.anyX, d.anyW,
                                                                 d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
  refuseReference(desc);
  return dataStepOf<Backward>(desc, {d.x, d.w, nullptr, d.y});
}

DnnlStep weightStep(const Descs &d) {
  using Backward = dnnl::deconvolution_backward_weights;
  const Backward::primitive_desc desc = backwardDescOf<Backward>(forwardDesc(d, false), kAlgorithm, d.anyX, d.anyW,
                                                                 d.anyY, d.stride, d.dilate, d.padLow, d.padHigh);
  refuseReference(desc);
  return weightStepOf<Backward>(desc, {d.x, d.w, nullptr, d.y});
}

using Ports = ConvolutionPorts;

/// Computes each of the three maps by a oneDNN step if there is one.
template <class T> class DeconvolutionKernel : public PreparedKernel {
 public:
  DeconvolutionKernel(const KernelSite &site, const ConvGeometry &g, const Ports &at) : g(g), maps(g), at(at) {
    if constexpr (std::is_same_v<T, float>) addSteps(site);
  }

  void run(const KernelCall &call) override {
    auto in = [&](int8_t i) { return i == Ports::kNone ? nullptr : call.in[static_cast<size_t>(i)].as<T>(); };
    auto out = [&](int8_t o) { return o == Ports::kNone ? nullptr : call.out[static_cast<size_t>(o)].as<T>(); };
    T *scratch = static_cast<T *>(call.workspace), *x = in(at.x), *w = in(at.w), *dy = in(at.dy);
    if (at.y != Ports::kNone) toOutput(x, w, in(at.b), out(at.y), scratch);
    if (at.dx != Ports::kNone) {
      if (data.isReady()) data.run({dy, w, out(at.dx)}, scratch);
      else maps.forward(dy, w, nullptr, out(at.dx), scratch);
    }
    if (at.dw != Ports::kNone) {
      if (weight.isReady()) weight.run({dy, x, out(at.dw)}, scratch);
      else maps.weightGrad(x, Layout::Plain, dy, out(at.dw), scratch);
    }
    if (at.db == Ports::kNone) return;
    const bool isLast = call.in[static_cast<size_t>(at.dy)].layout == Layout::ChannelsLast;
    sumPerChannel<T>(channelsOf(g.in, isLast), dy, out(at.db));
  }

  /// Whether steps compute all maps; products of gathered matrices need row-major images.
  bool isComplete() const {
    return (at.y == Ports::kNone || forward.isReady()) && (at.dx == Ports::kNone || data.isReady()) &&
           (at.dw == Ports::kNone || weight.isReady());
  }

  size_t workspaceBytes() const override {
    size_t most = isComplete() ? 0 : maps.bytes();
    for (const DnnlStep *step : {&forward, &data, &weight}) most = std::max(most, step->isReady() ? step->bytes() : 0);
    return most;
  }

  Reorders reorders() const override {
    Reorders count;
    for (const DnnlStep *step : {&forward, &data, &weight})
      if (step->isReady()) count += step->reorders();
    return count;
  }

 private:
  // A window and a result of depth 1 are not enough: padding may have cut off the rest of a deeper result.
  static bool hasTwoSpatialAxes(const ConvGeometry &g) {
    return g.kernel[0] == 1 && g.in.extent[0] == 1 && g.out.extent[0] == 1 && g.pad[0] == 0;
  }

  void addSteps(const KernelSite &site) {
    if (!hasTwoSpatialAxes(g) || !hasModestWindows(g)) return;
    auto in = [&](int8_t port) {
      return port == Ports::kNone ? Layout::Plain : site.in[static_cast<size_t>(port)].layout;
    };
    auto out = [&](int8_t port) {
      return port == Ports::kNone ? Layout::Plain : site.out[static_cast<size_t>(port)].layout;
    };
    auto tryStep = [&](int8_t port, DnnlStep &step, ImageLayouts layouts, function_ref<DnnlStep(const Descs &)> make) {
      if (port == Ports::kNone) return;
      if (!guarded(site, [&] { step = make(describe(g, layouts)); })) step = DnnlStep();
    };
    tryStep(at.y, forward, {in(at.x), out(at.y)}, [&](const Descs &d) { return forwardStep(d, at.b != Ports::kNone); });
    tryStep(at.dx, data, {out(at.dx), in(at.dy)}, [](const Descs &d) { return dataStep(d); });
    // oneDNN adds up everything in float32.
    const bool isLong = g.out.batch > imagesAtOnce(g) || g.out.pixels() > kMostPixels;
    if (!isLong) tryStep(at.dw, weight, {in(at.x), in(at.dy)}, [](const Descs &d) { return weightStep(d); });
  }

  void toOutput(T *x, T *w, T *b, T *y, T *scratch) {
    if (forward.isReady() && b) return forward.run({x, w, b, y}, scratch);
    if (forward.isReady()) return forward.run({x, w, y}, scratch);
    maps.dataGrad(x, Layout::Plain, w, y, scratch);
    const int64_t pixels = g.in.pixels();
    for (int64_t plane = 0; b && plane < g.in.batch * g.in.channels; ++plane)
      for (int64_t p = 0; p < pixels; ++p) y[plane * pixels + p] += b[plane % g.in.channels];
  }

  ConvGeometry g;
  GemmConvolution<T> maps;
  Ports at;
  DnnlStep forward, data, weight;
};

std::unique_ptr<PreparedKernel> make(const KernelSite &site, const ConvGeometry &g, const Ports &at) {
  const ConvGeometry first = g.channelsLast ? withChannelsFirst(g) : g;
  auto isOther = [](const TensorRef &tensor) { return tensor.layout != Layout::Plain; };
  const bool isMoved = any_of(site.in, isOther) || any_of(site.out, isOther);
  if (g.channelsLast && isMoved) return nullptr;
  return ofFloatingType(site.in[0].dtype, [&](auto zero) -> std::unique_ptr<PreparedKernel> {
    using T = decltype(zero);
    if (!GemmConvolution<T>(first).isPossible()) return nullptr;
    auto made = std::make_unique<DeconvolutionKernel<T>>(site, first, at);
    if (isMoved && !made->isComplete()) return nullptr;
    if (!g.channelsLast) return made;
    return aroundChannelsFirst<T>(std::move(made), channelsLastOperands(first, first.out, first.in, at), site.threads);
  });
}

std::unique_ptr<PreparedKernel> make(const KernelSite &site, Dims data, Dims output, const Ports &at) {
  return make(site, deconvolutionGeometry(*site.kind, data, output), at);
}

/// The position of a gradient operator's output if it is requested.
int8_t wanted(const KernelSite &site, int8_t output) {
  const size_t o = static_cast<size_t>(output);
  return o < site.out.size() && site.wants(o) ? output : Ports::kNone;
}

}  // namespace

std::unique_ptr<PreparedKernel> deconvolution(const KernelSite &site) {
  const int8_t bias = site.in.size() == 3 ? 2 : Ports::kNone;
  return make(site, site.in[0].shape, site.out[0].shape, {.x = 0, .w = 1, .b = bias, .y = 0});
}

// Inputs dy, x, w[, b]; outputs dx, dw[, db].
std::unique_ptr<PreparedKernel> deconvolutionBackward(const KernelSite &site) {
  return make(site, site.in[1].shape, site.in[0].shape,
              {.x = 1, .w = 2, .dy = 0, .dx = wanted(site, 0), .dw = wanted(site, 1), .db = wanted(site, 2)});
}

// Inputs dy, w, (x).
std::unique_ptr<PreparedKernel> deconvolutionDataGrad(const KernelSite &site) {
  return make(site, site.out[0].shape, site.in[0].shape, {.w = 1, .dy = 0, .dx = 0});
}

// Inputs dy, x, (w).
std::unique_ptr<PreparedKernel> deconvolutionWeightGrad(const KernelSite &site) {
  return make(site, site.in[1].shape, site.in[0].shape, {.x = 1, .dy = 0, .dw = 0});
}

// UpSampling, bilinear: a deconvolution of each channel.
std::unique_ptr<PreparedKernel> bilinearUpSampling(const KernelSite &site) {
  return make(site, upSamplingGeometry(*site.kind, site.in[0].shape, site.out[0].shape), {.x = 0, .w = 1, .y = 0});
}
// Inputs dy, x, w; outputs dx, dw.
std::unique_ptr<PreparedKernel> bilinearUpSamplingBackward(const KernelSite &site) {
  return make(site, upSamplingGeometry(*site.kind, site.in[1].shape, site.in[0].shape),
              {.x = 1, .w = 2, .dy = 0, .dx = wanted(site, 0), .dw = wanted(site, 1)});
}

namespace {

constexpr FastKernelRow kRows[] = {
    {"Deconvolution", deconvolution, LayoutRole::Independent, {.in = 1}},
    {"_backward_Deconvolution", deconvolutionBackward, LayoutRole::Independent, {.in = 2, .out = 1}},
    {"_deconvolution_data_grad", deconvolutionDataGrad, LayoutRole::Independent, {.in = 1}},
    {"_deconvolution_weight_grad", deconvolutionWeightGrad, LayoutRole::Independent, {.out = 0}},
};

}  // namespace

constinit const FastKernels kDeconvolutionKernels = kRows;

}  // namespace gradc::fast
