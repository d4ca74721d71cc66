// LayerNorm: the data centred and scaled to unit deviation along one axis, then y = γ·x̂ + β with γ and β along that
// axis.
//
// Outputs 1 and 2 are the mean m and the deviation s = (var + eps)^(1/2) of each row; the gradient computes from them.
// They depend on the data, so the rule of LayerNorm adds the gradient through them if something differentiates them:
// that makes second and higher orders right. Sums run in float64. Tested by tests/ops/layer_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/layer_norm.h"
#include "ops/normalization/normalization.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct LayerNormParams {
  int64_t axis = -1;
  double eps = 1e-5;
  bool outputMeanVar = false;
};

constexpr AttrSpec kAttrs[] = {
    ofAxis(attr<&LayerNormParams::axis>("axis", "-1", "the axis that is normalised; negative: counted from the end")),
    attr<&LayerNormParams::eps>("eps", "9.99999975e-06", "added to the variance").atLeast(0),
    attr<&LayerNormParams::outputMeanVar>("output_mean_var", "False",
                                          "make the mean and the deviation visible outputs"),
};

AxisRows rowsOf(const KernelCall &call, Dims shape) {
  return AxisRows(shape, normalizeAxis(call.params<LayerNormParams>().axis, shape.size()).value_or(0));
}

void relateShapes(ShapeInference &s, NormPorts ports) {
  s.sameInOut(ports.data, 0);
  s.sameInOut(0, 0);
  s.sameInOut(ports.data, 0);
  if (s.hasFailed() || !s.in(ports.data).hasRank()) return;
  const int64_t wanted = s.params<LayerNormParams>().axis;
  DimsBuffer dims(s.in(ports.data).dims());
  const std::optional<size_t> axis = normalizeAxis(wanted, dims.size());
  if (!axis) return s.fail("axis " + Twine(wanted) + " is outside data of shape " + toString(s.in(ports.data)));
  for (int pass = 0; pass < 2 && !s.hasFailed(); ++pass) {
    for (size_t i : ports.vectorInputs) {
      s.setIn(i, {dims[*axis]});
      if (!s.hasFailed()) dims[*axis] = std::max(dims[*axis], s.in(i)[0]);
    }
    for (size_t o : ports.vectorOutputs) s.setOut(o, {dims[*axis]});
  }
  s.setIn(ports.data, dims);
  s.setOut(0, dims);
  s.setIn(0, dims);
  dims[*axis] = 1;
  for (size_t i : ports.rowInputs) s.setIn(i, dims);
  for (size_t o : ports.rowOutputs) s.setOut(o, dims);
}

constexpr size_t kGammaAndBeta[] = {1, 2}, kGamma[] = {2}, kStatistics[] = {3, 4};
constexpr NormPorts kForwardPorts = {
    .data = 0, .vectorInputs = kGammaAndBeta, .vectorOutputs = {}, .rowInputs = {}, .rowOutputs = kGammaAndBeta};
constexpr NormPorts kBackwardPorts = {
    .data = 1, .vectorInputs = kGamma, .vectorOutputs = kGammaAndBeta, .rowInputs = kStatistics, .rowOutputs = {}};

template <class T> void forwardRows(const KernelCall &call) {
  const AxisRows rows = rowsOf(call, call.in[0].shape);
  const double eps = call.params<LayerNormParams>().eps;
  const T *gamma = call.in[1].as<const T>(), *beta = call.in[2].as<const T>();
  for (int64_t row = 0; row < rows.count(); ++row) {
    const T *x = call.in[0].as<const T>() + rows.begin(row);
    const auto [mean, variance] = momentsOf(rows.length, [&](int64_t k) { return x[k * rows.inner]; });
    const double deviation = std::sqrt(variance + eps);
    if (call.wants(1)) call.out[1].as<T>()[row] = static_cast<T>(mean);
    if (call.wants(2)) call.out[2].as<T>()[row] = static_cast<T>(deviation);
    if (!call.wants(0)) continue;
    T *y = call.out[0].as<T>() + rows.begin(row);
    for (int64_t k = 0; k < rows.length; ++k) {
      const double normal = (static_cast<double>(x[k * rows.inner]) - mean) / deviation;
      y[k * rows.inner] = static_cast<T>(normal * static_cast<double>(gamma[k]) + static_cast<double>(beta[k]));
    }
  }
}

