// Batch normalisation, in training form (statistics of the batch) and inference form (the moving ones).
//
// Hidden outputs 1 and 2 are the mean and the reciprocal deviation r = (var + eps)^(-1/2) that normalised the data; the
// gradient computes only from them. In training they depend on the data, so the rule of BatchNorm adds the gradient
// through them if something differentiates them: that makes second and higher orders right. Which form runs is known
// only at run time; `_in_training` switches those terms off in inference, so one decomposition serves both. Moving
// statistics change in the forward pass, once, in training, unless use_global_stats. Tested by
// tests/ops/nn_ops_test.cc, tests/passes/nn_infer_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/attrs.h"
#include "ops/kit/axis_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/op_def.h"
#include "ops/kit/primitives.h"
#include "ops/normalization/batch_norm.h"
#include "ops/normalization/normalization.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct BatchNormParams {
  double eps = 0, momentum = 0;
  bool fixGamma = true, useGlobalStats = false, outputMeanVar = false, cudnnOff = false;
  int64_t axis = 1;
  std::optional<double> minCalibRange, maxCalibRange;
};

constexpr AttrSpec kAttrs[] = {
    attr<&BatchNormParams::eps>("eps", "0.0010000000474974513", "added to the variance").atLeast(0),
    attr<&BatchNormParams::momentum>("momentum", "0.899999976", "weight of the old value in a moving statistic"),
    attr<&BatchNormParams::fixGamma>("fix_gamma", "True", "take gamma as 1 and give it no gradient"),
    attr<&BatchNormParams::useGlobalStats>("use_global_stats", "False", "use the moving statistics in training too"),
    attr<&BatchNormParams::outputMeanVar>("output_mean_var", "False",
                                          "make the mean and the reciprocal deviation visible outputs"),
    ofAxis(attr<&BatchNormParams::axis>("axis", "1", "the channel axis; negative: counted from the end")),
    attr<&BatchNormParams::cudnnOff>("cudnn_off", "False", "accepted and not used"),
    attr<&BatchNormParams::minCalibRange>("min_calib_range", "None", "accepted and not used"),
    attr<&BatchNormParams::maxCalibRange>("max_calib_range", "None", "accepted and not used"),
};

// MXNet holds the momentum in single precision; the last digits show in float64 runs.
Error checkParams(const OpDef &, void *params) {
  BatchNormParams &p = *static_cast<BatchNormParams *>(params);
  p.momentum = static_cast<double>(static_cast<float>(p.momentum));
  return Error::success();
}

struct PortList {
  ArrayRef<size_t> inputs, outputs;  // the per-channel entries
  size_t data;                       // input with the data's shape; output 0 and input 0 have it too
};

void relateShapes(ShapeInference &s, PortList ports) {
  s.sameInOut(ports.data, 0);
  s.sameInOut(0, 0);
  const size_t first = ports.inputs.front();
  s.setIn(first, {kUnknownDim});
  if (s.hasFailed()) return;
  const ShapeRef data = s.in(ports.data);
  if (data.hasRank()) {
    const int64_t wanted = s.params<BatchNormParams>().axis;
    const std::optional<size_t> axis = normalizeAxis(wanted, data.rank());
    if (!axis) return s.fail("axis " + Twine(wanted) + " is outside data of shape " + toString(data));
    for (size_t i : ports.inputs) s.setIn(i, {data[*axis]});
    DimsBuffer dims(data.dims());
    for (size_t i : ports.inputs)
      if (!s.hasFailed()) dims[*axis] = std::max(dims[*axis], s.in(i)[0]);
    s.setIn(ports.data, dims);
    s.setOut(0, dims);
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i : ports.inputs) s.sameInIn(first, i);
    for (size_t o : ports.outputs) s.sameInOut(first, o);
  }
}

