// Convolution over one, two or three spatial axes, its fused gradient, and the two bilinear maps higher orders need.
//
// y = x * w is bilinear; with dy it makes the trilinear form ⟨dy, x * w⟩. Its derivative toward x is the data gradient
// of (dy, w), toward w the weight gradient of (dy, x). Each of the three maps is linear in both operands and has the
// other two as its gradients, so the set is closed to every order. Arithmetic is in ops/convolution_kernel.cc.
// Tested by tests/nn_ops_test.cc, tests/nn_infer_test.cc
#include "ir/grad_rule.h"
#include "ir/kernel.h"
#include "ops/convolution_kernel.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"
#include "ops/layer_attrs.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

enum class CudnnTune : uint8_t { None, Off, LimitedWorkspace, Fastest };
constexpr StringRef kCudnnTuneNames[] = {"None", "off", "limited_workspace", "fastest"};
constexpr ArrayRef<StringRef> enumNames(CudnnTune) { return kCudnnTuneNames; }

struct ConvolutionParams {
  Dims kernel, stride, dilate, pad;
  int64_t numFilter = 0, numGroup = 1, workspace = 0;
  bool noBias = false, cudnnOff = false;
  CudnnTune cudnnTune = CudnnTune::None;
  SpatialLayout layout = SpatialLayout::None;

  bool channelsLast() const { return isChannelsLast(layout); }
  size_t rank() const { return kernel.size() + 2; }
  int64_t channelAxis() const { return channelsLast() ? static_cast<int64_t>(rank()) - 1 : 1; }
  size_t spatialAxis(size_t i) const { return i + (channelsLast() ? 1 : 2); }
  int64_t reach(size_t i) const { return dilate[i] * (kernel[i] - 1) + 1; }  // of the dilated kernel
};

constexpr AttrSpec kAttrs[] = {
    required<&ConvolutionParams::kernel>("kernel", "window size: (w,), (h, w) or (d, h, w)")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&ConvolutionParams::stride>("stride", "()", "step of the window, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&ConvolutionParams::dilate>("dilate", "()", "distance between taps of the window, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&ConvolutionParams::pad>("pad", "()", "zeros put on both sides of each axis, 0 when left out")
        .atLeast(0)
        .atMost(kLargestWindow),
    required<&ConvolutionParams::numFilter>("num_filter", "output channels").atLeast(1),
    attr<&ConvolutionParams::numGroup>("num_group", "1", "groups of channels convolved apart").atLeast(1),
    attr<&ConvolutionParams::workspace>("workspace", "1024", "accepted and not used").atLeast(0),
    attr<&ConvolutionParams::noBias>("no_bias", "False", "whether there is no bias input"),
    attr<&ConvolutionParams::cudnnTune>("cudnn_tune", "None", "accepted and not used"),
    attr<&ConvolutionParams::cudnnOff>("cudnn_off", "False", "accepted and not used"),
    attr<&ConvolutionParams::layout>("layout", "None", "order of the axes; None: batch, channel, spatial"),
};

Error checkParams(void *params) {
  ConvolutionParams &p = *static_cast<ConvolutionParams *>(params);
  if (p.kernel.empty() || p.kernel.size() > 3)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'kernel' has " + Twine(p.kernel.size()) + " elements, expected 1 to 3");
  if (Error error = settleWindowAttr("stride", p.stride, p.kernel, kSpatialOnes)) return error;
  if (Error error = settleWindowAttr("dilate", p.dilate, p.kernel, kSpatialOnes)) return error;
  if (Error error = settleWindowAttr("pad", p.pad, p.kernel, kSpatialZeros)) return error;
  if (p.numFilter % p.numGroup)
    return Failure(ErrorKind::BadAttribute, "attribute 'num_filter' is " + Twine(p.numFilter) +
                                                ", expected a multiple of 'num_group' = " + Twine(p.numGroup));
  return Error::success();
}

ConvGeometry geometryOf(const ConvolutionParams &p, Dims data, Dims output) {
  ConvGeometry g;
  g.in = imageView(data, p.channelsLast());
  g.out = imageView(output, p.channelsLast());
  g.groups = p.numGroup;
  g.channelsLast = p.channelsLast();
  setSpatial(g.kernel, p.kernel);
  setSpatial(g.stride, p.stride);
  setSpatial(g.dilate, p.dilate);
  setSpatial(g.pad, p.pad);
  return g;
}

// Positions of the three shapes the maps relate, and whether each is an output of the node.
struct ConvPort {
  size_t index;
  bool isOutput;
};

ShapeRef shapeAt(const ShapeInference &s, ConvPort port) {
  return port.isOutput ? s.out(port.index) : s.in(port.index);
}
void stateAt(ShapeInference &s, ConvPort port, Dims dims) {
  if (port.isOutput)
    s.setOut(port.index, dims);
  else
    s.setIn(port.index, dims);
}

// Output extent from input extent, and back where the stride is 1: elsewhere several inputs give one output.
void relateExtents(ShapeInference &s, size_t i, int64_t &in, int64_t &out) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  const int64_t room = in + 2 * p.pad[i];
  if (in == kUnknownDim) {
    if (out != kUnknownDim && p.stride[i] == 1) in = out - 1 + p.reach(i) - 2 * p.pad[i];
  } else if (p.reach(i) > room) {
    s.fail("kernel of reach " + Twine(p.reach(i)) + " exceeds the padded input of " + Twine(room) +
           " on spatial axis " + Twine(i));
  } else {
    out = (room - p.reach(i)) / p.stride[i] + 1;
  }
}

