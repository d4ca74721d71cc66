// Images as columns, one for each position of a window, and back: im2col, col2im.
//
// An image is (n, c, spatial…) with one to three spatial axes; columns are (n, c · window, positions), zeros where a
// window reaches into the padding. col2im sums the column elements that show a pixel: it is the adjoint of im2col, and
// each operator is the gradient of the other. Tested by tests/ops/network_ops_test.cc
#include "ir/base/error.h"
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_rules.h"
#include "ops/spatial/im2col.h"
#include "ops/spatial/spatial.h"

#include <algorithm>
#include <string>

using namespace llvm;

namespace gradc {
namespace {

struct WindowParams {
  Dims kernel, stride, dilate, pad, outputSize;

  size_t rank() const { return kernel.size() + 2; }
  Dim window() const { return productOf(kernel); }
  /// Positions of the window on an axis of `in` pixels; negative where it does not fit.
  Dim positions(size_t i, int64_t in) const {
    const Dim room = Dim(in) + Dim(2) * pad[i] - (Dim(dilate[i]) * (kernel[i] - 1) + 1);
    return room < 0 ? Dim(-1) : room / stride[i] + 1;
  }
};

constexpr AttrSpec kKernel = required<&WindowParams::kernel>("kernel", "window size: (w,), (h, w) or (d, h, w)")
                                 .atLeast(1)
                                 .atMost(kLargestWindow);
constexpr AttrSpec kStride = attr<&WindowParams::stride>("stride", "()", "step of the window, 1 when left out")
                                 .atLeast(1)
                                 .atMost(kLargestWindow);
constexpr AttrSpec kDilate =
    attr<&WindowParams::dilate>("dilate", "()", "distance between taps of the window, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow);
constexpr AttrSpec kPad = attr<&WindowParams::pad>("pad", "()", "zeros put on both sides of each axis, 0 when left out")
                              .atLeast(0)
                              .atMost(kLargestWindow);
constexpr AttrSpec kIm2colAttrs[] = {kKernel, kStride, kDilate, kPad};
constexpr AttrSpec kCol2imAttrs[] = {
    required<&WindowParams::outputSize>("output_size", "extents of the image").atLeast(1).atMost(kLargestWindow),
    kKernel, kStride, kDilate, kPad};

Error checkWindow(const OpDef &, void *params) {
  WindowParams &p = *static_cast<WindowParams *>(params);
  if (p.kernel.empty() || p.kernel.size() > 3)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'kernel' has " + Twine(p.kernel.size()) + " elements, expected 1 to 3");
  if (Error error = completeWindowAttr("stride", p.stride, p.kernel, kSpatialOnes)) return error;
  if (Error error = completeWindowAttr("dilate", p.dilate, p.kernel, kSpatialOnes)) return error;
  return completeWindowAttr("pad", p.pad, p.kernel, kSpatialZeros);
}

Error checkWindowAndSize(const OpDef &op, void *params) {
  if (Error error = checkWindow(op, params)) return error;
  WindowParams &p = *static_cast<WindowParams *>(params);
  if (p.outputSize.size() == p.kernel.size()) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'output_size' has " + countOf(p.outputSize.size(), "element") +
                                              ", expected " + Twine(p.kernel.size()) + " as 'kernel' has");
}

// The image is input 0 and the columns are output 0, or vice versa.
void relateShapes(ShapeInference &s, bool isImageInput) {
  const WindowParams &p = s.params<WindowParams>();
  auto state = [&](Dims image, Dims columns) {
    isImageInput ? s.setIn(0, image) : s.setOut(0, image);
    isImageInput ? s.setOut(0, columns) : s.setIn(0, columns);
  };
  DimsBuffer image(p.rank(), kUnknownDim), columns(3, kUnknownDim);
  llvm::copy(p.outputSize, image.begin() + 2);
  state(image, columns);
  if (s.hasFailed()) return;
  image = DimsBuffer((isImageInput ? s.in(0) : s.out(0)).dims());
  columns = DimsBuffer((isImageInput ? s.out(0) : s.in(0)).dims());
  image[0] = columns[0] = std::max(image[0], columns[0]);
  if (columns[1] != kUnknownDim) {
    if (p.window() > columns[1] ? columns[1] != 0 : columns[1] % p.window().nearest() != 0)
      return s.fail("columns have " + Twine(columns[1]) + " rows, expected a multiple of the " +
                    Twine(p.window().nearest()) + " elements of a window");
    image[1] = std::max(image[1], columns[1] / p.window().nearest());
  }
  if (image[1] != kUnknownDim) columns[1] = (p.window() * image[1]).inShape();
  Dim positions = 1;
  bool isKnown = true;
  for (size_t i = 0; i < p.kernel.size(); ++i) {
    if (image[i + 2] == kUnknownDim) {
      isKnown = false;
      continue;
    }
    const Dim onAxis = p.positions(i, image[i + 2]);
    if (onAxis < 0)
      return s.fail("kernel of reach " + Twine((Dim(p.dilate[i]) * (p.kernel[i] - 1) + 1).nearest()) +
                    " exceeds the padded image of " + Twine((Dim(image[i + 2]) + Dim(2) * p.pad[i]).nearest()) +
                    " on spatial axis " + Twine(i));
    positions = positions * onAxis;
  }
  if (isKnown) columns[2] = positions.inShape();
  state(image, columns);
}

void toColumns(const KernelCall &call) {
  if (!call.wants(0)) return;
  const ColumnWindows windows = columnWindows(*call.kind, call.in[0].shape);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < windows.planes * windows.window; ++row)
      windows.copyRow(row, call.in[0].as<const T>(), call.out[0].as<T>());
  });
}

