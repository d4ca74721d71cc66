// UpSampling: images enlarged by a whole factor, by repeating pixels (nearest) or by a deconvolution (bilinear).
//
// nearest takes several inputs, enlarges each to the first one's height times scale, and joins their channels or adds
// them up: a linear map whose adjoint is the backward operator. bilinear is a deconvolution of each channel with the
// weight as the window: kernel 2·scale − scale mod 2, stride scale, pad ⌈(scale − 1)/2⌉; the weight is an input and
// learns. Tested by tests/ops/layer_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/convolution_kernel.h"
#include "ops/spatial/deconvolution.h"
#include "ops/spatial/up_sampling.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

enum class SampleType : uint8_t { Bilinear, Nearest };
constexpr StringRef kSampleTypeNames[] = {"bilinear", "nearest"};
constexpr ArrayRef<StringRef> enumNames(SampleType) { return kSampleTypeNames; }

enum class MultiInputMode : uint8_t { Concat, Sum };
constexpr StringRef kMultiInputModeNames[] = {"concat", "sum"};
constexpr ArrayRef<StringRef> enumNames(MultiInputMode) { return kMultiInputModeNames; }

struct UpSamplingParams {
  int64_t scale = 1, numFilter = 0, numArgs = 1, workspace = 0;
  SampleType sampleType = SampleType::Nearest;
  MultiInputMode multiInputMode = MultiInputMode::Concat;

  bool isBilinear() const { return sampleType == SampleType::Bilinear; }
  bool isConcat() const { return multiInputMode == MultiInputMode::Concat; }
  int64_t kernel() const { return 2 * scale - scale % 2; }
  int64_t pad() const { return scale / 2; }
};

constexpr AttrSpec kAttrs[] = {
    required<&UpSamplingParams::scale>("scale", "factor of height and width").atLeast(1).atMost(1000),
    attr<&UpSamplingParams::numFilter>("num_filter", "0", "channels of the data; bilinear needs it").atLeast(0),
    required<&UpSamplingParams::sampleType>("sample_type", "how new pixels are computed"),
    attr<&UpSamplingParams::multiInputMode>("multi_input_mode", "concat", "how several inputs are joined (nearest)"),
    required<&UpSamplingParams::numArgs>("num_args", "number of inputs (nearest)").atLeast(1).atMost(1 << 16),
    attr<&UpSamplingParams::workspace>("workspace", "512", "accepted and not used").atLeast(0),
};

Error checkParams(const OpDef &, void *params) {
  const UpSamplingParams &p = *static_cast<const UpSamplingParams *>(params);
  if (!p.isBilinear() || p.numFilter > 0) return Error::success();
  return Failure(ErrorKind::BadAttribute,
                 "attribute 'num_filter' is 0, sample_type 'bilinear' needs the channels of the data");
}

const UpSamplingParams &paramsOf(const NodeKind &kind) { return kind.params<UpSamplingParams>(); }
bool isBilinear(const NodeKind &kind) { return paramsOf(kind).isBilinear(); }
uint32_t numImages(const NodeKind &kind) {
  return isBilinear(kind) ? 2 : static_cast<uint32_t>(paramsOf(kind).numArgs);
}

void relateBilinear(ShapeInference &s, size_t data, size_t weight) {
  const UpSamplingParams &p = paramsOf(s.kind());
  s.setIn(data, {kUnknownDim, p.numFilter, kUnknownDim, kUnknownDim});
  s.setIn(weight, {p.numFilter, 1, p.kernel(), p.kernel()});
}

// Height and width of a scaled image.
int64_t scaled(int64_t extent, int64_t scale) {
  return extent == kUnknownDim ? extent : (Dim(extent) * scale).inShape();
}

// Relates batch, height and width of the output and of input 0.
void relateFirst(ShapeInference &s) {
  const int64_t scale = paramsOf(s.kind()).scale;
  s.setIn(0, {kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim});
  s.setOut(0, {kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim});
  if (s.hasFailed()) return;
  DimsBuffer in(s.in(0).dims()), out(s.out(0).dims());
  in[0] = out[0] = std::max(in[0], out[0]);
  for (size_t axis : {2, 3}) {
    if (in[axis] == kUnknownDim && out[axis] != kUnknownDim && out[axis] % scale)
      return s.fail("output has shape " + toString(s.out(0)) + ", expected multiples of scale " + Twine(scale));
    if (in[axis] == kUnknownDim && out[axis] != kUnknownDim) in[axis] = out[axis] / scale;
    out[axis] = scaled(in[axis], scale);
  }
  s.setIn(0, in);
  s.setOut(0, out);
}