// Input channels from the weight's and back.
void relateChannels(ShapeInference &s, int64_t &in, int64_t &weight) {
  const int64_t groups = s.params<ConvolutionParams>().numGroup;
  if (in == kUnknownDim && weight != kUnknownDim) in = weight * groups;
  if (in == kUnknownDim) return;
  if (in % groups)
    return s.fail("input has " + Twine(in) + " channels, expected a multiple of num_group " + Twine(groups));
  weight = in / groups;
}

// Everything the shapes of data, weight and output tell about one another (INF-04).
void relateShapes(ShapeInference &s, ConvPort data, ConvPort weight, ConvPort output) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  const DimsBuffer unknown(p.rank(), kUnknownDim);
  for (ConvPort port : {data, weight, output}) stateAt(s, port, unknown);
  if (s.hasFailed()) return;
  DimsBuffer in(shapeAt(s, data).dims()), w(shapeAt(s, weight).dims()), out(shapeAt(s, output).dims());
  const size_t channel = static_cast<size_t>(p.channelAxis());
  relateChannels(s, in[channel], w[channel]);
  w[0] = out[channel] = p.numFilter;
  if (in[0] == kUnknownDim) in[0] = out[0];
  out[0] = in[0];
  for (size_t i = 0; i < p.kernel.size() && !s.hasFailed(); ++i) {
    const size_t axis = p.spatialAxis(i);
    w[axis] = p.kernel[i];
    relateExtents(s, i, in[axis], out[axis]);
  }
  stateAt(s, data, in);
  stateAt(s, weight, w);
  stateAt(s, output, out);
}

size_t scratchBytes(const ConvolutionParams &p, const TensorRef &data, const TensorRef &output) {
  return static_cast<size_t>(geometryOf(p, data.shape, output.shape).scratch()) * dtypeBytes(data.dtype);
}

AttrsId withoutBias(const RuleContext &rule) { return rule.context().withAttrs(rule.attrs(), {{"no_bias", "True"}}); }

bool hasBias(const NodeKind &kind) { return !kind.params<ConvolutionParams>().noBias; }

}  // namespace

extern const OpDef kConvolution, kBackwardConvolution, kConvolutionDataGrad, kConvolutionWeightGrad;

