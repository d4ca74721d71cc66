// Shared by convolution and deconvolution: attributes, how their entries relate, and rules. Each has four operators:
// the forward one, the fused gradient, and the two maps of which the fused gradient consists, the data and the weight
// gradient. Tested by tests/ops/nn_ops_test.cc, tests/ops/layer_ops_test.cc
#pragma once

#include "ir/rules/grad_rule.h"
#include "ir/tensor/dim.h"
#include "ops/spatial/convolution_maps.h"

namespace gradc {

enum class CudnnTune : uint8_t { None, Off, LimitedWorkspace, Fastest };
inline constexpr llvm::StringRef kCudnnTuneNames[] = {"None", "off", "limited_workspace", "fastest"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(CudnnTune) { return kCudnnTuneNames; }

struct ConvolutionParams {
  Dims kernel, stride, dilate, pad;
  Dims adj, targetShape;  // only of deconvolution
  int64_t numFilter = 0, numGroup = 1, workspace = 0;
  bool noBias = false, cudnnOff = false;
  CudnnTune cudnnTune = CudnnTune::None;
  SpatialLayout layout = SpatialLayout::None;

  bool channelsLast() const { return isChannelsLast(layout); }
  size_t rank() const { return kernel.size() + 2; }
  int64_t channelAxis() const { return channelsLast() ? static_cast<int64_t>(rank()) - 1 : 1; }
  size_t spatialAxis(size_t i) const { return i + (channelsLast() ? 1 : 2); }
  Dim reach(size_t i) const { return Dim(dilate[i]) * (kernel[i] - 1) + 1; }  // of the dilated kernel
  Dim padding(size_t i) const { return Dim(2) * pad[i]; }                     // on both sides
};

namespace convolution_attrs {
inline constexpr AttrSpec kKernel =
    required<&ConvolutionParams::kernel>("kernel", "window size: (w,), (h, w) or (d, h, w)")
        .atLeast(1)
        .atMost(kLargestWindow);
inline constexpr AttrSpec kDilate =
    attr<&ConvolutionParams::dilate>("dilate", "()", "distance between taps of the window, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow);
inline constexpr AttrSpec kNumFilter =
    required<&ConvolutionParams::numFilter>("num_filter", "output channels").atLeast(1);
inline constexpr AttrSpec kNumGroup =
    attr<&ConvolutionParams::numGroup>("num_group", "1", "groups of channels, convolved separately").atLeast(1);
inline constexpr AttrSpec kCudnnTune =
    attr<&ConvolutionParams::cudnnTune>("cudnn_tune", "None", "accepted and not used");
inline constexpr AttrSpec kCudnnOff = attr<&ConvolutionParams::cudnnOff>("cudnn_off", "False", "accepted and not used");
inline constexpr AttrSpec kLayout =
    attr<&ConvolutionParams::layout>("layout", "None", "order of the axes; None: batch, channel, spatial");
}  // namespace convolution_attrs

/// Fills in what was left out of stride, dilate and pad, and checks kernel and groups.
llvm::Error checkConvolution(ConvolutionParams &params);

/// Windows and groups; the images are still to be set.
ConvGeometry windowsOf(const ConvolutionParams &params);

inline bool hasBias(const NodeKind &kind) { return !kind.params<ConvolutionParams>().noBias; }
Attrs withoutBias(const RuleContext &rule);

/// Where data, weight and output of the forward operator are among the entries of a node.
struct ConvolutionPorts {
  size_t data, weight, output;
  bool isForward;  // the output is an output of the node, not an input
};
ShapeRef outputShape(const ShapeInference &s, ConvolutionPorts at);
/// Merges what is known about the three shapes.
void stateShapes(ShapeInference &s, ConvolutionPorts at, Dims data, Dims weight, Dims output);
/// The three shapes, of known rank.
struct ConvolutionShapes {
  DimsBuffer in, weight, out;
};
/// Infers all that the three shapes determine about one another (INF-04): `relateChannels` relates batch and channels,
/// `relateExtents` the extents of one spatial axis, input and output.
void relateShapes(ShapeInference &s, ConvolutionPorts at, void (*relateChannels)(ShapeInference &, ConvolutionShapes &),
                  void (*relateExtents)(ShapeInference &, size_t i, int64_t &in, int64_t &out));
/// For the fused gradient: outputs have the shapes of data, weight and bias, inputs 1, 2 and 3.
void relateGradients(ShapeInference &s);

/// Gradient rule: emits the fused gradient (dy, x, w[, b]).
void fusedGradient(GradRule &g, const OpDef &backward);
/// Decomposes the fused gradient into the two maps and a sum.
void decomposeFused(DecomposeRule &d, const OpDef &dataGrad, const OpDef &weightGrad);
/// dx = A(dy, w). With u of x's shape: d/ddy ⟨u, A⟩ = y(u, w), d/dw ⟨u, A⟩ = B(dy, u).
void gradientOfDataGrad(GradRule &g, const OpDef &forward, const OpDef &weightGrad);
/// dw = B(dy, x). With v of w's shape: d/ddy ⟨v, B⟩ = y(x, v), d/dx ⟨v, B⟩ = A(dy, v).
void gradientOfWeightGrad(GradRule &g, const OpDef &forward, const OpDef &dataGrad);

// ---- definitions
//
// F describes one of the two: its `attrs` and `check`; `relateChannels` and `relateExtents`, which infer shapes;
// `geometry`, the windows from the shapes of data and output; the maps `Forward` and `Backward`, x and w to y, dy and w
// to dx; and whether it `isAdjoint` to a convolution.

template <class F> void relate(ShapeInference &s, ConvolutionPorts at) {
  relateShapes(s, at, F::relateChannels, F::relateExtents);
}

template <class F> constexpr OpDef convolutionOp(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.attrs = F::attrs;
  op.params = paramsOf<ConvolutionParams>();
  op.check = F::check;
  return op;
}

template <class F, const OpDef &Gradient>
constexpr OpDef forwardOf(llvm::StringRef name, llvm::StringRef alias, llvm::StringRef summary) {
  OpDef op = convolutionOp<F>(name, summary);
  op.aliases = {alias};
  op.inputs = {{"data", "weight", "bias"}, [](const NodeKind &kind) { return hasBias(kind) ? 3u : 2u; }};
  op.shape = [](ShapeInference &s) {
    relate<F>(s, {.data = 0, .weight = 1, .output = 0, .isForward = true});
    if (s.numInputs() == 3) s.setIn(2, {s.params<ConvolutionParams>().numFilter});
  };
  op.gradient = [](GradRule &g) { fusedGradient(g, Gradient); };
  op.kernel = [](const KernelCall &call) {
    runMap<typename F::Forward, true>(call, F::geometry(*call.kind, call.in[0].shape, call.out[0].shape));
  };
  op.workspace = [](const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef> out) {
    return F::Forward::bytes(F::geometry(kind, in[0].shape, out[0].shape));
  };
  return op;
}

/// MXNet's fused gradient. Inputs dy, x, w[, b]; of b only the presence matters.
template <class F, const OpDef &DataGrad, const OpDef &WeightGrad>
constexpr OpDef fusedGradientOf(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op = convolutionOp<F>(name, summary);
  op.inputs = {{"ograd", "data", "weight", "bias"}, [](const NodeKind &kind) { return hasBias(kind) ? 4u : 3u; }};
  op.outputs = {{"data_grad", "weight_grad", "bias_grad"},
                [](const NodeKind &kind) { return hasBias(kind) ? 3u : 2u; }};
  op.shape = [](ShapeInference &s) {
    relate<F>(s, {.data = 1, .weight = 2, .output = 0, .isForward = false});
    relateGradients(s);
  };
  op.ignored = {3};
  op.flags.isBackward = true;
  op.decompose = [](DecomposeRule &d) { decomposeFused(d, DataGrad, WeightGrad); };
  op.kernel = [](const KernelCall &call) {
    runGradients<typename F::Backward, F::isAdjoint>(call, F::geometry(*call.kind, call.in[1].shape, call.in[0].shape));
  };
  op.workspace = [](const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef>) {
    const ConvGeometry g = F::geometry(kind, in[1].shape, in[0].shape);
    return std::max(F::Backward::bytes(g), g.weightGradBytes());
  };
  return op;
}

/// Shapes of a map of inputs 0 and 1 that has the shape of input 2, whose contents are not read.
template <class F, size_t data, size_t weight> void relateMap(ShapeInference &s) {
  if constexpr (F::isAdjoint) s.sameInOut(2, 0);
  relate<F>(s, {.data = data, .weight = weight, .output = 0, .isForward = false});
  s.sameInOut(2, 0);
}

template <class F, const OpDef &Forward, const OpDef &WeightGrad>
constexpr OpDef dataGradientOf(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op = convolutionOp<F>(name, summary);
  op.inputs = {"ograd", "weight", "data"};
  op.shape = relateMap<F, 2, 1>;
  op.ignored = {2};
  op.stopped = {2};
  op.gradient = [](GradRule &g) { gradientOfDataGrad(g, Forward, WeightGrad); };
  op.kernel = [](const KernelCall &call) {
    runMap<typename F::Backward, false>(call, F::geometry(*call.kind, call.out[0].shape, call.in[0].shape));
  };
  op.workspace = [](const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef> out) {
    return F::Backward::bytes(F::geometry(kind, out[0].shape, in[0].shape));
  };
  return op;
}

template <class F, const OpDef &Forward, const OpDef &DataGrad>
constexpr OpDef weightGradientOf(llvm::StringRef name, llvm::StringRef summary) {
  OpDef op = convolutionOp<F>(name, summary);
  op.inputs = {"ograd", "data", "weight"};
  op.shape = relateMap<F, 1, 2>;
  op.ignored = {2};
  op.stopped = {2};
  op.gradient = [](GradRule &g) { gradientOfWeightGrad(g, Forward, DataGrad); };
  op.kernel = [](const KernelCall &call) {
    runWeightGradient<F::isAdjoint>(call, F::geometry(*call.kind, call.in[1].shape, call.in[0].shape));
  };
  op.workspace = [](const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef>) {
    return F::geometry(kind, in[1].shape, in[0].shape).weightGradBytes();
  };
  return op;
}

}  // namespace gradc