// An input after the first is enlarged by one integer factor in both directions.
void relateOther(ShapeInference &s, size_t i) {
  s.setIn(i, {s.out(0)[0], kUnknownDim, kUnknownDim, kUnknownDim});
  if (s.hasFailed()) return;
  const ShapeRef in = s.in(i), out = s.out(0);
  if (!in.isFullyKnown() || out[2] == kUnknownDim || out[3] == kUnknownDim) return;
  const bool divides = in[2] > 0 && in[3] > 0 && out[2] % in[2] == 0 && out[3] % in[3] == 0;
  if (!divides || out[2] / in[2] != out[3] / in[3])
    s.fail("input " + Twine(i) + " has shape " + toString(in) + ", which no integer factor enlarges to " +
           Twine(out[2]) + " × " + Twine(out[3]) + " pixels");
}

// The channels of the inputs add up to those of the output.
void relateChannels(ShapeInference &s) {
  Dim total = 0;
  size_t unknown = 0, numUnknown = 0;
  for (size_t i = 0; i < s.numInputs(); ++i) {
    const int64_t channels = s.in(i)[1];
    if (channels == kUnknownDim) ++numUnknown, unknown = i;
    else total = total + channels;
  }
  const int64_t whole = s.out(0)[1];
  if (numUnknown == 0) s.setOut(0, {kUnknownDim, total.inShape(), kUnknownDim, kUnknownDim});
  if (numUnknown != 1 || whole == kUnknownDim) return;
  s.setIn(unknown, {kUnknownDim, (whole - total).inShape(), kUnknownDim, kUnknownDim});
}

void relateSameChannels(ShapeInference &s) {
  int64_t channels = s.out(0)[1];
  for (size_t i = 0; i < s.numInputs(); ++i) channels = std::max(channels, s.in(i)[1]);
  for (size_t i = 0; i < s.numInputs(); ++i) s.setIn(i, {kUnknownDim, channels, kUnknownDim, kUnknownDim});
  s.setOut(0, {kUnknownDim, channels, kUnknownDim, kUnknownDim});
}

void forwardShape(ShapeInference &s) {
  const UpSamplingParams &p = paramsOf(s.kind());
  if (p.isBilinear()) relateBilinear(s, 0, 1);
  relateFirst(s);
  if (s.hasFailed()) return;
  if (p.isBilinear()) return s.setOut(0, {kUnknownDim, p.numFilter, kUnknownDim, kUnknownDim});
  for (size_t i = 1; i < s.numInputs() && !s.hasFailed(); ++i) relateOther(s, i);
  if (s.hasFailed()) return;
  if (p.isConcat()) relateChannels(s);
  else relateSameChannels(s);
}

// Calls visit(element of the image, element of the enlarged image) for every pixel of the latter that `image` covers;
// its channels begin at `firstChannel` there.
template <class F> void forEachPixel(Dims image, Dims large, int64_t firstChannel, F visit) {
  if (image[2] == 0 || image[3] == 0) return;
  const int64_t scale = large[2] / image[2], width = image[3];
  auto visitRow = [&](int64_t from, int64_t to) {
    for (int64_t p = 0; p < width; ++p)
      for (int64_t i = 0; i < scale; ++i) visit(from + p, to + p * scale + i);
  };
  for (int64_t plane = 0; plane < image[0] * image[1]; ++plane) {
    const int64_t n = plane / image[1], from = plane * image[2] * width;
    const int64_t to = (n * large[1] + firstChannel + plane % image[1]) * large[2] * large[3];
    for (int64_t row = 0; row < large[2]; ++row) visitRow(from + row / scale * width, to + row * large[3]);
  }
}

}  // namespace

UpSamplingAttrs upSamplingAttrs(const NodeKind &kind) {
  return {paramsOf(kind).isBilinear(), paramsOf(kind).isConcat()};
}

ConvGeometry upSamplingGeometry(const NodeKind &kind, Dims data, Dims output) {
  const UpSamplingParams &p = paramsOf(kind);
  ConvGeometry g;
  g.in = imageView(output, false);
  g.out = imageView(data, false);
  g.groups = p.numFilter;
  for (int axis : {1, 2}) {
    g.kernel[axis] = p.kernel();
    g.stride[axis] = p.scale;
    g.pad[axis] = p.pad();
  }
  return g;
}

namespace {

void enlarge(const KernelCall &call) {
  if (!call.wants(0)) return;
  const UpSamplingParams &p = paramsOf(*call.kind);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *y = call.out[0].as<T>();
    if (p.isBilinear())
      return convolveDataGrad<T>(upSamplingGeometry(*call.kind, call.in[0].shape, call.out[0].shape),
                                 call.in[0].as<const T>(), call.in[1].as<const T>(), nullptr, y,
                                 static_cast<double *>(call.workspace));
    std::fill_n(y, call.out[0].size(), T{0});
    int64_t channel = 0;
    for (const TensorRef &in : call.in) {
      const T *x = in.as<const T>();
      forEachPixel(in.shape, call.out[0].shape, channel, [&](int64_t from, int64_t to) { y[to] += x[from]; });
      if (p.isConcat()) channel += in.shape[1];
    }
  });
}

