// InstanceNorm: every channel of every image centred and scaled to unit deviation, then y = γ·x̂ + β per channel.
//
// Hidden outputs 1 and 2 are the mean and the biased variance of each (image, channel); the gradient computes from
// them. They depend on the data, so the rule of InstanceNorm adds the gradient through them if something differentiates
// them: that makes second and higher orders right. Sums run in float64. MXNet has the operator only in float32.
// Tested by tests/ops/sequence_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/instance_norm.h"
#include "ops/normalization/normalization.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct InstanceNormParams {
  double eps = 1e-3;
};

constexpr AttrSpec kAttrs[] = {
    attr<&InstanceNormParams::eps>("eps", "0.00100000005", "added to the variance").atLeast(0),
};

void relateShapes(ShapeInference &s, NormPorts ports) {
  for (int pass = 0; pass < 2; ++pass) {
    s.sameInOut(ports.data, 0);
    s.sameInOut(0, 0);
  }
  if (s.hasFailed() || !s.in(ports.data).hasRank()) return;
  DimsBuffer dims(s.in(ports.data).dims());
  if (dims.size() < 2)
    return s.fail("data has shape " + toString(s.in(ports.data)) +
                  ", expected at least an axis of images and one of channels");
  for (size_t i : ports.vectorInputs) {
    s.setIn(i, {dims[1]});
    if (!s.hasFailed()) dims[1] = std::max(dims[1], s.in(i)[0]);
  }
  s.setIn(ports.data, dims);
  s.setOut(0, dims);
  s.setIn(0, dims);
  for (size_t i : ports.vectorInputs) s.setIn(i, {dims[1]});
  for (size_t o : ports.vectorOutputs) s.setOut(o, {dims[1]});
  for (size_t i : ports.rowInputs) s.setIn(i, {dims[0], dims[1]});
  for (size_t o : ports.rowOutputs) s.setOut(o, {dims[0], dims[1]});
}

constexpr size_t kFirstAndSecond[] = {1, 2}, kGamma[] = {4};
constexpr NormPorts kForwardPorts = {
    .data = 0, .vectorInputs = kFirstAndSecond, .vectorOutputs = {}, .rowInputs = {}, .rowOutputs = kFirstAndSecond};
constexpr NormPorts kBackwardPorts = {.data = 3,
                                      .vectorInputs = kGamma,
                                      .vectorOutputs = kFirstAndSecond,
                                      .rowInputs = kFirstAndSecond,
                                      .rowOutputs = {}};

}  // namespace

double instanceNormEps(const NodeKind &kind) { return kind.params<InstanceNormParams>().eps; }

namespace {

// A tensor as one row of pixels per image and channel.
struct InstanceRows {
  int64_t count, channels, pixels = 1;