// Per-channel values are float32 where the data is float16, else of the data's type.
void relateTypes(DTypeInference &t, PortList ports) {
  t.sameInOut(ports.data, 0);
  t.sameInOut(0, 0);
  t.sameInOut(ports.data, 0);
  const size_t first = ports.inputs.front();
  const DType data = t.in(ports.data);
  if (data != DType::Unknown) t.setIn(first, data == DType::Float16 ? DType::Float32 : data);
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i : ports.inputs) t.sameInIn(first, i);
    for (size_t o : ports.outputs) t.sameInOut(first, o);
  }
  if (t.in(first) == DType::Float64) t.setIn(ports.data, DType::Float64);
}

constexpr size_t kForwardInputs[] = {1, 2, 3, 4}, kForwardOutputs[] = {1, 2};
constexpr size_t kBackwardInputs[] = {1, 2, 4, 5, 6, 7}, kBackwardOutputs[] = {1, 2};
constexpr PortList kForwardPorts = {kForwardInputs, kForwardOutputs, 0};
constexpr PortList kBackwardPorts = {kBackwardInputs, kBackwardOutputs, 3};

// Rows run along the channels: a channel consists of the elements across them.
AxisRows channelsOf(const KernelCall &call) {
  const Dims data = call.in[0].shape;
  return AxisRows(data, normalizeAxis(call.params<BatchNormParams>().axis, data.size()).value_or(0));
}

bool hasBatchForm(const NodeKind &kind) { return !kind.params<BatchNormParams>().useGlobalStats; }
// An empty batch has no statistics: the moving ones are used, and do not change.
bool usesBatch(const KernelCall &call, const AxisRows &rows) {
  return call.isTraining && hasBatchForm(*call.kind) && rows.count() > 0;
}

struct Statistics {
  double mean, variance;
};

template <class T> Statistics batchStatistics(const AxisRows &rows, int64_t channel, const T *x) {
  const double count = static_cast<double>(rows.count());
  double sum = 0, squares = 0;
  rows.forEachAcross(channel, [&](int64_t i) { sum += static_cast<double>(x[i]); });
  const double mean = sum / count;
  rows.forEachAcross(channel, [&](int64_t i) {
    const double centred = static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  });
  return {mean, squares / count};
}

template <class T> void moveTowards(T &moving, double value, double momentum) {
  moving = static_cast<T>(static_cast<double>(moving) * momentum + value * (1 - momentum));
}

template <class T> void forward(const KernelCall &call) {
  const BatchNormParams &p = call.params<BatchNormParams>();
  const AxisRows rows = channelsOf(call);
  const T *x = call.in[0].as<const T>(), *gamma = call.in[1].as<const T>(), *beta = call.in[2].as<const T>();
  T *movingMean = call.in[3].as<T>(), *movingVar = call.in[4].as<T>();
  for (int64_t c = 0; c < rows.length; ++c) {
    Statistics of{static_cast<double>(movingMean[c]), static_cast<double>(movingVar[c])};
    if (usesBatch(call, rows)) {
      of = batchStatistics(rows, c, x);
      moveTowards(movingMean[c], of.mean, p.momentum);
      moveTowards(movingVar[c], of.variance, p.momentum);
    }
    const T mean = static_cast<T>(of.mean), deviation = static_cast<T>(1 / std::sqrt(of.variance + p.eps));
    if (call.wants(1)) call.out[1].as<T>()[c] = mean;
    if (call.wants(2)) call.out[2].as<T>()[c] = deviation;
    if (!call.wants(0)) continue;
    const T scale = p.fixGamma ? deviation : gamma[c] * deviation, shift = beta[c];
    T *y = call.out[0].as<T>();
    rows.forEachAcross(c, [&](int64_t i) { y[i] = (x[i] - mean) * scale + shift; });
  }
}