// y = x * w + b; dx, dw, db by one fused operator.
constinit const OpDef kConvolution = {
    .name = "Convolution",
    .summary = "y[n,f,p] = Σ over channels c of f's group and taps k: x[n,c,p·stride + k·dilate − pad]·w[f,c,k] + b[f]",
    .inputs = {{"data", "weight", "bias"}, [](const NodeKind &k) { return hasBias(k) ? 3u : 2u; }},
    .attrs = kAttrs,
    .params = paramsOf<ConvolutionParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) {
      relateShapes(s, {0, false}, {1, false}, {0, true});
      if (s.numInputs() == 3) s.setIn(2, {s.params<ConvolutionParams>().numFilter});
    },
    .gradient = [](GradRule &g) {
      if (hasBias(g.kind()))
        g.fused(kBackwardConvolution, {g.dy(0), g.x(0), g.x(1), g.x(2)});
      else
        g.fused(kBackwardConvolution, {g.dy(0), g.x(0), g.x(1)});
    },
    .kernel = [](const KernelCall &call) {
      if (!call.wants(0)) return;
      const ConvGeometry g = geometryOf(call.params<ConvolutionParams>(), call.in[0].shape, call.out[0].shape);
      dispatchFloating(call.out[0].dtype, [&](auto zero) {
        using T = decltype(zero);
        const T *bias = call.in.size() == 3 ? call.in[2].as<const T>() : nullptr;
        convolve<T>(g, call.in[0].as<const T>(), call.in[1].as<const T>(), bias, call.out[0].as<T>(),
                    static_cast<T *>(call.workspace));
      });
    },
    .workspace = [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out) {
      return scratchBytes(k.params<ConvolutionParams>(), in[0], out[0]);
    },
};

// MXNet's fused gradient. Inputs dy, x, w[, b]; of b only the presence matters.
constinit const OpDef kBackwardConvolution = {
    .name = "_backward_Convolution",
    .summary = "gradients of Convolution: dx = dy ⋆ w, dw = dy ⋆ x, db[f] = Σ dy[·,f,·]",
    .inputs = {{"ograd", "data", "weight", "bias"}, [](const NodeKind &k) { return hasBias(k) ? 4u : 3u; }},
    .outputs = {{"data_grad", "weight_grad", "bias_grad"}, [](const NodeKind &k) { return hasBias(k) ? 3u : 2u; }},
    .attrs = kAttrs,
    .params = paramsOf<ConvolutionParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) {
      relateShapes(s, {1, false}, {2, false}, {0, false});
      for (size_t o = 0; o < s.numOutputs(); ++o) s.sameInOut(o + 1, o);
      if (s.numOutputs() == 3) s.setOut(2, {s.params<ConvolutionParams>().numFilter});
      if (s.numOutputs() == 3) s.sameInOut(3, 2);
    },
    .ignored = {3},
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) {
      const ConvolutionParams &p = d.params<ConvolutionParams>();
      const AttrsId attrs = withoutBias(d);
      if (d.wants(0)) d.y(0, d.emit(kConvolutionDataGrad, {d.x(0), d.x(2), d.x(1)}, attrs));
      if (d.wants(1)) d.y(1, d.emit(kConvolutionWeightGrad, {d.x(0), d.x(1), d.x(2)}, attrs));
      if (hasBias(d.kind()) && d.wants(2))
        d.y(2, d.emit(kSum, {d.x(0)}, {{"axis", d.number(p.channelAxis())}, {"exclude", "True"}}));
    },
    .kernel = [](const KernelCall &call) {
      const ConvGeometry g = geometryOf(call.params<ConvolutionParams>(), call.in[1].shape, call.in[0].shape);
      dispatchFloating(call.in[0].dtype, [&](auto zero) {
        using T = decltype(zero);
        const T *dy = call.in[0].as<const T>();
        T *scratch = static_cast<T *>(call.workspace);
        if (call.wants(0)) convolveDataGrad<T>(g, dy, call.in[2].as<const T>(), call.out[0].as<T>(), scratch);
        if (call.wants(1)) convolveWeightGrad<T>(g, dy, call.in[1].as<const T>(), call.out[1].as<T>(), scratch);
        if (call.out.size() == 3 && call.wants(2)) sumPerChannel<T>(g.out, dy, call.out[2].as<T>());
      });
    },
    .workspace = [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
      return scratchBytes(k.params<ConvolutionParams>(), in[1], in[0]);
    },
};

