// Adaptive average pooling: the mean over windows that divide an image into a given number of rows and columns.
//
// Linear; the backward operator is its adjoint, and each is the gradient of the other. Tested by
// tests/ops/layer_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/adaptive_pooling.h"
#include "ops/spatial/axis_map.h"
#include "ops/spatial/spatial.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

struct AdaptiveParams {
  Dims outputSize;

  int64_t rows() const { return outputSize.empty() ? 1 : outputSize.front(); }
  int64_t columns() const { return outputSize.empty() ? 1 : outputSize.back(); }
};

constexpr AttrSpec kAttrs[] = {
    attr<&AdaptiveParams::outputSize>("output_size", "()",
                                      "rows and columns of the output, or one number for both; (): 1")
        .atLeast(1)
        .atMost(kLargestWindow),
};

Error checkParams(const OpDef &, void *params) {
  const AdaptiveParams &p = *static_cast<const AdaptiveParams *>(params);
  if (p.outputSize.size() <= 2) return Error::success();
  return Failure(ErrorKind::BadAttribute,
                 "attribute 'output_size' has " + Twine(p.outputSize.size()) + " elements, expected at most 2");
}

// Extents of images and of their means; each channel counts as an image.
struct AdaptiveGeometry {
  int64_t images, height, width, rows, columns;

  AdaptiveGeometry(Dims data, Dims output)
      : images(data[0] * data[1]), height(data[2]), width(data[3]), rows(output[2]), columns(output[3]) {}

  AdaptiveWindow windowRows(int64_t o) const { return {o / columns, height, rows}; }
  AdaptiveWindow windowColumns(int64_t o) const { return {o % columns, width, columns}; }
  /// The rows and columns of windows that hold pixel i of an image.
  AdaptiveWindow rowsAround(int64_t i) const { return {i / width, rows, height}; }
  AdaptiveWindow columnsAround(int64_t i) const { return {i % width, columns, width}; }
};

int64_t sizeOf(const AdaptiveWindow &high, const AdaptiveWindow &wide) {
  return (high.end - high.begin) * (wide.end - wide.begin);
}

void pool(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AdaptiveGeometry g(call.in[0].shape, call.out[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    for (int64_t image = 0; image < g.images; ++image, x += g.height * g.width)
      for (int64_t o = 0; o < g.rows * g.columns; ++o) {
        const AdaptiveWindow high = g.windowRows(o), wide = g.windowColumns(o);
        double sum = 0;
        for (int64_t row = high.begin; row < high.end; ++row)
          for (int64_t at = wide.begin; at < wide.end; ++at) sum += static_cast<double>(x[row * g.width + at]);
        *y++ = static_cast<T>(sum / static_cast<double>(sizeOf(high, wide)));
      }
  });
}

void spread(const KernelCall &call) {
  if (!call.wants(0)) return;
  const AdaptiveGeometry g(call.out[0].shape, call.in[0].shape);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>();
    for (int64_t image = 0; image < g.images; ++image, dy += g.rows * g.columns)
      for (int64_t i = 0; i < g.height * g.width; ++i) {
        const AdaptiveWindow high = g.rowsAround(i), wide = g.columnsAround(i);
        double sum = 0;
        for (int64_t row = high.begin; row < high.end; ++row)
          for (int64_t at = wide.begin; at < wide.end; ++at) {
            const int64_t o = row * g.columns + at;
            sum += static_cast<double>(dy[o]) / static_cast<double>(sizeOf(g.windowRows(o), g.windowColumns(o)));
          }
        *dx++ = static_cast<T>(sum);
      }
  });
}

// Element i of `in` belongs to window o of `out` where o·in < (i + 1)·out and i·out < (o + 1)·in. Exact in float64.
Value windowMeans(DecomposeRule &d, int64_t in, int64_t out) {
  const Value o = countAlong(d, 0, out), i = countAlong(d, 1, in);
  auto times = [&](Value index, int64_t factor) { return d.emit(kMulScalar, {index}, {{"scalar", d.number(factor)}}); };
  auto next = [&](Value index) { return d.emit(kPlusScalar, {index}, {{"scalar", "1"}}); };
  const Value hasBegun = d.emit(kBroadcastLesser, {times(o, in), times(next(i), out)});
  const Value isOpen = d.emit(kBroadcastLesser, {times(i, out), times(next(o), in)});
  const Value inside = d.emit(kElemwiseMul, {hasBegun, isOpen});
  const Value count = d.emit(kSum, {inside}, {{"axis", "1"}, {"keepdims", "True"}});
  return d.emit(kBroadcastDiv, {inside, count});
}

void mapWindows(DecomposeRule &d) {
  d.y(0, mapImages(d, [&](int64_t in, int64_t out) { return windowMeans(d, in, out); }));
}

extern const OpDef kAdaptiveAvgPooling, kBackwardAdaptiveAvgPooling;

constinit const OpDef kAdaptiveAvgPooling = {
    .name = "_contrib_AdaptiveAvgPooling2D",
    .summary =
        "y[n,c,i,j] = mean of x over rows ⌊i·h/H⌋ … ⌈(i+1)·h/H⌉ − 1 and columns likewise, for an output of H × W",
    .inputs = {"data"},
    .attrs = kAttrs,
    .params = paramsOf<AdaptiveParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          const AdaptiveParams &p = s.params<AdaptiveParams>();
          s.setIn(0, {kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim});
          s.setOut(0, {kUnknownDim, kUnknownDim, p.rows(), p.columns()});
          if (s.hasFailed()) return;
          const int64_t batch = std::max(s.in(0)[0], s.out(0)[0]), channels = std::max(s.in(0)[1], s.out(0)[1]);
          if (s.in(0)[2] == 0 || s.in(0)[3] == 0)
            return s.fail("data has shape " + toString(s.in(0)) + ", expected images that are not empty");
          s.setIn(0, {batch, channels, kUnknownDim, kUnknownDim});
          s.setOut(0, {batch, channels, kUnknownDim, kUnknownDim});
        },
    .gradient = [](GradRule &g) { g.fused(kBackwardAdaptiveAvgPooling, {g.dy(0)}); },
    .decompose = mapWindows,
    .kernel = pool,
};

// Linear in dy, and its adjoint is the forward operator. The shape of dx is that of the forward node's input (INF-08).
constinit const OpDef kBackwardAdaptiveAvgPooling = {
    .name = "_backward_contrib_AdaptiveAvgPooling2D",
    .summary = "gradient of _contrib_AdaptiveAvgPooling2D: each dy spread evenly over its window",
    .inputs = {"ograd"},
    .outputs = {"data_grad"},
    .attrs = kAttrs,
    .params = paramsOf<AdaptiveParams>(),
    .check = checkParams,
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kAdaptiveAvgPooling, {g.dy(0)}, g.attrs())); },
    .decompose = mapWindows,
    .kernel = spread,
};

}  // namespace

constinit const OpFamily kAdaptivePoolingFamily = kOps<kAdaptiveAvgPooling, kBackwardAdaptiveAvgPooling>;

}  // namespace gradc