template <class T> void backward(const KernelCall &call) {
  const BatchNormParams &p = call.params<BatchNormParams>();
  const AxisRows rows = channelsOf(call);
  const T *dy = call.in[0].as<const T>(), *means = call.in[1].as<const T>(), *deviations = call.in[2].as<const T>();
  const T *x = call.in[3].as<const T>(), *gamma = call.in[4].as<const T>();
  for (int64_t c = 0; c < rows.length; ++c) {
    const double mean = static_cast<double>(means[c]), r = static_cast<double>(deviations[c]);
    double sum = 0, product = 0;  // of dy, and of dy with the normalised data
    rows.forEachAcross(c, [&](int64_t i) {
      sum += static_cast<double>(dy[i]);
      product += static_cast<double>(dy[i]) * ((static_cast<double>(x[i]) - mean) * r);
    });
    if (call.wants(1)) call.out[1].as<T>()[c] = p.fixGamma ? T{0} : static_cast<T>(product);
    if (call.wants(2)) call.out[2].as<T>()[c] = static_cast<T>(sum);
    if (!call.wants(0)) continue;
    const double scale = p.fixGamma ? r : static_cast<double>(gamma[c]) * r;
    const double weight = usesBatch(call, rows) ? 1 / static_cast<double>(rows.count()) : 0;
    const double shift = sum * weight, slope = product * weight * r;
    T *dx = call.out[0].as<T>();
    rows.forEachAcross(c, [&](int64_t i) {
      const double centred = static_cast<double>(x[i]) - mean;
      dx[i] = static_cast<T>((static_cast<double>(dy[i]) - shift - centred * slope) * scale);
    });
  }
}

// Per-channel reductions and their adjoint, on behalf of one node. If the data is float16, per-channel values and all
// computations are float32: `x` is the data in that type.
class Channels {
 public:
  Channels(RuleContext &rule, Value given, Value perChannel)
      : rule(rule), given(given), perChannel(perChannel), axis(rule.number(rule.params<BatchNormParams>().axis)),
        x(widened(given)) {}

  Value widened(Value v) { return isHalf() ? rule.emit(kCastLike, {v, perChannel}) : v; }
  Value narrowed(Value v) { return isHalf() ? rule.emit(kCastLike, {v, given}) : v; }
  Value sum(Value v) { return rule.emit(kSum, {v}, {{"axis", axis}, {"exclude", "True"}}); }
  Value mean(Value v) { return rule.emit(kMean, {v}, {{"axis", axis}, {"exclude", "True"}}); }
  Value spread(Value v) { return rule.emit(kBroadcastAxisLike, {v, x}, {{"axis", axis}}); }
  Value count() { return sum(rule.emit(kOnesLike, {x})); }

 private:
  bool isHalf() const { return rule.dtype(given) == DType::Float16; }

  RuleContext &rule;
  Value given, perChannel;
  StringRef axis;

 public:
  const Value x;
};

constexpr InplacePair kInplaceBackward[] = {{0, 0}, {3, 0}};
constexpr Domain kDomains[] = {Domain::Any, Domain::Any, Domain::Any, Domain::Any, Domain::Positive};

bool isBackwardIgnored(const NodeKind &kind, size_t input) {
  return input >= 5 || (input == 4 && kind.params<BatchNormParams>().fixGamma);
}

// dx = γ·r·(dy − [mean dy + x̂·mean(dy·x̂)]), the bracket in training only
void decomposeBackward(DecomposeRule &d) {
  const BatchNormParams &p = d.params<BatchNormParams>();
  const Value r = d.x(2);
  Channels channels(d, d.x(3), r);
  const Value x = channels.x, dy = channels.widened(d.x(0));
  if (d.wants(2)) d.y(2, channels.sum(dy));
  if (d.wants(1) && p.fixGamma) d.y(1, d.emit(kZerosLike, {d.x(4)}));
  const bool needsProduct = (d.wants(1) && !p.fixGamma) || (d.wants(0) && !p.useGlobalStats);
  Value normalised, product;
  if (needsProduct) {
    normalised = d.emit(kElemwiseMul, {d.emit(kElemwiseSub, {x, channels.spread(d.x(1))}), channels.spread(r)});
    product = d.emit(kElemwiseMul, {dy, normalised});
  }
  if (d.wants(1) && !p.fixGamma) d.y(1, channels.sum(product));
  if (!d.wants(0)) return;
  Value inner = dy;
  if (!p.useGlobalStats) {
    const Value shift = channels.spread(d.emit(kInTraining, {channels.mean(dy)}));
    const Value slope = channels.spread(d.emit(kInTraining, {channels.mean(product)}));
    inner = d.emit(kElemwiseSub, {inner, shift});
    inner = d.emit(kElemwiseSub, {inner, d.emit(kElemwiseMul, {normalised, slope})});
  }
  const Value scale = p.fixGamma ? r : d.emit(kElemwiseMul, {d.x(4), r});
  d.y(0, channels.narrowed(d.emit(kElemwiseMul, {inner, channels.spread(scale)})));
}

