// Convolution over one, two or three spatial axes, its fused gradient, and the two bilinear maps that higher orders
// need.
//
// y = x * w is bilinear; with dy it makes the trilinear form ⟨dy, x * w⟩. Its derivative toward x is the data gradient
// of (dy, w), toward w the weight gradient of (dy, x). Each of the three maps is linear in both operands and has the
// other two as its gradients, so the set is closed to every order. Arithmetic is in ops/spatial/convolution_kernel.cc.
// Tested by tests/ops/nn_ops_test.cc, tests/passes/nn_infer_test.cc
#include "ops/spatial/convolution.h"

#include "ops/kit/families.h"
#include "ops/spatial/convolution_rules.h"

using namespace llvm;

namespace gradc {
namespace {

using namespace convolution_attrs;
constexpr AttrSpec kAttrs[] = {
    kKernel,
    attr<&ConvolutionParams::stride>("stride", "()", "step of the window, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow),
    kDilate,
    attr<&ConvolutionParams::pad>("pad", "()", "zeros put on both sides of each axis, 0 when left out")
        .atLeast(0)
        .atMost(kLargestWindow),
    kNumFilter,
    kNumGroup,
    attr<&ConvolutionParams::workspace>("workspace", "1024", "accepted and not used").atLeast(0),
    attr<&ConvolutionParams::noBias>("no_bias", "False", "whether there is no bias input"),
    kCudnnTune,
    kCudnnOff,
    kLayout,
};

Error checkParams(const OpDef &, void *params) { return checkConvolution(*static_cast<ConvolutionParams *>(params)); }

// Output extent from input extent, and back if the stride is 1: otherwise several input extents give one output extent.
void relateExtents(ShapeInference &s, size_t i, int64_t &in, int64_t &out) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  if (in == kUnknownDim) {
    if (out != kUnknownDim && p.stride[i] == 1) in = (Dim(out) - 1 + p.reach(i) - p.padding(i)).inShape();
    return;
  }
  const Dim room = Dim(in) + p.padding(i);
  if (p.reach(i) > room)
    return s.fail("kernel of reach " + Twine(p.reach(i).nearest()) + " exceeds the padded input of " +
                  Twine(room.nearest()) + " on spatial axis " + Twine(i));
  out = ((room - p.reach(i)) / p.stride[i] + 1).inShape();
}

// Batch and filters from one another; input channels from the weight's, and back.
void relateChannels(ShapeInference &s, ConvolutionShapes &shapes) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  const size_t channel = static_cast<size_t>(p.channelAxis());
  auto &[in, weight, out] = shapes;
  weight[0] = out[channel] = p.numFilter;
  if (in[0] == kUnknownDim) in[0] = out[0];
  out[0] = in[0];
  if (in[channel] == kUnknownDim && weight[channel] != kUnknownDim)
    in[channel] = (Dim(weight[channel]) * p.numGroup).inShape();
  if (in[channel] == kUnknownDim || in[channel] == kBadDim) return;
  if (in[channel] % p.numGroup)
    return s.fail("input has " + Twine(in[channel]) + " channels, expected a multiple of num_group " +
                  Twine(p.numGroup));
  weight[channel] = in[channel] / p.numGroup;
}

struct Convolving {
  using Forward = Gathering;
  using Backward = Scattering;
  static constexpr bool isAdjoint = false;
  static constexpr ArrayRef<AttrSpec> attrs = kAttrs;
  static constexpr auto check = checkParams;
  static constexpr auto relateChannels = gradc::relateChannels;
  static constexpr auto relateExtents = gradc::relateExtents;
  static constexpr auto geometry = convolutionGeometry;
};

extern const OpDef kBackwardConvolution;

}  // namespace

// y = x * w + b; dx, dw, db by one fused operator.
constinit const OpDef kConvolution = [] {
  OpDef op = forwardOf<Convolving, kBackwardConvolution>(
      "Convolution", "_npx_convolution",
      "y[n,f,p] = Σ over channels c of f's group and taps k: x[n,c,p·stride + k·dilate − pad]·w[f,c,k] + b[f]");
  op.primitive = {.onnx = "Conv; channels last: Transpose, Transpose, Conv, Transpose",
                  .c = "y[n,f,p] += x[n,c,p*stride+k*dilate-pad] * w[f,c,k], begun with b[f]"};
  return op;
}();

constinit const OpDef kConvolutionDataGrad = [] {
  OpDef op = dataGradientOf<Convolving, kConvolution, kConvolutionWeightGrad>(
      "_convolution_data_grad",
      "gradient of a convolution without bias toward its data, linear in dy and in w; of x only the shape is "
      "used");
  op.primitive = {.onnx =
                      "ConvTranspose, its output_padding from the extents of data; channels last: between Transposes",
                  .c = "dx[n,c,p*stride+k*dilate-pad] += dy[n,f,p] * w[f,c,k]"};
  return op;
}();

constinit const OpDef kConvolutionWeightGrad = [] {
  OpDef op = weightGradientOf<Convolving, kConvolution, kConvolutionDataGrad>(
      "_convolution_weight_grad",
      "gradient of a convolution without bias toward its weight, linear in dy and in x; of w only the shape "
      "is used");
  op.primitive = {.onnx = "Transpose, Transpose, Conv of x with dy in place of the weight, strides and dilations "
                          "exchanged, Slice, Transpose; groups: x through Reshape, Transpose, Reshape",
                  .c = "dw[f,c,k] += dy[n,f,p] * x[n,c,p*stride+k*dilate-pad]"};
  return op;
}();

namespace {

constinit const OpDef kBackwardConvolution = fusedGradientOf<Convolving, kConvolutionDataGrad, kConvolutionWeightGrad>(
    "_backward_Convolution", "gradients of Convolution: dx = dy ⋆ w, dw = dy ⋆ x, db[f] = Σ dy[·,f,·]");

}  // namespace

ConvGeometry convolutionGeometry(const NodeKind &kind, Dims data, Dims output) {
  const ConvolutionParams &p = kind.params<ConvolutionParams>();
  ConvGeometry g = windowsOf(p);
  g.in = imageView(data, p.channelsLast());
  g.out = imageView(output, p.channelsLast());
  return g;
}

constinit const OpFamily kConvolutionFamily =
    kOps<kConvolution, kBackwardConvolution, kConvolutionDataGrad, kConvolutionWeightGrad>;

}  // namespace gradc
