// Bilinear resizing of images: each pixel of the output is a weighted mean of the four input pixels around it.
//
// Row i of the output is at p = i·(h − 1)/(H − 1) of the input's rows (align_corners), else at max(0, (i + ½)·h/H − ½),
// and for H = 1 at 0 either way. It takes 1 − (p − ⌊p⌋) of row ⌊p⌋ and the rest of the next one; columns likewise.
// Positions are rounded to single precision, as MXNet rounds them. The weights depend only on shapes, so the map is
// linear, the backward operator is its adjoint, and each is the gradient of the other.
// Tested by tests/ops/sequence_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/axis_map.h"
#include "ops/spatial/bilinear_resize.h"
#include "ops/spatial/spatial.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

enum class ResizeMode : uint8_t { Like, OddScale, Size, ToEvenDown, ToEvenUp, ToOddDown, ToOddUp };
constexpr StringRef kResizeModeNames[] = {"like",       "odd_scale",   "size",     "to_even_down",
                                          "to_even_up", "to_odd_down", "to_odd_up"};
constexpr ArrayRef<StringRef> enumNames(ResizeMode) { return kResizeModeNames; }

struct ResizeParams {
  int64_t height = 1, width = 1;
  std::optional<double> scaleHeight, scaleWidth;
  ResizeMode mode = ResizeMode::Size;
  bool alignCorners = true;
};

constexpr AttrSpec kAttrs[] = {
    attr<&ResizeParams::height>("height", "1", "rows of the output (size, without scale_height)")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&ResizeParams::width>("width", "1", "columns of the output (size, without scale_width)")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&ResizeParams::scaleHeight>("scale_height", "None", "factor of the rows (size, odd_scale)").atLeast(0),
    attr<&ResizeParams::scaleWidth>("scale_width", "None", "factor of the columns (size, odd_scale)").atLeast(0),
    attr<&ResizeParams::mode>(
        "mode", "size",
        "size: height and width, or the factors; odd_scale: the factors, of one less for an odd "
        "extent, and one more; like: the extent of a second input; to_…: the next even or odd one"),
    attr<&ResizeParams::alignCorners>("align_corners", "True", "whether corner pixels stay in the corners"),
};

Error checkParams(const OpDef &, void *params) {
  const ResizeParams &p = *static_cast<const ResizeParams *>(params);
  if (p.mode != ResizeMode::OddScale || (p.scaleHeight && p.scaleWidth)) return Error::success();
  return Failure(ErrorKind::BadAttribute, StringRef("attribute '") + (p.scaleHeight ? "scale_width" : "scale_height") +
                                              "' is None, mode 'odd_scale' needs a number");
}

bool isLike(const NodeKind &kind) { return kind.params<ResizeParams>().mode == ResizeMode::Like; }
uint32_t numImages(const NodeKind &kind) { return isLike(kind) ? 2 : 1; }

// The request for one axis.
struct AxisRequest {
  int64_t size;
  std::optional<double> scale;
};

// MXNet holds scales in single precision and truncates the product.
Dim scaled(int64_t extent, double scale) {
  return convertNumber<int64_t>(static_cast<float>(scale) * static_cast<float>(extent));
}

// Extent of the output for one of the input.
Dim resized(ResizeMode mode, AxisRequest request, int64_t extent) {
  const bool isOdd = extent % 2 != 0;
  switch (mode) {
    case ResizeMode::Size: return request.scale ? scaled(extent, *request.scale) : request.size;
    case ResizeMode::OddScale: return isOdd ? scaled(extent - 1, *request.scale) + 1 : scaled(extent, *request.scale);
    case ResizeMode::ToEvenDown: return isOdd ? extent - 1 : extent;
    case ResizeMode::ToEvenUp: return isOdd ? extent + 1 : extent;
    case ResizeMode::ToOddDown: return isOdd ? extent : extent - 1;
    case ResizeMode::ToOddUp: return isOdd ? extent : extent + 1;
    case ResizeMode::Like: break;
  }
  return extent;
}

