// Deconvolution over one, two or three spatial axes: the adjoint of a convolution toward its data, and its gradients.
//
// With a convolution C(u, w) from images of the output's shape to images of the data's shape, y = Cᵀ(x, w) and
// ⟨dy, y⟩ = ⟨C(dy, w), x⟩: the gradient toward x is that convolution of dy, the one toward w the convolution's weight
// gradient with the roles of the images exchanged. As with convolution, each of the three maps is linear in both
// operands and has the other two as its gradients. Arithmetic is in ops/spatial/convolution_kernel.cc.
// Tested by tests/ops/layer_ops_test.cc
#include "ops/spatial/deconvolution.h"

#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_rules.h"

using namespace llvm;

namespace gradc {
namespace {

bool hasTarget(const ConvolutionParams &p) { return !p.targetShape.empty() && p.targetShape[0] != 0; }

using namespace convolution_attrs;
constexpr AttrSpec kAttrs[] = {
    kKernel,
    attr<&ConvolutionParams::stride>("stride", "()", "distance of the windows, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow),
    kDilate,
    attr<&ConvolutionParams::pad>("pad", "()", "pixels cut from both sides of each axis, 0 when left out")
        .atLeast(0)
        .atMost(kLargestWindow),
    attr<&ConvolutionParams::adj>("adj", "()", "pixels added behind each axis, less than stride, 0 when left out")
        .atLeast(0)
        .atMost(kLargestWindow),
    attr<&ConvolutionParams::targetShape>("target_shape", "()",
                                          "spatial shape of the output; replaces pad and adj unless 0")
        .atLeast(0)
        .atMost(kLargestWindow),
    kNumFilter,
    kNumGroup,
    attr<&ConvolutionParams::workspace>("workspace", "512", "accepted and not used").atLeast(0),
    attr<&ConvolutionParams::noBias>("no_bias", "True", "whether there is no bias input"),
    kCudnnTune,
    kCudnnOff,
    kLayout,
};

Error checkTarget(const ConvolutionParams &p) {
  const bool wantsTarget = hasTarget(p);
  for (size_t i = 0; i < p.kernel.size(); ++i) {
    if (wantsTarget != (p.targetShape[i] != 0))
      return Failure(ErrorKind::BadAttribute, "attribute 'target_shape' is 0 on some axes, expected on all or none");
    if (!wantsTarget && p.adj[i] >= p.stride[i])
      return Failure(ErrorKind::BadAttribute,
                     "attribute 'adj' is " + Twine(p.adj[i]) + ", expected less than 'stride' = " + Twine(p.stride[i]));
  }
  return Error::success();
}

Error checkParams(const OpDef &, void *params) {
  ConvolutionParams &p = *static_cast<ConvolutionParams *>(params);
  if (Error error = checkConvolution(p)) return error;
  if (Error error = completeWindowAttr("adj", p.adj, p.kernel, kSpatialZeros)) return error;
  if (Error error = completeWindowAttr("target_shape", p.targetShape, p.kernel, kSpatialZeros)) return error;
  return checkTarget(p);
}

// Extent of the output before anything is cut off.
Dim fullExtent(const ConvolutionParams &p, size_t i, int64_t in) {
  return Dim(p.stride[i]) * (Dim(in) - 1) + p.reach(i);
}

// How many pixels target_shape cuts off at the front.
int64_t targetPadding(const ConvolutionParams &p, size_t i, int64_t in) {
  return ((fullExtent(p, i, in) - p.targetShape[i] + 1) / 2).nearest();
}

// The extent that target_shape requests. The full output must not be shorter, and may be cut unevenly only by less than
// a stride.
void relateTarget(ShapeInference &s, size_t i, int64_t in, int64_t &out) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  out = p.targetShape[i];
  if (in == kUnknownDim) return;
  const Dim full = fullExtent(p, i, in), surplus = full - out;
  if (surplus < 0)
    s.fail("target_shape " + Twine(out) + " exceeds the " + Twine(full.nearest()) +
           " pixels available on spatial axis " + Twine(i));
  else if (full > kMaxElements)
    s.fail("target_shape " + Twine(out) + " is cut out of " + Twine(full.nearest()) + " pixels on spatial axis " +
           Twine(i) + ", expected at most 2^48");
  else if (surplus.nearest() % 2 >= p.stride[i])
    s.fail("target_shape " + Twine(out) + " leaves an odd surplus of " + Twine(surplus.nearest()) +
           " with stride 1 on spatial axis " + Twine(i));
}

void relateExtents(ShapeInference &s, size_t i, int64_t &in, int64_t &out) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  if (hasTarget(p)) return relateTarget(s, i, in, out);
  const Dim fixed = p.reach(i) - p.padding(i) + p.adj[i];
  if (in == kUnknownDim && out != kUnknownDim) {
    const Dim stepped = Dim(out) - fixed + p.stride[i];  // stride · in
    if (stepped < 0 || stepped.nearest() % p.stride[i])
      return s.fail("output of " + Twine(out) + " pixels on spatial axis " + Twine(i) + ", expected " +
                    Twine(fixed.nearest()) + " and a multiple of stride " + Twine(p.stride[i]));
    in = (stepped / p.stride[i]).inShape();
  }
  if (in == kUnknownDim || in == kBadDim) return;
  const Dim length = Dim(p.stride[i]) * (Dim(in) - 1) + fixed;
  if (length < 0)
    return s.fail("pad cuts off more than the " + Twine((length + p.padding(i)).nearest()) +
                  " pixels of spatial axis " + Twine(i));
  out = length.inShape();
}

void relateChannels(ShapeInference &s, ConvolutionShapes &shapes) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  const size_t channel = static_cast<size_t>(p.channelAxis());
  auto &[in, weight, out] = shapes;
  in[channel] = std::max(in[channel], weight[0]);
  if (in[channel] != kUnknownDim && in[channel] % p.numGroup)
    return s.fail("input has " + Twine(in[channel]) + " channels, expected a multiple of num_group " +
                  Twine(p.numGroup));
  weight[0] = in[channel];
  weight[channel] = p.numFilter / p.numGroup;
  out[channel] = p.numFilter;
  in[0] = out[0] = std::max(in[0], out[0]);
}