constinit const OpDef kBackwardBatchNorm = {
    .name = "_backward_BatchNorm",
    .summary = "gradients of BatchNorm: dγ = Σ dy·x̂, dβ = Σ dy, dx = γ·r·(dy − mean dy − x̂·mean(dy·x̂)), "
               "x̂ = (x − mean)·r; without batch statistics dx = γ·r·dy",
    .inputs = {"ograd", "mean", "var", "data", "gamma", "beta", "moving_mean", "moving_var"},
    .outputs = {"data_grad", "gamma_grad", "beta_grad"},
    .attrs = kAttrs,
    .params = paramsOf<BatchNormParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) { relateShapes(s, kBackwardPorts); },
    .dtype = [](DTypeInference &t) { relateTypes(t, kBackwardPorts); },
    .inplace = kInplaceBackward,
    .ignored = isBackwardIgnored,
    .flags = {.isBackward = true},
    .readsForm = hasBatchForm,
    .decompose = decomposeBackward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { backward<decltype(zero)>(call); }>,
};

// The gradient that reaches the data through its batch statistics, from their gradients dm and dr:
// dm/n + (x − mean)·(−r³·dr)/n, because d mean = 1/n and d r = −r³·(x − mean)/n.
Value throughStatistics(GradRule &g) {
  Channels channels(g, g.x(0), g.y(2));
  const Value x = channels.x, n = channels.count();
  auto spread = [&](Value v) { return channels.spread(g.emit(kInTraining, {g.emit(kElemwiseDiv, {v, n})})); };
  Value total;
  if (!g.isZero(1)) total = spread(g.dy(1));
  if (g.isZero(2)) return channels.narrowed(total);
  const Value cube = g.emit(kElemwiseMul, {g.y(2), g.emit(kSquare, {g.y(2)})});
  const Value slope = spread(g.emit(kNegative, {g.emit(kElemwiseMul, {g.dy(2), cube})}));
  const Value term = g.emit(kElemwiseMul, {slope, g.emit(kElemwiseSub, {x, channels.spread(g.y(1))})});
  return channels.narrowed(g.isZero(1) ? term : g.emit(kElemwiseAdd, {total, term}));
}

void batchNormGradient(GradRule &g) {
  auto fused = [&] {
    return g.fused(kBackwardBatchNorm, {g.dy(0), g.y(1), g.y(2), g.x(0), g.x(1), g.x(2), g.x(3), g.x(4)});
  };
  normalizationGradient(g, g.params<BatchNormParams>().useGlobalStats, fused, [&] { return throughStatistics(g); });
}

// The statistic in use: the batch's in training, else the moving one, which then stays unchanged.
Value chooseStatistic(DecomposeRule &d, Value training, size_t state, Value ofBatch) {
  const double momentum = d.params<BatchNormParams>().momentum;
  const Value before = beforeWrite(d.x(state));
  const Value chosen = d.emit(kWhere, {training, ofBatch, before});
  const Value moved = d.emit(kElemwiseAdd, {d.emit(kMulScalar, {before}, {{"scalar", d.number(momentum)}}),
                                            d.emit(kMulScalar, {chosen}, {{"scalar", d.number(1 - momentum)}})});
  d.emit(kAssign, {d.x(state), d.emit(kWhere, {training, moved, before})});
  return chosen;
}