// One sum per pixel of a plane.
size_t sumBytes(const NodeKind &, ArrayRef<TensorRef>, ArrayRef<TensorRef> out) {
  return static_cast<size_t>(productOf(out[0].shape.drop_front(2)).nearest()) * sizeof(double);
}

void toImage(const KernelCall &call) {
  if (!call.wants(0)) return;
  const ColumnWindows windows = columnWindows(*call.kind, call.out[0].shape);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto *sums = static_cast<Accumulator<T> *>(call.workspace);
    for (int64_t plane = 0; plane < windows.planes; ++plane)
      windows.sumPlane(plane, call.in[0].as<const T>(), sums, call.out[0].as<T>());
  });
}

// Both directions decompose to a convolution of one channel with filters that are 1 at a single tap.
class Taps {
 public:
  explicit Taps(DecomposeRule &d) : d(d), p(d.params<WindowParams>()), count(d.number(p.window().nearest())) {}

  /// (window, 1, kernel…), in the type of `like`.
  Value filters(Value like) {
    const int64_t square[] = {p.window().nearest(), p.window().nearest()};
    const Value base = d.emit(kFull, {}, {{"shape", d.tuple(square)}, {"value", "0"}});
    const Value filter = d.emit(kIndexLike, {base}, {{"axis", "0"}}), tap = d.emit(kIndexLike, {base}, {{"axis", "1"}});
    const Value isTap = d.emit(kEqual, {filter, tap});
    DimsBuffer shape = {p.window().nearest(), 1};
    shape.append(p.kernel.begin(), p.kernel.end());
    return d.emit(kReshape, {d.emit(kCastLike, {isTap, like})}, {{"shape", d.tuple(shape)}});
  }
  Attrs convolution() {
    const AttrText attrs[] = {{"kernel", d.tuple(p.kernel)}, {"stride", d.tuple(p.stride)},
                              {"dilate", d.tuple(p.dilate)}, {"pad", d.tuple(p.pad)},
                              {"num_filter", count},         {"no_bias", "True"}};
    return d.context().attrs(ArrayRef<AttrText>(attrs));
  }
  /// (n, c, …) as n·c images of one channel.
  Value planes(Value image) { return d.emit(kExpandDims, {reshaped(image, "(-3,-2)")}, {{"axis", "1"}}); }
  /// (n, c·window, positions) as (n, c, window, positions).
  Value perChannel(Value columns) { return reshaped(columns, ("(0,-4,-1," + count + ",0)").str()); }
  Value reshaped(Value v, const std::string &shape) { return d.emit(kReshape, {v}, {{"shape", shape}}); }

 private:
  DecomposeRule &d;
  const WindowParams &p;
  const StringRef count;
};

Value likeRange(DecomposeRule &d, Value v, Value like, StringRef lhsEnd, StringRef rhsEnd) {
  return d.emit(kReshapeLike, {v, like},
                {{"lhs_begin", "0"}, {"lhs_end", lhsEnd}, {"rhs_begin", "0"}, {"rhs_end", rhsEnd}});
}

void decomposeToColumns(DecomposeRule &d) {
  Taps taps(d);
  const Value image = taps.planes(d.x(0));
  Value y = d.emit(kConvolution, {image, taps.filters(d.x(0))}, taps.convolution());
  for (size_t rank = d.params<WindowParams>().rank(); rank > 3; --rank) y = taps.reshaped(y, "(0,0,-3,-2)");
  d.y(0, taps.reshaped(likeRange(d, y, d.x(0), "1", "2"), "(0,-3,0)"));
}

// The data gradient of that convolution; `extents` are those of the image.
void decomposeToImage(DecomposeRule &d, Dims extents) {
  Taps taps(d);
  const WindowParams &p = d.params<WindowParams>();
  const Value perChannel = taps.perChannel(d.x(0));
  DimsBuffer shape = {0, 0}, ones = {0, 0}, repeats = {1, 1};
  for (size_t i = 0; i < extents.size(); ++i) {
    shape.push_back(p.positions(i, extents[i]).nearest());
    ones.push_back(1);
    repeats.push_back(extents[i]);
  }
  const Value columns = taps.reshaped(perChannel, "(-3,-2)");
  const Value dy = d.emit(kReshape, {columns}, {{"shape", d.tuple(shape)}});
  // One element per plane, repeated to an image, of which only the shape is used.
  const Value first = d.emit(kSlice, {columns}, {{"begin", "(None,0,0)"}, {"end", "(None,1,1)"}});
  const Value pixel = d.emit(kReshape, {first}, {{"shape", d.tuple(ones)}});
  const Value like = d.emit(kTile, {pixel}, {{"reps", d.tuple(repeats)}});
  const Value image = d.emit(kConvolutionDataGrad, {dy, taps.filters(d.x(0)), like}, taps.convolution());
  d.y(0, likeRange(d, taps.reshaped(image, "(0,-3,-2)"), perChannel, "1", "2"));
}

