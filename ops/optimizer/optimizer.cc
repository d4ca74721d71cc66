// Steps of optimizers: the new value of a weight from its gradient, with the optimizer's state overwritten.
//
//   sgd              g = clip(rescale_grad · gradient) + wd · weight, where clipping is off below 0
//                    weight' = weight - lr · g
//   sgd, momentum    mom' = momentum · mom - lr · g;  weight' = weight + mom'
//   adam             g = clip(rescale_grad · gradient + wd · weight)
//                    mean' = β1 · mean + (1 - β1) · g;  var' = β2 · var + (1 - β2) · g²
//                    weight' = weight - lr · mean' / (sqrt(var') + epsilon)
// These are MXNet 1.9.1's operators with MXNet's attributes, so the learning rate is an attribute: fixed in the graph. A
// rate that changes from step to step is data, not structure. For it each has a sibling `_scheduled_…` of our own, whose
// last input is the rate, a tensor of one element, times the attribute rate_factor. Adam's bias correction is part of the
// rate, as in MXNet: lr · sqrt(1 - β2^t) / (1 - β1^t). MXNet keeps attributes in float32, and so do we.
// Steps have no gradient: to ask for one is an error (E-02), as in MXNet. Tested by tests/optimizer_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"
#include "ops/primitives.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct StepParams {
  double lr = 0, rateFactor = 1, momentum = 0, wd = 0, rescaleGrad = 1, clipGradient = -1;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  bool lazyUpdate = true;
};

constexpr AttrSpec kLr = required<&StepParams::lr>("lr", "learning rate");
constexpr AttrSpec kRateFactor = attr<&StepParams::rateFactor>("rate_factor", "1", "factor of the learning rate");
constexpr AttrSpec kMomentum = attr<&StepParams::momentum>("momentum", "0", "how much of the last step is kept");
constexpr AttrSpec kWd = attr<&StepParams::wd>("wd", "0", "weight decay: this times the weight joins the gradient");
constexpr AttrSpec kRescale = attr<&StepParams::rescaleGrad>("rescale_grad", "1", "factor of the gradient");
constexpr AttrSpec kClip =
    attr<&StepParams::clipGradient>("clip_gradient", "-1", "the gradient is cut to this and its negative; off below 0");
constexpr AttrSpec kBeta1 = attr<&StepParams::beta1>("beta1", "0.899999976", "decay of the mean");
constexpr AttrSpec kBeta2 = attr<&StepParams::beta2>("beta2", "0.999000013", "decay of the mean of squares");
constexpr AttrSpec kEpsilon = attr<&StepParams::epsilon>("epsilon", "9.99999994e-09", "added to the root");
constexpr AttrSpec kLazy = attr<&StepParams::lazyUpdate>("lazy_update", "True", "accepted; gradients are dense here");

constexpr AttrSpec kSgdAttrs[] = {kLr, kWd, kRescale, kClip, kLazy};
constexpr AttrSpec kMomentumAttrs[] = {kLr, kMomentum, kWd, kRescale, kClip, kLazy};
constexpr AttrSpec kAdamAttrs[] = {kLr, kBeta1, kBeta2, kEpsilon, kWd, kRescale, kClip, kLazy};
constexpr AttrSpec kScheduledSgdAttrs[] = {kRateFactor, kWd, kRescale, kClip};
constexpr AttrSpec kScheduledMomentumAttrs[] = {kRateFactor, kMomentum, kWd, kRescale, kClip};
constexpr AttrSpec kScheduledAdamAttrs[] = {kRateFactor, kBeta1, kBeta2, kEpsilon, kWd, kRescale, kClip};

Error roundParams(const OpDef &, void *params) {
  StepParams &p = *static_cast<StepParams *>(params);
  for (double *value : {&p.lr, &p.rateFactor, &p.momentum, &p.wd, &p.rescaleGrad, &p.clipGradient, &p.beta1, &p.beta2,
                        &p.epsilon})
    *value = static_cast<double>(static_cast<float>(*value));
  return Error::success();
}

void scheduledShape(ShapeInference &s) {
  const size_t rate = s.numInputs() - 1;
  s.setIn(rate, {1});
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < rate; ++i) s.sameInOut(i, 0);
}

/// One step in element type T. The output may be the weight's own memory.
template <class T> struct Step {
  explicit Step(const KernelCall &call)
      : p(call.params<StepParams>()), size(call.out[0].size()), weight(call.in[0].as<const T>()),
        grad(call.in[1].as<const T>()), out(call.out[0].as<T>()), wd(static_cast<T>(p.wd)),
        rescale(static_cast<T>(p.rescaleGrad)), clip(static_cast<T>(p.clipGradient)) {}

  T clipped(T value) const { return clip >= T{0} ? std::clamp(value, -clip, clip) : value; }
  T decay(int64_t i) const { return wd * weight[i]; }
  /// The gradient of plain and momentum steps.
  T gradient(int64_t i) const { return clipped(rescale * grad[i]) + decay(i); }

  const StepParams &p;
  int64_t size;
  const T *weight, *grad;
  T *out, wd, rescale, clip;
};