// dx = A(dy, w). With u of x's shape: d/ddy ⟨u, A⟩ = u * w, d/dw ⟨u, A⟩ = B(dy, u).
constinit const OpDef kConvolutionDataGrad = {
    .name = "_convolution_data_grad",
    .summary = "gradient of a convolution without bias toward its data, linear in dy and in w; of x only the shape is "
               "used",
    .inputs = {"ograd", "weight", "data"},
    .attrs = kAttrs,
    .params = paramsOf<ConvolutionParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) {
      relateShapes(s, {2, false}, {1, false}, {0, false});
      s.sameInOut(2, 0);
    },
    .ignored = {2},
    .stopped = {2},
    .flags = {.isOwn = true},
    .gradient = [](GradRule &g) {
      if (g.wants(0)) g.dx(0, g.emit(kConvolution, {g.dy(0), g.x(1)}, withoutBias(g)));
      if (g.wants(1)) g.dx(1, g.emit(kConvolutionWeightGrad, {g.x(0), g.dy(0), g.x(1)}, withoutBias(g)));
      g.noGrad(2);
    },
    .kernel = [](const KernelCall &call) {
      if (!call.wants(0)) return;
      const ConvGeometry g = geometryOf(call.params<ConvolutionParams>(), call.out[0].shape, call.in[0].shape);
      dispatchFloating(call.in[0].dtype, [&](auto zero) {
        using T = decltype(zero);
        convolveDataGrad<T>(g, call.in[0].as<const T>(), call.in[1].as<const T>(), call.out[0].as<T>(),
                            static_cast<T *>(call.workspace));
      });
    },
    .workspace = [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out) {
      return scratchBytes(k.params<ConvolutionParams>(), out[0], in[0]);
    },
};

// dw = B(dy, x). With v of w's shape: d/ddy ⟨v, B⟩ = x * v, d/dx ⟨v, B⟩ = A(dy, v).
constinit const OpDef kConvolutionWeightGrad = {
    .name = "_convolution_weight_grad",
    .summary = "gradient of a convolution without bias toward its weight, linear in dy and in x; of w only the shape "
               "is used",
    .inputs = {"ograd", "data", "weight"},
    .attrs = kAttrs,
    .params = paramsOf<ConvolutionParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) {
      relateShapes(s, {1, false}, {2, false}, {0, false});
      s.sameInOut(2, 0);
    },
    .ignored = {2},
    .stopped = {2},
    .flags = {.isOwn = true},
    .gradient = [](GradRule &g) {
      if (g.wants(0)) g.dx(0, g.emit(kConvolution, {g.x(1), g.dy(0)}, withoutBias(g)));
      if (g.wants(1)) g.dx(1, g.emit(kConvolutionDataGrad, {g.x(0), g.dy(0), g.x(1)}, withoutBias(g)));
      g.noGrad(2);
    },
    .kernel = [](const KernelCall &call) {
      if (!call.wants(0)) return;
      const ConvGeometry g = geometryOf(call.params<ConvolutionParams>(), call.in[1].shape, call.in[0].shape);
      dispatchFloating(call.in[0].dtype, [&](auto zero) {
        using T = decltype(zero);
        convolveWeightGrad<T>(g, call.in[0].as<const T>(), call.in[1].as<const T>(), call.out[0].as<T>(),
                              static_cast<T *>(call.workspace));
      });
    },
    .workspace = [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
      return scratchBytes(k.params<ConvolutionParams>(), in[1], in[0]);
    },
};

namespace {
constexpr const OpDef *kOps[] = {&kConvolution, &kBackwardConvolution, &kConvolutionDataGrad,
                                     &kConvolutionWeightGrad};
}  // namespace
ConvGeometry convolutionGeometry(const NodeKind &kind, Dims data, Dims output) {
  return geometryOf(kind.params<ConvolutionParams>(), data, output);
}

constinit const OpFamily kConvolutionFamily = kOps;

}  // namespace gradc