// The attributes of the convolution from the output's images to the data's; none if the data is empty, which no
// convolution yields: it has no filters, or its images have no pixels.
std::optional<Attrs> convolutionAttrs(DecomposeRule &d, Value data) {
  const ConvolutionParams &p = d.params<ConvolutionParams>();
  const int64_t channels = d.size(data, p.channelAxis());
  if (channels == 0 || llvm::is_contained(d.shape(data).dims(), 0)) return std::nullopt;
  DimsBuffer pad(p.pad);
  for (size_t i = 0; hasTarget(p) && i < pad.size(); ++i)
    pad[i] = targetPadding(p, i, d.size(data, static_cast<int64_t>(p.spatialAxis(i))));
  const AttrText attrs[] = {{"kernel", d.tuple(p.kernel)},
                            {"stride", d.tuple(p.stride)},
                            {"dilate", d.tuple(p.dilate)},
                            {"pad", d.tuple(pad)},
                            {"num_filter", d.number(channels)},
                            {"num_group", d.number(p.numGroup)},
                            {"no_bias", "True"},
                            {"layout", kSpatialLayoutNames[static_cast<size_t>(p.layout)]}};
  return d.context().attrs(attrs);
}

struct Deconvolving {
  using Forward = Scattering;
  using Backward = Gathering;
  static constexpr bool isAdjoint = true;
  static constexpr ArrayRef<AttrSpec> attrs = kAttrs;
  static constexpr auto check = checkParams;
  static constexpr auto relateChannels = gradc::relateChannels;
  static constexpr auto relateExtents = gradc::relateExtents;
  static constexpr auto geometry = deconvolutionGeometry;
};

extern const OpDef kBackwardDeconvolution;

}  // namespace

// y = Cᵀ(x, w) + b
constinit const OpDef kDeconvolution = [] {
  OpDef op = forwardOf<Deconvolving, kBackwardDeconvolution>(
      "Deconvolution", "_npx_deconvolution",
      "y[n,f,q] = Σ over channels c of f's group, pixels p and taps k with p·stride + k·dilate − pad = q: "
      "x[n,c,p]·w[c,f,k], + b[f]");
  op.primitive = {.onnx = "ConvTranspose, output_padding from adj or target_shape; channels last: between Transposes",
                  .c = "y[n,f,p*stride+k*dilate-pad] += x[n,c,p] * w[c,f,k], begun with b[f]"};
  return op;
}();

constinit const OpDef kDeconvolutionDataGrad = [] {
  OpDef op = dataGradientOf<Deconvolving, kDeconvolution, kDeconvolutionWeightGrad>(
      "_deconvolution_data_grad",
      "gradient of a deconvolution without bias toward its data: a convolution of dy with w; of x only the shape "
      "is used");
  op.decompose = [](DecomposeRule &d) {
    const std::optional<Attrs> attrs = convolutionAttrs(d, d.x(2));
    d.y(0, attrs ? d.emit(kConvolution, {d.x(0), d.x(1)}, *attrs) : d.emit(kZerosLike, {d.x(2)}));
  };
  return op;
}();

constinit const OpDef kDeconvolutionWeightGrad = [] {
  OpDef op = weightGradientOf<Deconvolving, kDeconvolution, kDeconvolutionDataGrad>(
      "_deconvolution_weight_grad",
      "gradient of a deconvolution without bias toward its weight, linear in dy and in x; of w only the shape "
      "is used");
  op.decompose = [](DecomposeRule &d) {
    const std::optional<Attrs> attrs = convolutionAttrs(d, d.x(1));
    d.y(0, attrs ? d.emit(kConvolutionWeightGrad, {d.x(1), d.x(0), d.x(2)}, *attrs) : d.emit(kZerosLike, {d.x(2)}));
  };
  return op;
}();

namespace {

constinit const OpDef kBackwardDeconvolution =
    fusedGradientOf<Deconvolving, kDeconvolutionDataGrad, kDeconvolutionWeightGrad>(
        "_backward_Deconvolution", "gradients of Deconvolution: dx = dy * w, dw = x ⋆ dy, db[f] = Σ dy[·,f,·]");

}  // namespace

// The convolution from the output's images to the data's.
ConvGeometry deconvolutionGeometry(const NodeKind &kind, Dims data, Dims output) {
  const ConvolutionParams &p = kind.params<ConvolutionParams>();
  ConvGeometry g = windowsOf(p);
  g.in = imageView(output, p.channelsLast());
  g.out = imageView(data, p.channelsLast());
  for (size_t i = 0; hasTarget(p) && i < p.kernel.size(); ++i)
    g.pad[3 - p.kernel.size() + i] = targetPadding(p, i, data[p.spatialAxis(i)]);
  return g;
}

constinit const OpFamily kDeconvolutionFamily =
    kOps<kDeconvolution, kBackwardDeconvolution, kDeconvolutionDataGrad, kDeconvolutionWeightGrad>;

}  // namespace gradc