template <class T> void sgd(const KernelCall &call, T rate) {
  const Step<T> step(call);
  if (call.wants(0))
    for (int64_t i = 0; i < step.size; ++i) step.out[i] = step.weight[i] - rate * step.gradient(i);
}

template <class T> void sgdWithMomentum(const KernelCall &call, T rate) {
  const Step<T> step(call);
  const T momentum = static_cast<T>(step.p.momentum);
  T *mom = call.in[2].as<T>();
  for (int64_t i = 0; i < step.size; ++i) mom[i] = momentum * mom[i] - rate * step.gradient(i);
  if (call.wants(0))
    for (int64_t i = 0; i < step.size; ++i) step.out[i] = step.weight[i] + mom[i];
}

template <class T> void adam(const KernelCall &call, T rate) {
  const Step<T> step(call);
  const T beta1 = static_cast<T>(step.p.beta1), beta2 = static_cast<T>(step.p.beta2);
  const T rest1 = static_cast<T>(1 - static_cast<float>(step.p.beta1));
  const T rest2 = static_cast<T>(1 - static_cast<float>(step.p.beta2));
  const T epsilon = static_cast<T>(step.p.epsilon);
  T *mean = call.in[2].as<T>(), *var = call.in[3].as<T>();
  for (int64_t i = 0; i < step.size; ++i) {
    const T g = step.clipped(step.rescale * step.grad[i] + step.decay(i));
    mean[i] = beta1 * mean[i] + rest1 * g;
    var[i] = beta2 * var[i] + rest2 * g * g;
    if (call.wants(0)) step.out[i] = step.weight[i] - rate * mean[i] / (std::sqrt(var[i]) + epsilon);
  }
}

/// Calls `function<T>(call, rate)` with the rate of the attribute, or of the last input.
template <class F> void runStep(const KernelCall &call, bool isScheduled, F function) {
  const StepParams &p = call.params<StepParams>();
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    function(call, isScheduled ? call.in.back().as<const T>()[0] * static_cast<T>(p.rateFactor) : static_cast<T>(p.lr));
  });
}

template <bool IsScheduled> void runSgd(const KernelCall &call) {
  runStep(call, IsScheduled, [](const KernelCall &c, auto rate) { sgd(c, rate); });
}
template <bool IsScheduled> void runMomentum(const KernelCall &call) {
  runStep(call, IsScheduled, [](const KernelCall &c, auto rate) { sgdWithMomentum(c, rate); });
}
template <bool IsScheduled> void runAdam(const KernelCall &call) {
  runStep(call, IsScheduled, [](const KernelCall &c, auto rate) { adam(c, rate); });
}

/// A step in primitives. States are read as they were before it.
struct StepRule {
  explicit StepRule(DecomposeRule &d, bool isScheduled) : d(d), p(d.params<StepParams>()), weight(d.x(0)) {
    if (!isScheduled) return;
    rate = d.x(d.numInputs() - 1);
    if (p.rateFactor != 1) rate = times(rate, p.rateFactor);
  }

  Value plus(Value a, Value b) { return d.emit(kElemwiseAdd, {a, b}); }
  Value times(Value v, double factor) { return d.emit(kMulScalar, {v}, {{"scalar", d.number(factor)}}); }
  Value rescaled() { return times(d.x(1), p.rescaleGrad); }
  Value decayed(Value gradient) { return plus(gradient, times(weight, p.wd)); }
  Value clipped(Value v) {
    if (p.clipGradient < 0) return v;
    const Value above = d.emit(kMaximumScalar, {v}, {{"scalar", d.number(-p.clipGradient)}});
    return d.emit(kMinimumScalar, {above}, {{"scalar", d.number(p.clipGradient)}});
  }
  /// The gradient of plain and momentum steps.
  Value gradient() { return decayed(clipped(rescaled())); }
  Value timesRate(Value v) { return rate.isValid() ? d.emit(kBroadcastMul, {v, rate}) : times(v, p.lr); }
  /// The state becomes decay · state + v.
  Value move(size_t state, double decay, Value v) {
    const Value moved = plus(times(beforeWrite(d.x(state)), decay), v);
    d.emit(kAssign, {d.x(state), moved});
    return moved;
  }

  DecomposeRule &d;
  const StepParams &p;
  Value weight, rate;  // invalid: the attribute lr
};

template <bool IsScheduled> void decomposeSgd(DecomposeRule &d) {
  StepRule step(d, IsScheduled);
  d.y(0, d.emit(kElemwiseSub, {step.weight, step.timesRate(step.gradient())}));
}