template <class T> void bilinearBackward(const KernelCall &call) {
  const ConvGeometry g = upSamplingGeometry(*call.kind, call.in[1].shape, call.in[0].shape);
  const T *dy = call.in[0].as<const T>();
  double *scratch = static_cast<double *>(call.workspace);
  if (call.wants(0)) convolve<T>(g, dy, call.in[2].as<const T>(), nullptr, call.out[0].as<T>(), scratch);
  if (call.wants(1)) convolveWeightGrad<T>(g, call.in[1].as<const T>(), dy, call.out[1].as<T>(), scratch);
}

// dx = Σ of dy over the pixels that each pixel of `dx` was repeated to; its channels begin at `firstChannel` there.
template <class T> void sumPixels(const TensorRef &head, const TensorRef &dx, int64_t firstChannel) {
  const Dims image = dx.shape, large = head.shape;
  if (dx.size() == 0) return;
  const int64_t scale = large[2] / image[2], width = image[3];
  for (int64_t plane = 0; plane < image[0] * image[1]; ++plane) {
    const int64_t channel = plane / image[1] * large[1] + firstChannel + plane % image[1];
    for (int64_t at = 0; at < image[2] * width; ++at) {
      const T *from = head.as<const T>() + (channel * large[2] + at / width * scale) * large[3] + at % width * scale;
      double sum = 0;
      for (int64_t row = 0; row < scale; ++row, from += large[3])
        for (int64_t i = 0; i < scale; ++i) sum += static_cast<double>(from[i]);
      dx.as<T>()[plane * image[2] * width + at] = static_cast<T>(sum);
    }
  }
}

void gather(const KernelCall &call) {
  const UpSamplingParams &p = paramsOf(*call.kind);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (p.isBilinear()) return bilinearBackward<T>(call);
    int64_t channel = 0;
    for (size_t i = 0; i < call.out.size(); ++i) {
      if (call.wants(i)) sumPixels<T>(call.in[0], call.out[i], channel);
      if (p.isConcat()) channel += call.out[i].shape[1];
    }
  });
}

// Attributes of the deconvolution that bilinear is computed by.
Attrs deconvolutionAttrs(const RuleContext &rule) {
  const UpSamplingParams &p = rule.params<UpSamplingParams>();
  auto pair = [](int64_t v) { return ("(" + Twine(v) + "," + Twine(v) + ")").str(); };
  const std::string kernel = pair(p.kernel()), stride = pair(p.scale), pad = pair(p.pad());
  const std::string filters = std::to_string(p.numFilter);
  const AttrText attrs[] = {{"kernel", kernel},      {"stride", stride},     {"pad", pad},
                            {"num_filter", filters}, {"num_group", filters}, {"no_bias", "True"}};
  return rule.context().attrs(ArrayRef<AttrText>(attrs));
}

extern const OpDef kUpSampling, kBackwardUpSampling;

// For bilinear: dx = C(dy, w) and dw = B(dy, x) with the maps of ops/spatial/deconvolution.cc, which are linear in both
// operands.
void bilinearSecondOrder(GradRule &g) {
  const Attrs attrs = deconvolutionAttrs(g);
  const Value dy = g.x(0), x = g.x(1), w = g.x(2);
  Value fromData, fromWeight;
  if (!g.isZero(0)) fromData = g.emit(kDeconvolution, {g.dy(0), w}, attrs);
  if (!g.isZero(1)) fromWeight = g.emit(kDeconvolution, {x, g.dy(1)}, attrs);
  if (fromData.isValid() && fromWeight.isValid()) g.dx(0, g.emit(kElemwiseAdd, {fromData, fromWeight}));
  else g.dx(0, fromData.isValid() ? fromData : fromWeight);
  if (g.isZero(1)) g.noGrad(1);
  else g.dx(1, g.emit(kDeconvolutionDataGrad, {dy, g.dy(1), x}, attrs));
  if (g.isZero(0)) g.noGrad(2);
  else g.dx(2, g.emit(kDeconvolutionWeightGrad, {dy, g.dy(0), w}, attrs));
}

// For nearest: how many times each pixel of input i is repeated. Only the first input's factor is an attribute.
int64_t factorOf(DecomposeRule &d, Value first, Value other, size_t i) {
  const int64_t scale = d.params<UpSamplingParams>().scale;
  if (i == 0) return scale;
  const int64_t height = d.size(other, 2);
  return std::max<int64_t>(height ? d.size(first, 2) * scale / height : 1, 1);
}

Value repeatPixels(DecomposeRule &d, Value v, int64_t factor) {
  for (const char *axis : {"2", "3"}) v = d.emit(kRepeat, {v}, {{"repeats", d.number(factor)}, {"axis", axis}});
  return v;
}