  explicit InstanceRows(Dims shape) : count(shape[0] * shape[1]), channels(shape[1]) {
    for (size_t i = 2; i < shape.size(); ++i) pixels *= shape[i];
  }
};

template <class T> void forwardRows(const KernelCall &call) {
  const InstanceRows rows(call.in[0].shape);
  const double eps = call.params<InstanceNormParams>().eps;
  const T *gamma = call.in[1].as<const T>(), *beta = call.in[2].as<const T>();
  for (int64_t row = 0; row < rows.count; ++row) {
    const T *x = call.in[0].as<const T>() + row * rows.pixels;
    const auto [mean, variance] = momentsOf(rows.pixels, [=](int64_t k) { return x[k]; });
    if (call.wants(1)) call.out[1].as<T>()[row] = static_cast<T>(mean);
    if (call.wants(2)) call.out[2].as<T>()[row] = static_cast<T>(variance);
    if (!call.wants(0)) continue;
    const double scale = static_cast<double>(gamma[row % rows.channels]) / std::sqrt(variance + eps);
    const double shift = static_cast<double>(beta[row % rows.channels]);
    T *y = call.out[0].as<T>() + row * rows.pixels;
    for (int64_t k = 0; k < rows.pixels; ++k) y[k] = static_cast<T>((static_cast<double>(x[k]) - mean) * scale + shift);
  }
}

// One row of the gradient's inputs, in float64.
template <class T> struct BackwardRow {
  const T *dyRow, *xRow;
  double mean, deviation;  // deviation: its reciprocal

  BackwardRow(const KernelCall &call, int64_t row, int64_t pixels)
      : dyRow(call.in[0].as<const T>() + row * pixels), xRow(call.in[3].as<const T>() + row * pixels),
        mean(static_cast<double>(call.in[1].as<const T>()[row])) {
    const double variance = static_cast<double>(call.in[2].as<const T>()[row]);
    deviation = 1 / std::sqrt(variance + call.params<InstanceNormParams>().eps);
  }
  double dy(int64_t k) const { return static_cast<double>(dyRow[k]); }
  double normal(int64_t k) const { return (static_cast<double>(xRow[k]) - mean) * deviation; }
};

struct RowSums {
  double heads = 0, products = 0;  // Σ dy, Σ dy·x̂
};

template <class T> RowSums sumsOf(const BackwardRow<T> &row, int64_t pixels) {
  RowSums sums;
  for (int64_t k = 0; k < pixels; ++k) {
    sums.heads += row.dy(k);
    sums.products += row.dy(k) * row.normal(k);
  }
  return sums;
}

// dγ = Σ dy·x̂ and dβ = Σ dy over images and pixels; dx = γ·r·(dy − mean dy − x̂·mean(dy·x̂)) with means over pixels.
template <class T> void backwardRows(const KernelCall &call) {
  const InstanceRows rows(call.in[3].shape);
  const T *gamma = call.in[4].as<const T>();
  SmallVector<RowSums, 64> totals(static_cast<size_t>(rows.channels));
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t channel = row % rows.channels;
    const BackwardRow<T> of(call, row, rows.pixels);
    const RowSums sums = sumsOf(of, rows.pixels);
    totals[static_cast<size_t>(channel)].heads += sums.heads;
    totals[static_cast<size_t>(channel)].products += sums.products;
    if (!call.wants(0)) continue;
    const double count = static_cast<double>(rows.pixels), scale = static_cast<double>(gamma[channel]) * of.deviation;
    const double shift = sums.heads / count, slope = sums.products / count;
    T *dx = call.out[0].as<T>() + row * rows.pixels;
    for (int64_t k = 0; k < rows.pixels; ++k) dx[k] = static_cast<T>((of.dy(k) - shift - of.normal(k) * slope) * scale);
  }
  for (size_t c = 0; c < totals.size(); ++c) {
    if (call.wants(1)) call.out[1].as<T>()[c] = static_cast<T>(totals[c].products);
    if (call.wants(2)) call.out[2].as<T>()[c] = static_cast<T>(totals[c].heads);
  }
}

/// (var + eps)^(−1/2)
Value reciprocalDeviation(RuleContext &rule, Value variance) {
  const StringRef eps = rule.number(rule.params<InstanceNormParams>().eps);
  return rule.emit(kPowerScalar, {rule.emit(kPlusScalar, {variance}, {{"scalar", eps}})}, {{"scalar", "-0.5"}});
}

void decomposeBackward(DecomposeRule &d) {
  const Value dy = d.x(0), x = d.x(3);
  ChannelSums rows(d);
  if (d.wants(2)) d.y(2, rows.perChannel(dy));
  if (!d.wants(0) && !d.wants(1)) return;
  const Value shift = rows.mean(dy);
  const Value r = reciprocalDeviation(d, rows.keep(d.x(2), shift));
  const Value centred = d.emit(kBroadcastSub, {x, rows.keep(d.x(1), shift)});
  const Value normal = d.emit(kBroadcastMul, {centred, r});
  const Value product = d.emit(kElemwiseMul, {dy, normal});
  if (d.wants(1)) d.y(1, rows.perChannel(product));
  if (!d.wants(0)) return;
  const Value slope = d.emit(kBroadcastMul, {normal, rows.mean(product)});
  const Value inner = d.emit(kElemwiseSub, {d.emit(kBroadcastSub, {dy, shift}), slope});
  d.y(0, d.emit(kElemwiseMul, {d.emit(kBroadcastMul, {inner, r}), rows.spread(d.x(4), x)}));
}