// y = (x − mean)·γ·r + β. Which form runs is known only at run time, so the statistics of both are there.
void decomposeForward(DecomposeRule &d) {
  const BatchNormParams &p = d.params<BatchNormParams>();
  Channels channels(d, d.x(0), d.x(1));
  const Value x = channels.x;
  Value mean = beforeWrite(d.x(3)), variance = beforeWrite(d.x(4));
  const bool isEmpty = is_contained(d.shape(d.x(0)).dims(), 0);  // as in the kernel
  if (!p.useGlobalStats && !isEmpty) {
    const Value training = d.emit(kInTraining, {d.emit(kOnesLike, {mean})});
    const Value batchMean = channels.mean(x);
    const Value centred = d.emit(kElemwiseSub, {x, channels.spread(batchMean)});
    const Value batchVariance = channels.mean(d.emit(kSquare, {centred}));
    mean = chooseStatistic(d, training, 3, batchMean);
    variance = chooseStatistic(d, training, 4, batchVariance);
  }
  const Value shifted = d.emit(kPlusScalar, {variance}, {{"scalar", d.number(p.eps)}});
  const Value r = d.emit(kRdivScalar, {d.emit(kSqrt, {shifted})}, {{"scalar", "1"}});
  // The copy is emitted after the writes to the states, so that it can wait for them.
  if (d.wants(1)) d.y(1, d.emit(kCopy, {mean}));
  if (d.wants(2)) d.y(2, r);
  if (!d.wants(0)) return;
  const Value scale = p.fixGamma ? r : d.emit(kElemwiseMul, {d.x(1), r});
  const Value centred = d.emit(kElemwiseSub, {x, channels.spread(mean)});
  const Value scaled = d.emit(kElemwiseMul, {centred, channels.spread(scale)});
  d.y(0, channels.narrowed(d.emit(kElemwiseAdd, {scaled, channels.spread(d.x(2))})));
}

}  // namespace

extern const OpDef kBatchNorm;

// The initialisers of the aux variables that MXNet makes for files from before aux states were nodes.
constexpr InputDefault kAuxDefaults[] = {{3, "__init__", "[\"zero\", {}]"}, {4, "__init__", "[\"one\", {}]"}};

constinit const OpDef kBatchNorm = {
    .name = "BatchNorm",
    .aliases = {"_npx_batch_norm"},
    .summary = "y = γ·(x − mean)·r + β per channel, r = (var + eps)^(−1/2), var the biased variance; "
               "moving ← moving·momentum + batch·(1 − momentum) in training",
    .inputs = {"data", "gamma", "beta", "moving_mean", "moving_var"},
    .outputs = {"output", "mean", "var"},
    .visibleOutputs = [](const NodeKind &k) { return k.params<BatchNormParams>().outputMeanVar ? 3u : 1u; },
    .attrs = kAttrs,
    .params = paramsOf<BatchNormParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) { relateShapes(s, kForwardPorts); },
    .dtype = [](DTypeInference &t) { relateTypes(t, kForwardPorts); },
    .inplace = kInplaceFirst,
    .mutated = {3, 4},
    .stopped = {3, 4},
    .readsForm = hasBatchForm,
    .domains = kDomains,
    .inputDefaults = kAuxDefaults,
    .gradient = batchNormGradient,
    .decompose = decomposeForward,
    .kernel = normalizationKernel<[](auto zero, const KernelCall &call) { forward<decltype(zero)>(call); }>,
};

BatchNormAttrs batchNormAttrs(const NodeKind &kind) {
  const BatchNormParams &p = kind.params<BatchNormParams>();
  return {p.eps, p.momentum, p.fixGamma, p.useGlobalStats, p.axis};
}

constinit const OpFamily kBatchNormFamily = kOps<kBatchNorm, kBackwardBatchNorm>;

}  // namespace gradc