void relateExtents(ShapeInference &s) {
  const ResizeParams &p = s.params<ResizeParams>();
  const AxisRequest requests[] = {{p.height, p.scaleHeight}, {p.width, p.scaleWidth}};
  DimsBuffer out(s.out(0).dims());
  for (size_t axis : {2, 3}) {
    const AxisRequest &request = requests[axis - 2];
    const bool isFixed = p.mode == ResizeMode::Size && !request.scale;
    const int64_t extent = s.in(0)[axis];
    if (extent == kUnknownDim && !isFixed) continue;
    const Dim length = resized(p.mode, request, extent);
    if (length < 1) return s.fail("data of shape " + toString(s.in(0)) + " would be resized to an empty image");
    out[axis] = length.inShape();
  }
  s.setOut(0, out);
}

void forwardShape(ShapeInference &s) {
  constexpr int64_t kImages[] = {kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim};
  for (size_t i = 0; i < s.numInputs(); ++i) s.setIn(i, kImages);
  s.setOut(0, kImages);
  if (s.hasFailed()) return;
  const int64_t batch = std::max(s.in(0)[0], s.out(0)[0]), channels = std::max(s.in(0)[1], s.out(0)[1]);
  s.setIn(0, {batch, channels, kUnknownDim, kUnknownDim});
  s.setOut(0, {batch, channels, kUnknownDim, kUnknownDim});
  if (s.hasFailed()) return;
  if (s.in(0)[2] == 0 || s.in(0)[3] == 0)
    return s.fail("data has shape " + toString(s.in(0)) + ", expected images that are not empty");
  if (!isLike(s.kind())) return relateExtents(s);
  s.setIn(1, {kUnknownDim, kUnknownDim, s.out(0)[2], s.out(0)[3]});
  if (!s.hasFailed()) s.setOut(0, {kUnknownDim, kUnknownDim, s.in(1)[2], s.in(1)[3]});
}

// The position of row or column i of the output among the input's; past the last one it means the last one.
float positionOf(int64_t i, int64_t in, int64_t out, bool alignCorners) {
  if (alignCorners) {
    const float step = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0;
    return step * static_cast<float>(i);
  }
  const float step = out > 1 ? static_cast<float>(in) / static_cast<float>(out) : 0;
  return std::max(0.0f, static_cast<float>(static_cast<double>(step) * (static_cast<double>(i) + 0.5) - 0.5));
}

}  // namespace

Blend resizeBlend(const NodeKind &kind, int64_t i, int64_t in, int64_t out) {
  const float position = positionOf(i, in, out, kind.params<ResizeParams>().alignCorners);
  const int64_t first = std::min(static_cast<int64_t>(position), in - 1);
  const double rest = static_cast<double>(position - static_cast<float>(first));
  return {first, std::min(first + 1, in - 1), 1 - rest};
}

namespace {

struct ImageRange {
  int64_t begin, end;
};

// Calls visit(element of `output`, offset of the image, four elements of the image, their weights) for every pixel of
// some images of `output`; channels count as images.
template <class F> void forEachPixel(const NodeKind &kind, Dims data, Dims output, ImageRange images, F visit) {
  const int64_t height = data[2], width = data[3], rows = output[2], columns = output[3];
  if (images.begin == images.end || columns == 0) return;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const Blend y = resizeBlend(kind, row, height, rows), x = resizeBlend(kind, column, width, columns);
      const std::array<int64_t, 4> at = {y.first * width + x.first, y.first * width + x.second,
                                         y.second * width + x.first, y.second * width + x.second};
      const std::array<double, 4> weights = {y.weight * x.weight, y.weight * (1 - x.weight), (1 - y.weight) * x.weight,
                                             (1 - y.weight) * (1 - x.weight)};
      for (int64_t image = images.begin; image < images.end; ++image)
        visit((image * rows + row) * columns + column, image * height * width, at, weights);
    }
}

void resize(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    const Dims data = call.in[0].shape, resized = call.out[0].shape;
    forEachPixel(*call.kind, data, resized, {0, data[0] * data[1]},
                 [&](int64_t o, int64_t image, auto at, auto weights) {
                   double sum = 0;
                   for (size_t k = 0; k < 4; ++k) sum += weights[k] * static_cast<double>(x[image + at[k]]);
                   y[o] = static_cast<T>(sum);
                 });
  });
}

constexpr int64_t kImagesAtOnce = 8;  // whose gradients are added up at the same time

size_t spreadBytes(const NodeKind &, ArrayRef<TensorRef>, ArrayRef<TensorRef> out) {
  const Dims data = out[0].shape;
  return static_cast<size_t>(std::min(kImagesAtOnce, data[0] * data[1]) * data[2] * data[3]) * sizeof(double);
}