// One element of the gradient's inputs: x̂ and dy.
template <class T> struct BackwardElement {
  const KernelCall &call;
  double dy(int64_t at) const { return static_cast<double>(call.in[0].as<const T>()[at]); }
  double normal(int64_t at, int64_t row) const {
    const double mean = static_cast<double>(call.in[3].as<const T>()[row]);
    return (static_cast<double>(call.in[1].as<const T>()[at]) - mean) /
           static_cast<double>(call.in[4].as<const T>()[row]);
  }
};

// dγ[k] = Σ over rows of dy·x̂, dβ[k] = Σ of dy.
template <class T> void backwardVectors(const KernelCall &call, const AxisRows &rows) {
  const BackwardElement<T> element{call};
  for (int64_t k = 0; k < rows.length && (call.wants(1) || call.wants(2)); ++k) {
    double product = 0, sum = 0;
    for (int64_t row = 0; row < rows.count(); ++row) {
      const int64_t at = rows.begin(row) + k * rows.inner;
      product += element.dy(at) * element.normal(at, row);
      sum += element.dy(at);
    }
    if (call.wants(1)) call.out[1].as<T>()[k] = static_cast<T>(product);
    if (call.wants(2)) call.out[2].as<T>()[k] = static_cast<T>(sum);
  }
}

// dx = (h − mean h − x̂·mean(h·x̂))/s, h = dy·γ
template <class T> void backwardData(const KernelCall &call, const AxisRows &rows) {
  const BackwardElement<T> element{call};
  const T *gamma = call.in[2].as<const T>();
  const double count = static_cast<double>(rows.length);
  for (int64_t row = 0; row < rows.count(); ++row) {
    double shift = 0, slope = 0;
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t at = rows.begin(row) + k * rows.inner;
      const double h = element.dy(at) * static_cast<double>(gamma[k]);
      shift += h / count;
      slope += h * element.normal(at, row) / count;
    }
    const double deviation = static_cast<double>(call.in[4].as<const T>()[row]);
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t at = rows.begin(row) + k * rows.inner;
      const double h = element.dy(at) * static_cast<double>(gamma[k]);
      call.out[0].as<T>()[at] = static_cast<T>((h - shift - element.normal(at, row) * slope) / deviation);
    }
  }
}

template <class T> void backward(const KernelCall &call) {
  const AxisRows rows = rowsOf(call, call.in[1].shape);
  backwardVectors<T>(call, rows);
  if (call.wants(0)) backwardData<T>(call, rows);
}

// Reductions along and across the axis on behalf of one node.
class RowSums {
 public:
  explicit RowSums(RuleContext &rule) : rule(rule), axis(rule.number(rule.params<LayerNormParams>().axis)) {}

  Value sum(Value v) { return rule.emit(kSum, {v}, {{"axis", axis}, {"keepdims", "True"}}); }
  Value mean(Value v) { return rule.emit(kMean, {v}, {{"axis", axis}, {"keepdims", "True"}}); }
  Value across(Value v) { return rule.emit(kSum, {v}, {{"axis", axis}, {"exclude", "True"}}); }
  Value spread(Value vector, Value like) { return rule.emit(kBroadcastAxisLike, {vector, like}, {{"axis", axis}}); }
  Value normal(Value x, Value mean, Value deviation) {
    return rule.emit(kBroadcastDiv, {rule.emit(kBroadcastSub, {x, mean}), deviation});
  }

 private:
  RuleContext &rule;
  StringRef axis;
};

void decomposeBackward(DecomposeRule &d) {
  const Value dy = d.x(0), x = d.x(1), deviation = d.x(4);
  RowSums rows(d);
  if (d.wants(2)) d.y(2, rows.across(dy));
  if (!d.wants(0) && !d.wants(1)) return;
  const Value normal = rows.normal(x, d.x(3), deviation);
  if (d.wants(1)) d.y(1, rows.across(d.emit(kElemwiseMul, {dy, normal})));
  if (!d.wants(0)) return;
  const Value h = d.emit(kElemwiseMul, {dy, rows.spread(d.x(2), x)});
  const Value slope = rows.mean(d.emit(kElemwiseMul, {h, normal}));
  const Value centred = d.emit(kBroadcastSub, {h, rows.mean(h)});
  const Value inner = d.emit(kElemwiseSub, {centred, d.emit(kBroadcastMul, {normal, slope})});
  d.y(0, d.emit(kBroadcastDiv, {inner, deviation}));
}