// For im2col's gradient, which has no attribute for the extents.
void decomposeToForwardImage(DecomposeRule &d) {
  DimsBuffer extents;
  const Value image = d.forwardInput(0);
  for (size_t i = 0; i < d.params<WindowParams>().kernel.size(); ++i)
    extents.push_back(d.size(image, static_cast<int64_t>(i) + 2));
  if (!d.hasRefused()) decomposeToImage(d, extents);
}

constexpr OpDef windowOp(StringRef name, StringRef summary, ArrayRef<AttrSpec> attrs,
                         Error (*check)(const OpDef &, void *)) {
  OpDef op = named({name}, summary);
  op.inputs = {"data"};
  op.attrs = attrs;
  op.params = paramsOf<WindowParams>();
  op.check = check;
  op.kernelTypes = kFloatingAndIntegers;
  return op;
}

constexpr OpDef toColumnsOp(OpDef op, void (*gradient)(GradRule &)) {
  op.shape = [](ShapeInference &s) { relateShapes(s, true); };
  op.gradient = gradient;
  op.decompose = decomposeToColumns;
  op.kernel = toColumns;
  return op;
}

constexpr OpDef toImageOp(OpDef op, void (*gradient)(GradRule &), void (*decompose)(DecomposeRule &)) {
  op.shape = [](ShapeInference &s) { relateShapes(s, false); };
  op.gradient = gradient;
  op.decompose = decompose;
  op.kernel = toImage;
  op.workspace = sumBytes;
  return op;
}

constexpr OpDef asBackward(OpDef op) {
  op.inputs = {"dy"};
  op.flags.isBackward = true;
  return op;
}

extern const OpDef kIm2col, kCol2im, kBackwardIm2col, kBackwardCol2im;

constinit const OpDef kIm2col = toColumnsOp(
    windowOp("im2col",
             "y[n,c·K + k,p] = x[n,c,p·stride + k·dilate − pad], k the element of a window of K, p its position; 0 in "
             "the padding",
             kIm2colAttrs, checkWindow),
    [](GradRule &g) { g.fused(kBackwardIm2col, {g.dy(0)}); });

constinit const OpDef kCol2im = toImageOp(
    windowOp("col2im",
             "y[n,c,q] = Σ x[n,c·K + k,p] over elements k and positions p of a window with q = p·stride + k·dilate − "
             "pad",
             kCol2imAttrs, checkWindowAndSize),
    [](GradRule &g) { g.fused(kBackwardCol2im, {g.dy(0)}); },
    [](DecomposeRule &d) { decomposeToImage(d, d.params<WindowParams>().outputSize); });

constinit const OpDef kBackwardIm2col = asBackward(toImageOp(
    windowOp("_backward_im2col", "gradient of im2col: dx[n,c,q] = Σ dy over the windows that pixel q is in",
             kIm2colAttrs, checkWindow),
    [](GradRule &g) { g.dx(0, g.emit(kIm2col, g.dy(0), g.attrs())); }, decomposeToForwardImage));

constinit const OpDef kBackwardCol2im =
    asBackward(toColumnsOp(windowOp("_backward_col2im", "gradient of col2im: dx = the windows of dy as columns",
                                    kCol2imAttrs, checkWindowAndSize),
                           [](GradRule &g) { g.dx(0, g.emit(kCol2im, g.dy(0), g.attrs())); }));

}  // namespace

ColumnWindows columnWindows(const NodeKind &kind, Dims image) {
  const WindowParams &p = kind.params<WindowParams>();
  ColumnWindows windows;
  windows.planes = image[0] * image[1];
  setSpatial(windows.kernel, p.kernel);
  setSpatial(windows.stride, p.stride);
  setSpatial(windows.dilate, p.dilate);
  setSpatial(windows.pad, p.pad);
  setSpatial(windows.in, image.drop_front(2));
  const size_t first = 3 - p.kernel.size();
  for (size_t i = 0; i < p.kernel.size(); ++i) windows.out[first + i] = p.positions(i, image[i + 2]).nearest();
  for (int axis = 0; axis < 3; ++axis) {
    windows.window *= windows.kernel[axis];
    windows.positions *= windows.out[axis];
  }
  return windows;
}

constinit const OpFamily kIm2colFamily = kOps<kIm2col, kCol2im, kBackwardIm2col, kBackwardCol2im>;

}  // namespace gradc