void spread(const KernelCall &call) {
  if (call.out.size() == 2 && call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
  if (!call.wants(0)) return;
  const Dims data = call.out[0].shape;
  const int64_t images = data[0] * data[1], size = data[2] * data[3];
  double *sums = static_cast<double *>(call.workspace);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>();
    for (int64_t first = 0; first < images; first += kImagesAtOnce) {
      const int64_t last = std::min(first + kImagesAtOnce, images);
      std::fill_n(sums, (last - first) * size, 0.0);
      forEachPixel(*call.kind, data, call.in[0].shape, {first, last},
                   [&](int64_t o, int64_t image, auto at, auto weights) {
                     double *to = sums + image - first * size;
                     for (size_t k = 0; k < 4; ++k) to[at[k]] += weights[k] * static_cast<double>(dy[o]);
                   });
      std::transform(sums, sums + (last - first) * size, dx + first * size,
                     [](double sum) { return static_cast<T>(sum); });
    }
  });
}

// Pixel i of `in` has weight max(0, 1 − |p − i|) in the pixel that is at p.
Value nearness(DecomposeRule &d, int64_t in, int64_t out) {
  const bool alignCorners = d.params<ResizeParams>().alignCorners;
  SmallVector<double, 32> positions;
  for (int64_t o = 0; o < out; ++o)
    positions.push_back(std::min<double>(positionOf(o, in, out, alignCorners), static_cast<double>(in - 1)));
  std::string values;
  raw_string_ostream os(values);
  printAttr(os, ArrayRef<double>(positions));
  const Value at = d.emit(kConstant, {}, {{"dtype", "float64"}, {"shape", d.tuple({out, 1})}, {"values", values}});
  const Value distance = d.emit(kAbs, {d.emit(kBroadcastSub, {at, countAlong(d, 1, in)})});
  const Value weight = d.emit(kRminusScalar, {distance}, {{"scalar", "1"}});
  return d.emit(kMaximumScalar, {weight}, {{"scalar", "0"}});
}

void mapPixels(DecomposeRule &d) {
  d.y(0, mapImages(d, [&](int64_t in, int64_t out) { return nearness(d, in, out); }));
}

void mapBackToPixels(DecomposeRule &d) {
  if (d.wants(0)) mapPixels(d);
  if (isLike(d.kind()) && d.wants(1)) d.y(1, d.emit(kZerosLike, {d.forwardInput(1)}));
}

extern const OpDef kBilinearResize, kBackwardBilinearResize;

constinit const OpDef kBilinearResize = {
    .name = "_contrib_BilinearResize2D",
    .summary =
        "y[n,c,i,j] = the four pixels of x around (i, j), in the input's coordinates, each weighted by how near it is",
    .inputs = {{"data", "like"}, numImages},
    .attrs = kAttrs,
    .params = paramsOf<ResizeParams>(),
    .check = checkParams,
    .shape = forwardShape,
    .ignored = {1},
    .gradient = [](GradRule &g) { g.fused(kBackwardBilinearResize, {g.dy(0)}); },
    .decompose = mapPixels,
    .kernel = resize,
};

// Linear in dy. The shapes of the results are those of the forward node's inputs (INF-08).
constinit const OpDef kBackwardBilinearResize = {
    .name = "_backward_contrib_BilinearResize2D",
    .summary =
        "gradient of _contrib_BilinearResize2D: dx[p] = Σ of dy, over the pixels that p contributes to, times its "
        "weight there; dlike = 0",
    .inputs = {"ograd"},
    .outputs = {{"data_grad", "like_grad"}, numImages},
    .attrs = kAttrs,
    .params = paramsOf<ResizeParams>(),
    .check = checkParams,
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          if (g.isZero(0)) return g.noGrad(0);
          if (isLike(g.kind())) g.dx(0, g.emit(kBilinearResize, {g.dy(0), g.x(0)}, g.attrs()));
          else g.dx(0, g.emit(kBilinearResize, {g.dy(0)}, g.attrs()));
        },
    .decompose = mapBackToPixels,
    .kernel = spread,
    .workspace = spreadBytes,
};

}  // namespace

constinit const OpFamily kBilinearResizeFamily = kOps<kBilinearResize, kBackwardBilinearResize>;

}  // namespace gradc