template <bool IsScheduled> void decomposeMomentum(DecomposeRule &d) {
  StepRule step(d, IsScheduled);
  const Value descent = d.emit(kNegative, {step.timesRate(step.gradient())});
  d.y(0, step.plus(step.weight, step.move(2, step.p.momentum, descent)));
}

template <bool IsScheduled> void decomposeAdam(DecomposeRule &d) {
  StepRule step(d, IsScheduled);
  const double rest1 = 1 - static_cast<float>(step.p.beta1), rest2 = 1 - static_cast<float>(step.p.beta2);
  const Value g = step.clipped(step.decayed(step.rescaled()));
  const Value mean = step.move(2, step.p.beta1, step.times(g, rest1));
  const Value var = step.move(3, step.p.beta2, step.times(d.emit(kSquare, {g}), rest2));
  const Value root = d.emit(kPlusScalar, {d.emit(kSqrt, {var})}, {{"scalar", d.number(step.p.epsilon)}});
  d.y(0, d.emit(kElemwiseSub, {step.weight, d.emit(kElemwiseDiv, {step.timesRate(mean), root})}));
}

constexpr InplacePair kOverWeight[] = {{0, 0}};

/// What all steps share.
constexpr OpDef stepOp(StringRef name, StringRef summary, NameList inputs, ArrayRef<AttrSpec> attrs) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.inputs = Ports(inputs, nullptr);
  op.attrs = attrs;
  op.params = paramsOf<StepParams>();
  op.check = roundParams;
  op.shape = shapes::same;
  op.inplace = kOverWeight;
  op.flags.isStep = true;
  return op;
}

constexpr OpDef scheduled(OpDef op) {
  op.shape = scheduledShape;
  return op;
}

template <bool IsScheduled> constexpr OpDef sgdOp(OpDef op) {
  op.decompose = decomposeSgd<IsScheduled>;
  op.kernel = runSgd<IsScheduled>;
  return op;
}

constexpr Domain kMomentumDomains[] = {Domain::Any, Domain::Any, Domain::Any};
constexpr Domain kAdamDomains[] = {Domain::Any, Domain::Any, Domain::Any, Domain::Positive};

template <bool IsScheduled> constexpr OpDef momentumOp(OpDef op) {
  op.mutated = {2};
  op.domains = kMomentumDomains;
  op.decompose = decomposeMomentum<IsScheduled>;
  op.kernel = runMomentum<IsScheduled>;
  return op;
}

template <bool IsScheduled> constexpr OpDef adamOp(OpDef op) {
  op.mutated = {2, 3};
  op.domains = kAdamDomains;
  op.decompose = decomposeAdam<IsScheduled>;
  op.kernel = runAdam<IsScheduled>;
  return op;
}

constinit const OpDef kSgdUpdate = sgdOp<false>(
    stepOp("sgd_update", "weight - lr * g, g = clip(rescale_grad * grad) + wd * weight", {"weight", "grad"}, kSgdAttrs));
constinit const OpDef kSgdMomUpdate = momentumOp<false>(
    stepOp("sgd_mom_update",
           "weight + mom, after mom = momentum * mom - lr * g, g = clip(rescale_grad * grad) + wd * weight",
           {"weight", "grad", "mom"}, kMomentumAttrs));
constinit const OpDef kAdamUpdate = adamOp<false>(
    stepOp("adam_update",
           "weight - lr * mean / (sqrt(var) + epsilon), after mean = beta1 * mean + (1 - beta1) * g and"
           " var = beta2 * var + (1 - beta2) * g^2, g = clip(rescale_grad * grad + wd * weight)",
           {"weight", "grad", "mean", "var"}, kAdamAttrs));

constinit const OpDef kScheduledSgdUpdate = sgdOp<true>(
    scheduled(stepOp("_scheduled_sgd_update", "sgd_update with lr * rate_factor as learning rate, where lr is an input",
                     {"weight", "grad", "lr"}, kScheduledSgdAttrs)));
constinit const OpDef kScheduledSgdMomUpdate = momentumOp<true>(
    scheduled(stepOp("_scheduled_sgd_mom_update",
                     "sgd_mom_update with lr * rate_factor as learning rate, where lr is an input",
                     {"weight", "grad", "mom", "lr"}, kScheduledMomentumAttrs)));
constinit const OpDef kScheduledAdamUpdate = adamOp<true>(
    scheduled(stepOp("_scheduled_adam_update",
                     "adam_update with lr * rate_factor as learning rate, where lr is an input",
                     {"weight", "grad", "mean", "var", "lr"}, kScheduledAdamAttrs)));

constexpr const OpDef *kOps[] = {&kSgdUpdate,          &kSgdMomUpdate,          &kAdamUpdate,
                                 &kScheduledSgdUpdate, &kScheduledSgdMomUpdate, &kScheduledAdamUpdate};

}  // namespace

constinit const OpFamily kOptimizerFamily = kOps;

}  // namespace gradc