constinit const OpDef kBackwardLayerNorm = {
    .name = "_backward_LayerNorm",
    .summary = "gradients of LayerNorm: dx = (h − mean h − x̂·mean(h·x̂))/s with h = dy·γ, dγ = Σ dy·x̂, dβ = Σ dy",
    .inputs = {"ograd", "data", "gamma", "mean", "std"},
    .outputs = {"data_grad", "gamma_grad", "beta_grad"},
    .attrs = kAttrs,
    .params = paramsOf<LayerNormParams>(),
    .check = roundEps<LayerNormParams>,
    .shape = [](ShapeInference &s) { relateShapes(s, kBackwardPorts); },
    .flags = {.isBackward = true},
    .decompose = decomposeBackward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { backward<decltype(zero)>(call); }>,
};

// The gradient through the statistics, from theirs, dm and ds: (dm + x̂·ds)/n, because d m = 1/n and d s = x̂/n.
Value throughStatistics(GradRule &g) {
  const Value x = g.x(0);
  RowSums rows(g);
  const Value count = rows.sum(g.emit(kOnesLike, {x}));
  Value total;
  if (!g.isZero(1)) total = g.emit(kBroadcastLike, {g.emit(kElemwiseDiv, {g.dy(1), count}), x});
  if (g.isZero(2)) return total;
  const Value share = g.emit(kElemwiseDiv, {g.dy(2), count});
  const Value term = g.emit(kBroadcastMul, {rows.normal(x, g.y(1), g.y(2)), share});
  return total.isValid() ? g.emit(kElemwiseAdd, {total, term}) : term;
}

void layerNormGradient(GradRule &g) {
  auto fused = [&] { return g.fused(kBackwardLayerNorm, {g.dy(0), g.x(0), g.x(1), g.y(1), g.y(2)}); };
  normalizationGradient(g, false, fused, [&] { return throughStatistics(g); });
}

void decomposeForward(DecomposeRule &d) {
  const Value x = d.x(0);
  RowSums rows(d);
  const Value mean = rows.mean(x), centred = d.emit(kBroadcastSub, {x, mean});
  const StringRef eps = d.number(d.params<LayerNormParams>().eps);
  const Value variance = rows.mean(d.emit(kSquare, {centred}));
  const Value deviation = d.emit(kSqrt, {d.emit(kPlusScalar, {variance}, {{"scalar", eps}})});
  if (d.wants(1)) d.y(1, mean);
  if (d.wants(2)) d.y(2, deviation);
  if (!d.wants(0)) return;
  const Value normal = d.emit(kBroadcastDiv, {centred, deviation});
  const Value scaled = d.emit(kElemwiseMul, {normal, rows.spread(d.x(1), x)});
  d.y(0, d.emit(kElemwiseAdd, {scaled, rows.spread(d.x(2), x)}));
}

constinit const OpDef kLayerNorm = {
    .name = "LayerNorm",
    .aliases = {"_npx_layer_norm"},
    .summary = "y = γ·(x − mean)/s + β along the axis, s = (var + eps)^(1/2), var the biased variance",
    .inputs = {"data", "gamma", "beta"},
    .outputs = {"output", "mean", "std"},
    .visibleOutputs = [](const NodeKind &k) { return k.params<LayerNormParams>().outputMeanVar ? 3u : 1u; },
    .attrs = kAttrs,
    .params = paramsOf<LayerNormParams>(),
    .check = roundEps<LayerNormParams>,
    .shape = [](ShapeInference &s) { relateShapes(s, kForwardPorts); },
    .inplace = kInplaceFirst,
    .gradient = layerNormGradient,
    .decompose = decomposeForward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { forwardRows<decltype(zero)>(call); }>,
};

}  // namespace

LayerNormAttrs layerNormAttrs(const NodeKind &kind) {
  const LayerNormParams &p = kind.params<LayerNormParams>();
  return {p.axis, p.eps};
}

constinit const OpFamily kLayerNormFamily = kOps<kLayerNorm, kBackwardLayerNorm>;

}  // namespace gradc