void decomposeForward(DecomposeRule &d) {
  const UpSamplingParams &p = d.params<UpSamplingParams>();
  if (p.isBilinear()) return d.y(0, d.emit(kDeconvolution, {d.x(0), d.x(1)}, deconvolutionAttrs(d)));
  SmallVector<Value, 4> images;
  for (size_t i = 0; i < d.numInputs(); ++i) images.push_back(repeatPixels(d, d.x(i), factorOf(d, d.x(0), d.x(i), i)));
  if (images.size() == 1) return d.y(0, images[0]);
  const AttrText count = {"num_args", d.number(p.numArgs)};
  if (!p.isConcat()) return d.y(0, d.emit(kElementWiseSum, images, d.context().attrs(count)));
  d.y(0, d.emit(kConcat, images, d.context().attrs(ArrayRef<AttrText>{count, {"dim", "1"}})));
}

// For nearest: the sum over the copies of each pixel, in the channels that input i became.
void decomposeBackward(DecomposeRule &d) {
  const UpSamplingParams &p = d.params<UpSamplingParams>();
  if (p.isBilinear()) {
    const Attrs attrs = deconvolutionAttrs(d);
    if (d.wants(0)) d.y(0, d.emit(kDeconvolutionDataGrad, {d.x(0), d.x(2), d.x(1)}, attrs));
    if (d.wants(1)) d.y(1, d.emit(kDeconvolutionWeightGrad, {d.x(0), d.x(1), d.x(2)}, attrs));
    return;
  }
  int64_t channel = 0;
  for (size_t i = 0; i < d.numOutputs(); ++i) {
    Value part = d.x(0);
    if (p.isConcat() && d.numOutputs() > 1) {
      const int64_t begin = channel;
      channel += d.size(d.forwardInput(i), 1);
      const std::string from = "(None," + std::to_string(begin) + ")", to = "(None," + std::to_string(channel) + ")";
      part = d.emit(kSlice, {part}, {{"begin", from}, {"end", to}});
    }
    if (!d.wants(i)) continue;
    const int64_t factor = i == 0 ? p.scale : factorOf(d, d.forwardInput(0), d.forwardInput(i), i);
    const StringRef window = d.tuple({factor, factor});
    d.y(i, d.emit(kPooling, {part}, {{"pool_type", "sum"}, {"kernel", window}, {"stride", window}}));
  }
}

constinit const OpDef kUpSampling = {
    .name = "UpSampling",
    .summary = "nearest: y[n,c,i,j] = x[n,c,⌊i/s⌋,⌊j/s⌋], inputs joined along the channels or added up; bilinear: a "
               "deconvolution of each channel of data with weight",
    .inputs = {{}, numImages, true},
    .attrs = kAttrs,
    .params = gradc::paramsOf<UpSamplingParams>(),
    .check = checkParams,
    .shape = forwardShape,
    .gradient =
        [](GradRule &g) {
          if (isBilinear(g.kind())) g.fused(kBackwardUpSampling, {g.dy(0), g.x(0), g.x(1)});
          else g.fused(kBackwardUpSampling, {g.dy(0)});
        },
    .decompose = decomposeForward,
    .kernel = enlarge,
    .workspace =
        [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out) {
          return isBilinear(k) ? upSamplingGeometry(k, in[0].shape, out[0].shape).dataGradBytes() : 0;
        },
};

// Its own gradient: nearest is linear, and the adjoint of the adjoint is the forward operator. The shapes of the
// results are those of the forward node's inputs (INF-08).
constinit const OpDef kBackwardUpSampling = {
    .name = "_backward_UpSampling",
    .summary = "gradients of UpSampling; nearest: dx[n,c,i,j] = Σ of dy over the pixels x[n,c,i,j] was repeated to",
    .inputs = {{}, [](const NodeKind &k) { return isBilinear(k) ? 3u : 1u; }, true},
    .outputs = {{}, numImages, true},
    .attrs = kAttrs,
    .params = gradc::paramsOf<UpSamplingParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          if (!isBilinear(s.kind())) return;
          relateBilinear(s, 1, 2);
          s.sameInOut(1, 0);
          s.sameInOut(2, 1);
        },
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          if (isBilinear(g.kind())) return bilinearSecondOrder(g);
          g.dx(0, g.emit(kUpSampling, g.headGradients(), g.attrs()));
        },
    .decompose = decomposeBackward,
    .kernel = gather,
    .workspace =
        [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
          return isBilinear(k) ? upSamplingGeometry(k, in[1].shape, in[0].shape).weightGradBytes() : 0;
        },
};

}  // namespace

constinit const OpFamily kUpSamplingFamily = kOps<kUpSampling, kBackwardUpSampling>;

}  // namespace gradc