constinit const OpDef kBackwardInstanceNorm = {
    .name = "_backward_InstanceNorm",
    .summary =
        "gradients of InstanceNorm: dx = γ·r·(dy − mean dy − x̂·mean(dy·x̂)) with means over the pixels of a channel "
        "and r = (var + eps)^(−1/2), dγ = Σ dy·x̂, dβ = Σ dy",
    .inputs = {"ograd", "mean", "var", "data", "gamma"},
    .outputs = {"data_grad", "gamma_grad", "beta_grad"},
    .attrs = kAttrs,
    .params = paramsOf<InstanceNormParams>(),
    .check = roundEps<InstanceNormParams>,
    .shape = [](ShapeInference &s) { relateShapes(s, kBackwardPorts); },
    .flags = {.isBackward = true},
    .decompose = decomposeBackward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { backwardRows<decltype(zero)>(call); }>,
};

// The gradient through the statistics, from theirs, dm and dv: (dm + 2·(x − mean)·dv)/n.
Value throughStatistics(GradRule &g) {
  const Value x = g.x(0);
  ChannelSums rows(g);
  const Value count = rows.sum(g.emit(kOnesLike, {x}));
  auto share = [&](Value v) { return g.emit(kElemwiseDiv, {rows.keep(v, count), count}); };
  Value total;
  if (!g.isZero(1)) total = g.emit(kBroadcastLike, {share(g.dy(1)), x});
  if (g.isZero(2)) return total;
  const Value twice = g.emit(kMulScalar, {share(g.dy(2))}, {{"scalar", "2"}});
  const Value term = g.emit(kBroadcastMul, {g.emit(kBroadcastSub, {x, rows.keep(g.y(1), count)}), twice});
  return total.isValid() ? g.emit(kElemwiseAdd, {total, term}) : term;
}

void instanceNormGradient(GradRule &g) {
  auto fused = [&] { return g.fused(kBackwardInstanceNorm, {g.dy(0), g.y(1), g.y(2), g.x(0), g.x(1)}); };
  normalizationGradient(g, false, fused, [&] { return throughStatistics(g); });
}

void decomposeForward(DecomposeRule &d) {
  const Value x = d.x(0);
  ChannelSums rows(d);
  const Value mean = rows.mean(x), centred = d.emit(kBroadcastSub, {x, mean});
  const Value variance = rows.mean(d.emit(kSquare, {centred}));
  if (d.wants(1)) d.y(1, rows.perRow(mean));
  if (d.wants(2)) d.y(2, rows.perRow(variance));
  if (!d.wants(0)) return;
  const Value normal = d.emit(kBroadcastMul, {centred, reciprocalDeviation(d, variance)});
  const Value scaled = d.emit(kElemwiseMul, {normal, rows.spread(d.x(1), x)});
  d.y(0, d.emit(kElemwiseAdd, {scaled, rows.spread(d.x(2), x)}));
}

constinit const OpDef kInstanceNorm = {
    .name = "InstanceNorm",
    .summary = "y = γ·(x − mean)·(var + eps)^(−1/2) + β, mean and biased variance of each channel of each image",
    .inputs = {"data", "gamma", "beta"},
    .outputs = {"output", "mean", "var"},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .attrs = kAttrs,
    .params = paramsOf<InstanceNormParams>(),
    .check = roundEps<InstanceNormParams>,
    .shape = [](ShapeInference &s) { relateShapes(s, kForwardPorts); },
    .inplace = kInplaceFirst,
    .gradient = instanceNormGradient,
    .decompose = decomposeForward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { forwardRows<decltype(zero)>(call); }>,
};

}  // namespace

constinit const OpFamily kInstanceNormFamily = kOps<kInstanceNorm, kBackwardInstanceNorm>;

}  // namespace gradc
