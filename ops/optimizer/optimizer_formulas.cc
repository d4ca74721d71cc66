// Steps of optimizers: the new value of a weight from its gradient, with the optimizer's states overwritten.
//
// These are MXNet 1.9.1's operators with MXNet's attributes. The learning rate is an attribute, hence fixed in the
// graph, and so is the number of the step where an operator depends on it. So that one graph serves all steps, each
// operator has a sibling `_scheduled_…`, which MXNet lacks, with the inputs `lr`, multiplied by the attribute
// rate_factor, and `t`, counted from 1.
// Adam's bias correction is part of the rate, as in MXNet: lr · sqrt(1 - β2^t) / (1 - β1^t).
// MXNet's AdaGrad takes only row-sparse gradients, so `_adagrad_update` is ours: the step of its Python optimizer.
// Steps have no gradient: requesting one is an error (E-02), as in MXNet. Tested by tests/ops/optimizer_ops_test.cc
#include "ops/optimizer/step.h"

#include "ops/kit/families.h"

using namespace llvm;

namespace gradc {
namespace {

using std::abs, std::sqrt;

// ---- formulas: e.state has the states among the inputs, in order

constexpr auto kSgd = [](auto &e) { return e.weight - e.all.lr * e.gradient(); };

constexpr auto kSgdMomentum = [](auto &e) {
  e.state[0] = e.number(e.p.momentum) * e.state[0] - e.all.lr * e.gradient();
  return e.weight + e.state[0];
};

// Applies the momentum of the next step in advance.
constexpr auto kNesterov = [](auto &e) {
  const auto kept = e.number(e.p.momentum) * e.state[0];
  e.state[0] = kept - e.all.lr * e.gradient();
  return e.weight - kept + e.number(e.p.momentum + 1) * e.state[0];
};

// The size of the gradient does not matter, so its factor and bounds are not used.
constexpr auto kSignSgd = [](auto &e) {
  return (1 - e.all.lr * e.number(e.p.wd)) * e.weight - e.all.lr * sign(e.grad);
};

constexpr auto kSignum = [](auto &e) {
  e.state[0] = e.number(e.p.momentum) * e.state[0] - e.number(1 - e.p.momentum) * e.gradient();
  return (1 - e.all.lr * e.number(e.p.wdLh)) * e.weight + e.all.lr * sign(e.state[0]);
};

constexpr auto kAdam = [](auto &e) {
  const auto g = e.decayedGradient();
  const auto mean = e.average(0, e.p.beta1, g), var = e.averageOfSquares(1, e.p.beta2, g);
  return e.weight - e.all.lr * mean / (sqrt(var) + e.number(e.p.epsilon));
};

// The weight decay is separate from the gradient. MXNet has the schedule in eta and the bias correction in lr.
constexpr auto kAdamW = [](auto &e) {
  const auto g = e.plainGradient();
  const auto mean = e.average(0, e.p.beta1, g), var = e.averageOfSquares(1, e.p.beta2, g);
  const auto eta = e.all.isScheduled ? e.all.lr : e.number(e.p.eta);
  const auto lr = e.all.isScheduled ? sqrt(e.all.varCorrection) / e.all.meanCorrection : e.all.lr;
  return e.weight - eta * (lr * mean / (sqrt(var) + e.number(e.p.epsilon)) + e.decay());
};

constexpr auto kRmsProp = [](auto &e) {
  const auto g = e.decayedGradient();
  const auto n = e.averageOfSquares(0, e.p.gamma1, g);
  return e.withinWeights(e.weight - e.all.lr * (g / sqrt(n + e.number(e.p.epsilon))));
};

// The square of the mean is subtracted from the mean of squares.
constexpr auto kRmsPropAlex = [](auto &e) {
  const auto g = e.decayedGradient();
  const auto n = e.averageOfSquares(0, e.p.gamma1, g), mean = e.average(1, e.p.gamma1, g);
  const auto root = sqrt(n - mean * mean + e.number(e.p.epsilon));
  e.state[2] = e.number(e.p.gamma2) * e.state[2] - e.all.lr * g / root;
  return e.withinWeights(e.weight + e.state[2]);
};

// z and n are sums; a weight whose z is within lamda1 is 0.
constexpr auto kFtrl = [](auto &e) {
  const auto g = e.plainGradient();
  const auto sum = e.state[1] + g * g;
  const auto z = e.state[0] + g - (sqrt(sum) - sqrt(e.state[1])) * e.weight / e.all.lr;
  e.state[0] = z;
  e.state[1] = sum;
  const auto lamda1 = e.number(e.p.lamda1);
  return (sign(z) * lamda1 - z) / ((e.number(e.p.beta) + sqrt(sum)) / e.all.lr + e.number(e.p.wd)) *
         greater(abs(z), lamda1);
};

constexpr auto kFtml = [](auto &e) {
  const auto g = e.decayedGradient();
  const auto beta1 = e.number(e.p.beta1);
  const auto v = e.averageOfSquares(1, e.p.beta2, g);
  const auto d = e.all.meanCorrection / e.all.lr * (sqrt(v / e.all.varCorrection) + e.number(e.p.exactEpsilon));
  e.state[2] = beta1 * e.state[2] + e.number(1 - e.p.beta1) * g - (d - beta1 * e.state[0]) * e.weight;
  e.state[0] = d;
  return -e.state[2] / d;
};

constexpr auto kAdaGrad = [](auto &e) {
  const auto g = e.plainGradient();
  e.state[0] = e.state[0] + g * g;
  return e.weight - e.all.lr * (g / sqrt(e.state[0] + e.number(e.p.epsilon)) + e.decay());
};

// The direction of a step.
constexpr auto kLamb1 = [](auto &e) {
  const auto g = e.plainGradient();
  const auto mean = e.average(0, e.p.beta1, g), var = e.averageOfSquares(1, e.p.beta2, g);
  const auto epsilon = e.number(e.p.epsilon);
  if constexpr (!std::is_arithmetic_v<decltype(epsilon)>)
    if (!e.p.biasCorrection) return mean / (sqrt(var) + epsilon) + e.decay();
  return mean / e.all.meanCorrection / (sqrt(var / e.all.varCorrection) + epsilon) + e.decay();
};

// The rate includes the quotient of norms.
constexpr auto kLamb2 = [](auto &e) { return e.weight - e.all.lr * e.grad; };

// ---- attributes

using P = StepParams;
constexpr AttrSpec kLazy = attr<&P::lazyUpdate>("lazy_update", "True", "accepted; gradients are dense here");
constexpr AttrSpec kMomentum = attr<&P::momentum>("momentum", "0", "how much of the last step is kept");
constexpr AttrSpec kGamma1 = attr<&P::gamma1>("gamma1", "0.949999988", "decay of the means");
constexpr AttrSpec kClipWeights =
    attr<&P::clipWeights>("clip_weights", "-1", "weights are clamped to ± this; off if negative");
constexpr AttrSpec kStep = required<&P::t>("t", "which step this is, counted from 1").atLeast(1).atMost(INT32_MAX);

constexpr AttrSpec kSgdAttrs[] = {kLrAttr, kLazy, kWdAttr, kRescaleAttr, kClipAttr, kRateFactorAttr};
constexpr AttrSpec kMomentumAttrs[] = {kLrAttr, kLazy, kMomentum, kWdAttr, kRescaleAttr, kClipAttr, kRateFactorAttr};
constexpr AttrSpec kNesterovAttrs[] = {kLrAttr, kMomentum, kWdAttr, kRescaleAttr, kClipAttr, kRateFactorAttr};
constexpr AttrSpec kSignSgdAttrs[] = {
    kLrAttr, kWdAttr, attr<&P::rescaleGrad>("rescale_grad", "1", "accepted and not used"),
    attr<&P::clipGradient>("clip_gradient", "-1", "accepted and not used"), kRateFactorAttr};
constexpr AttrSpec kSignumAttrs[] = {
    kLrAttr,        kMomentum,
    kWdAttr,        kRescaleAttr,
    kClipAttr,      attr<&P::wdLh>("wd_lh", "0", "weight decay, applied to the weight and not to the gradient"),
    kRateFactorAttr};
constexpr AttrSpec kAdamAttrs[] = {kLrAttr, kLazy,        kBeta1Attr, kBeta2Attr,     kEpsilonAttr,
                                   kWdAttr, kRescaleAttr, kClipAttr,  kRateFactorAttr};
constexpr AttrSpec kAdamWAttrs[] = {kLrAttr,        required<&P::eta>("eta", "factor of the whole step"),
                                    kBeta1Attr,     kBeta2Attr,
                                    kEpsilonAttr,   kWdAttr,
                                    kClipAttr,      kRescaleAttr,
                                    kRateFactorAttr};
constexpr AttrSpec kRmsPropAttrs[] = {kLrAttr,      kGamma1,   kEpsilonAttr, kWdAttr,
                                      kRescaleAttr, kClipAttr, kClipWeights, kRateFactorAttr};
constexpr AttrSpec kRmsPropAlexAttrs[] = {
    kLrAttr,      kGamma1,      attr<&P::gamma2>("gamma2", "0.899999976", "decay of the step"),
    kEpsilonAttr, kWdAttr,      kRescaleAttr,
    kClipAttr,    kClipWeights, kRateFactorAttr};
constexpr AttrSpec kFtrlAttrs[] = {
    kLrAttr,
    attr<&P::lamda1>("lamda1", "0.00999999978", "where |z| is at most this, the weight is 0"),
    attr<&P::beta>("beta", "1", "added to the root of n"),
    kWdAttr,
    kRescaleAttr,
    kClipAttr,
    kRateFactorAttr};
constexpr AttrSpec kFtmlAttrs[] = {
    kLrAttr,
    kStep,
    attr<&P::beta1>("beta1", "0.600000024", "decay of z").atLeast(0).atMost(1),
    attr<&P::beta2>("beta2", "0.999000013", "decay of the mean of squares").atLeast(0).atMost(1),
    attr<&P::exactEpsilon>("epsilon", "9.9999999392252903e-09", "keeps the denominator from 0"),
    kWdAttr,
    kRescaleAttr,
    attr<&P::clipGradient>("clip_grad", "-1", kClipDoc),
    kRateFactorAttr};
constexpr AttrSpec kAdaGradAttrs[] = {
    kLrAttr,   attr<&P::epsilon>("epsilon", "1.00000001e-07", "keeps the denominator from 0"),
    kWdAttr,   kRescaleAttr,
    kClipAttr, kRateFactorAttr};
constexpr AttrSpec kLamb1Attrs[] = {
    kStep,
    kBeta1Attr,
    kBeta2Attr,
    attr<&P::epsilon>("epsilon", "9.99999997e-07", "keeps the denominator from 0"),
    attr<&P::biasCorrection>("bias_correction", "True", "whether to correct the means for their start at zero"),
    required<&P::wd>("wd", "weight decay: this times the weight is added to the step"),
    kRescaleAttr,
    kClipAttr};
constexpr AttrSpec kLamb2Attrs[] = {
    kLrAttr, attr<&P::lowerBound>("lower_bound", "-1", "least norm of the weight; off below 0"),
    attr<&P::upperBound>("upper_bound", "-1", "greatest norm of the weight; off below 0"), kRateFactorAttr};

// ---- operators, each with its sibling

constexpr Domain kSquaresFirst[] = {Domain::Any, Domain::Any, Domain::Positive};
constexpr Domain kSquaresSecond[] = {Domain::Any,      Domain::Any,      Domain::Any,
                                     Domain::Positive, Domain::Positive, Domain::Positive};
constexpr Domain kFtmlDomains[] = {Domain::Any, Domain::Any,      Domain::Positive, Domain::Positive,
                                   Domain::Any, Domain::Positive, Domain::Positive};
constexpr Domain kNorms[] = {Domain::Any, Domain::Any, Domain::Positive, Domain::Positive, Domain::Positive};

constinit const OpDef kSteps[] = {
    stepOp<kSgd, 0>({"sgd_update", "_sparse_sgd_update"},
                    "weight - lr * g, g = clip(rescale_grad * grad) + wd * weight", {"weight", "grad"},
                    fixedAttrs(kSgdAttrs)),
    stepOp<kSgd, 0>({"_scheduled_sgd_update"},
                    "sgd_update with lr * rate_factor as learning rate, where lr is an input", {"weight", "grad", "lr"},
                    scheduledAttrs(kSgdAttrs, 2)),
    stepOp<kSgdMomentum, 1>(
        {"sgd_mom_update", "_sparse_sgd_mom_update"},
        "weight + mom, after mom = momentum * mom - lr * g, g = clip(rescale_grad * grad) + wd * weight",
        {"weight", "grad", "mom"}, fixedAttrs(kMomentumAttrs)),
    stepOp<kSgdMomentum, 1>({"_scheduled_sgd_mom_update"},
                            "sgd_mom_update with lr * rate_factor as learning rate, where lr is an input",
                            {"weight", "grad", "mom", "lr"}, scheduledAttrs(kMomentumAttrs, 2)),
    stepOp<kNesterov, 1>({"nag_mom_update"},
                         "weight + (1 + momentum) * mom' - momentum * mom, after mom' = momentum * mom - lr * g,"
                         " g = clip(rescale_grad * grad) + wd * weight",
                         {"weight", "grad", "mom"}, fixedAttrs(kNesterovAttrs)),
    stepOp<kNesterov, 1>({"_scheduled_nag_mom_update"},
                         "nag_mom_update with lr * rate_factor as learning rate, where lr is an input",
                         {"weight", "grad", "mom", "lr"}, scheduledAttrs(kNesterovAttrs)),
    stepOp<kSignSgd, 0>({"signsgd_update"}, "(1 - lr * wd) * weight - lr * sign(grad)", {"weight", "grad"},
                        fixedAttrs(kSignSgdAttrs)),
    stepOp<kSignSgd, 0>({"_scheduled_signsgd_update"},
                        "signsgd_update with lr * rate_factor as learning rate, where lr is an input",
                        {"weight", "grad", "lr"}, scheduledAttrs(kSignSgdAttrs)),
    stepOp<kSignum, 1>({"signum_update"},
                       "(1 - lr * wd_lh) * weight + lr * sign(mom), after mom = momentum * mom - (1 - momentum) * g,"
                       " g = clip(rescale_grad * grad) + wd * weight",
                       {"weight", "grad", "mom"}, fixedAttrs(kSignumAttrs)),
    stepOp<kSignum, 1>({"_scheduled_signum_update"},
                       "signum_update with lr * rate_factor as learning rate, where lr is an input",
                       {"weight", "grad", "mom", "lr"}, scheduledAttrs(kSignumAttrs)),
    stepOp<kAdam, 2>({"adam_update", "_sparse_adam_update"},
                     "weight - lr * mean / (sqrt(var) + epsilon), after mean = beta1 * mean + (1 - beta1) * g and"
                     " var = beta2 * var + (1 - beta2) * g^2, g = clip(rescale_grad * grad + wd * weight)",
                     {"weight", "grad", "mean", "var"}, fixedAttrs(kAdamAttrs), kSquaresSecond),
    stepOp<kAdam, 2>({"_scheduled_adam_update"},
                     "adam_update with lr * rate_factor as learning rate, where lr is an input",
                     {"weight", "grad", "mean", "var", "lr"}, scheduledAttrs(kAdamAttrs, 2), kSquaresSecond),
    stepOp<kAdamW, 2>({"_adamw_update"},
                      "weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight), after"
                      " mean = beta1 * mean + (1 - beta1) * g and var = beta2 * var + (1 - beta2) * g^2,"
                      " g = clip(rescale_grad * grad); nothing moves where rescale_grad is 0, infinite or NaN",
                      {"weight", "grad", "mean", "var", "rescale_grad"},
                      ArrayRef<AttrSpec>(kAdamWAttrs, std::size(kAdamWAttrs) - 2), kSquaresSecond),
    stepOp<kAdamW, 2>(
        {"_scheduled_adamw_update"},
        "_adamw_update with eta = lr * rate_factor and lr = sqrt(1 - beta2^t) / (1 - beta1^t), where lr and t"
        " are inputs",
        {"weight", "grad", "mean", "var", "lr", "t"}, scheduledAttrs(kAdamWAttrs, 2), kSquaresSecond),
    stepOp<kRmsProp, 1>({"rmsprop_update"},
                        "weight - lr * g / sqrt(n + epsilon), after n = gamma1 * n + (1 - gamma1) * g^2,"
                        " g = clip(rescale_grad * grad + wd * weight)",
                        {"weight", "grad", "n"}, fixedAttrs(kRmsPropAttrs), kSquaresFirst),
    stepOp<kRmsProp, 1>({"_scheduled_rmsprop_update"},
                        "rmsprop_update with lr * rate_factor as learning rate, where lr is an input",
                        {"weight", "grad", "n", "lr"}, scheduledAttrs(kRmsPropAttrs), kSquaresFirst),
    stepOp<kRmsPropAlex, 3>(
        {"rmspropalex_update"},
        "weight + delta, after n = gamma1 * n + (1 - gamma1) * d^2, g = gamma1 * g + (1 - gamma1) * d"
        " and delta = gamma2 * delta - lr * d / sqrt(n - g^2 + epsilon),"
        " d = clip(rescale_grad * grad + wd * weight)",
        {"weight", "grad", "n", "g", "delta"}, fixedAttrs(kRmsPropAlexAttrs), kSquaresFirst),
    stepOp<kRmsPropAlex, 3>({"_scheduled_rmspropalex_update"},
                            "rmspropalex_update with lr * rate_factor as learning rate, where lr is an input",
                            {"weight", "grad", "n", "g", "delta", "lr"}, scheduledAttrs(kRmsPropAlexAttrs),
                            kSquaresFirst),
    stepOp<kFtrl, 2>(
        {"ftrl_update", "_sparse_ftrl_update"},
        "(sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda1, else 0, after"
        " z = z + g - (sqrt(n + g^2) - sqrt(n)) * weight / lr and n = n + g^2, g = clip(rescale_grad * grad)",
        {"weight", "grad", "z", "n"}, fixedAttrs(kFtrlAttrs), kSquaresSecond),
    stepOp<kFtrl, 2>({"_scheduled_ftrl_update"},
                     "ftrl_update with lr * rate_factor as learning rate, where lr is an input",
                     {"weight", "grad", "z", "n", "lr"}, scheduledAttrs(kFtrlAttrs), kSquaresSecond),
    stepOp<kFtml, 3>(
        {"ftml_update"},
        "-z / d', after v = beta2 * v + (1 - beta2) * g^2, d' = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t))"
        " + epsilon) and z = beta1 * z + (1 - beta1) * g - (d' - beta1 * d) * weight,"
        " g = clip(rescale_grad * grad + wd * weight)",
        {"weight", "grad", "d", "v", "z"}, fixedAttrs(kFtmlAttrs), kFtmlDomains),
    stepOp<kFtml, 3>({"_scheduled_ftml_update"},
                     "ftml_update with lr * rate_factor as learning rate, where lr and t are inputs",
                     {"weight", "grad", "d", "v", "z", "lr", "t"}, scheduledAttrs(kFtmlAttrs, 2), kFtmlDomains),
    stepOp<kAdaGrad, 1>({"_adagrad_update"},
                        "weight - lr * (g / sqrt(history + epsilon) + wd * weight), after history = history + g^2,"
                        " g = clip(rescale_grad * grad)",
                        {"weight", "grad", "history"}, fixedAttrs(kAdaGradAttrs), kSquaresFirst),
    stepOp<kAdaGrad, 1>({"_scheduled_adagrad_update"},
                        "_adagrad_update with lr * rate_factor as learning rate, where lr is an input",
                        {"weight", "grad", "history", "lr"}, scheduledAttrs(kAdaGradAttrs), kSquaresFirst),
    stepOp<kLamb1, 2>(
        {"lamb_update_phase1"},
        "mean' / (sqrt(var') + epsilon) + wd * weight, after mean = beta1 * mean + (1 - beta1) * g and"
        " var = beta2 * var + (1 - beta2) * g^2, g = clip(rescale_grad * grad); mean' = mean / (1 - beta1^t)"
        " and var' = var / (1 - beta2^t), or without bias correction mean and var",
        {"weight", "grad", "mean", "var"}, kLamb1Attrs, kSquaresSecond),
    stepOp<kLamb1, 2>({"_scheduled_lamb_update_phase1"}, "lamb_update_phase1 where t is an input",
                      {"weight", "grad", "mean", "var", "t"},
                      ArrayRef<AttrSpec>(kLamb1Attrs + 1, std::size(kLamb1Attrs) - 1), kSquaresSecond),
    stepOp<kLamb2, 0>({"lamb_update_phase2"},
                      "weight - lr * r1' / r2 * g, r1' = r1 within the bounds; the quotient is 1 where r1' or r2 is 0",
                      {"weight", "g", "r1", "r2"}, fixedAttrs(kLamb2Attrs), kNorms),
    stepOp<kLamb2, 0>({"_scheduled_lamb_update_phase2"},
                      "lamb_update_phase2 with lr * rate_factor as learning rate, where lr is an input",
                      {"weight", "g", "r1", "r2", "lr"}, scheduledAttrs(kLamb2Attrs), kNorms),
    // ---- for weights of 16 bits
    mixedStepOp<kSgd, 0>({"mp_sgd_update"},
                         "sgd_update of weight32, the weight in float32, which is overwritten; yields it rounded",
                         {"weight", "grad", "weight32"}, fixedAttrs(kSgdAttrs), 2),
    mixedStepOp<kSgdMomentum, 1>(
        {"mp_sgd_mom_update"},
        "sgd_mom_update of weight32, the weight in float32, which is overwritten; yields it rounded",
        {"weight", "grad", "mom", "weight32"}, fixedAttrs(kMomentumAttrs), 3),
    // MXNet's adds the decay of the new weight to the momentum; nag_mom_update, and this operator, that of the old one.
    mixedStepOp<kNesterov, 1>(
        {"mp_nag_mom_update"},
        "nag_mom_update of weight32, the weight in float32, which is overwritten; yields it rounded",
        {"weight", "grad", "mom", "weight32"}, fixedAttrs(kNesterovAttrs), 3),
    mixedStepOp<kAdamW, 2>({"_mp_adamw_update"},
                           "_adamw_update of weight32, the weight in float32, which is overwritten; yields it rounded",
                           {"weight", "grad", "mean", "var", "weight32", "rescale_grad"},
                           ArrayRef<AttrSpec>(kAdamWAttrs, std::size(kAdamWAttrs) - 2), 4, kSquaresSecond),
    mixedStepOp<kLamb1, 2>({"mp_lamb_update_phase1"},
                           "lamb_update_phase1 of weight32, the weight in float32; yields float32",
                           {"weight", "grad", "mean", "var", "weight32"}, kLamb1Attrs, std::nullopt, kSquaresSecond),
    // MXNet declares weight32 as overwritten, but leaves it unchanged.
    mixedStepOp<kLamb2, 0>(
        {"mp_lamb_update_phase2"},
        "lamb_update_phase2 of weight32, the weight in float32, which is overwritten; yields it rounded",
        {"weight", "g", "r1", "r2", "weight32"}, fixedAttrs(kLamb2Attrs), 4, kNorms),
};

constexpr auto kStepOps = [] {
  std::array<const OpDef *, std::size(kSteps)> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = &kSteps[i];
  return ops;
}();

}  // namespace

constinit const OpFamily kOptimizerFamily = OpFamily(kStepOps.data(), kStepOps.size());

}  // namespace gradc
