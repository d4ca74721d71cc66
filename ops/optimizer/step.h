// Shared by steps of optimizers: attributes, operands, and the makers of operators from formulas.
//
// A formula gets one element of the operands, moves the states and returns the new weight. On numbers it is the kernel,
// on terms (ops/elementwise/formula.h) the decomposition. Operands are known by their names:
//
//   weight, grad, states…   of one shape; the states are overwritten
//   lr, t                   of `_scheduled_…` operators: the learning rate and which step it is, tensors of one element
//   r1, r2                  of LAMB: norms of the weight and of its step
//   rescale_grad            of AdamW: factor of the gradient; the step is left out where it is 0, infinite or NaN
//   weight32                of `mp_…` operators, for 16-bit weights: the weight in float32, which the step reads and
//                           overwrites; states and numbers are float32 too
//
// Tested by tests/ops/optimizer_ops_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/formula.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/loops.h"
#include "ops/kit/op_def.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace gradc {

struct StepParams {
  double lr = 0, rateFactor = 1, eta = 1, momentum = 0, wd = 0, wdLh = 0, rescaleGrad = 1, clipGradient = -1;
  double clipWeights = -1, beta1 = 0, beta2 = 0, gamma1 = 0, gamma2 = 0, epsilon = 0, lamda1 = 0, beta = 0;
  double lowerBound = -1, upperBound = -1;
  double exactEpsilon = 0;  // the one number that MXNet keeps in float64
  int64_t t = 1;
  bool lazyUpdate = true, biasCorrection = true;
};

constexpr size_t kMaxStates = 3;

/// The input of that name; none where the operator has no such input.
std::optional<size_t> stepInput(const NodeKind &kind, llvm::StringRef name);

/// v clamped to [-bound, bound]; a NaN stays. The bound must not be NaN.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T bounded(T v, double bound) {
  return std::clamp(v, static_cast<T>(-bound), static_cast<T>(bound));
}
Term bounded(const Term &v, double bound);

/// The numbers that all elements share. V is the type of the elements, or Term.
template <class V> struct StepNumbers {
  V lr, rescale;
  V meanCorrection, varCorrection;  // 1 - β1^t, 1 - β2^t; 1 among numbers where there is no correction
  bool isScheduled;
};

template <class V> class StepElement {
 public:
  const StepParams &p;
  const StepNumbers<V> &all;
  V weight, grad;
  std::array<V, kMaxStates> state;

  V number(double value) const { return constant(weight, value); }
  V clipped(const V &v) const { return boundedIf(v, p.clipGradient); }
  V rescaled() const { return all.rescale * grad; }
  V decay() const { return number(p.wd) * weight; }
  /// The gradient with weight decay added after clipping, with it added before, and without it, for optimizers that
  /// decay the weight separately.
  V gradient() const { return clipped(rescaled()) + decay(); }
  V decayedGradient() const { return clipped(rescaled() + decay()); }
  V plainGradient() const { return clipped(rescaled()); }
  /// The state becomes decay · state + (1 - decay) · v.
  V average(size_t i, double decay, const V &v) { return state[i] = number(decay) * state[i] + number(1 - decay) * v; }
  V averageOfSquares(size_t i, double decay, const V &v) {
    return state[i] = number(decay) * state[i] + number(1 - decay) * v * v;
  }
  V withinWeights(const V &v) const { return boundedIf(v, p.clipWeights); }

 private:
  /// The bound is off below 0. Numbers have an infinite one then, because the compiler does not vectorise loops with
  /// branches.
  static V boundedIf(const V &v, double bound) {
    if constexpr (std::is_arithmetic_v<V>) return bounded(v, bound >= 0 ? bound : HUGE_VAL);
    else return bound >= 0 ? bounded(v, bound) : v;
  }
};

/// The index of the weight that steps compute with: `weight32`, or else `weight`.
inline size_t weightInput(const NodeKind &kind) { return stepInput(kind, "weight32").value_or(0); }

/// The numbers of a call. `isTaken` becomes false if rescale_grad forbids the step.
template <class T> StepNumbers<T> stepNumbers(const KernelCall &call, bool &isTaken) {
  const StepParams &p = call.params<StepParams>();
  auto read = [&](llvm::StringRef name, double fallback) {
    const std::optional<size_t> i = stepInput(*call.kind, name);
    double value = fallback;
    if (i) dispatchFloating(call.in[*i].dtype, [&](auto zero) { value = call.in[*i].as<const decltype(zero)>()[0]; });
    return value;
  };
  const bool isScheduled = stepInput(*call.kind, "lr") || stepInput(*call.kind, "t");
  T lr =
      stepInput(*call.kind, "lr") ? static_cast<T>(read("lr", 0)) * static_cast<T>(p.rateFactor) : static_cast<T>(p.lr);
  if (stepInput(*call.kind, "r1")) {
    T norm = static_cast<T>(read("r1", 0)), ofStep = static_cast<T>(read("r2", 0));
    if (p.lowerBound >= 0) norm = std::max(norm, static_cast<T>(p.lowerBound));
    if (p.upperBound >= 0) norm = std::min(norm, static_cast<T>(p.upperBound));
    if (norm != 0 && ofStep != 0) lr = lr * norm / ofStep;
  }
  const double rescale = read("rescale_grad", p.rescaleGrad), t = read("t", static_cast<double>(p.t));
  isTaken = !stepInput(*call.kind, "rescale_grad") || (std::isfinite(rescale) && rescale != 0);
  auto correction = [&](double beta) { return static_cast<T>(p.biasCorrection ? 1 - std::pow(beta, t) : 1); };
  return {lr, static_cast<T>(rescale), correction(p.beta1), correction(p.beta2), isScheduled};
}

/// The same in a decomposition, with the other operands of the step.
class StepRule {
 public:
  explicit StepRule(DecomposeRule &d);

  StepElement<Term> element(size_t numStates);
  /// The step of an element: states are overwritten, output 0 is the new weight.
  void finish(const StepElement<Term> &element, const Term &weight, size_t numStates);

 private:
  Term operand(size_t i) { return Term(formula, d.x(i)); }
  Value weight();
  Term input(llvm::StringRef name, double fallback);
  Term rate();
  Value ifTaken(Value after, Value before);

  DecomposeRule &d;
  const StepParams &p;
  Formula formula;
  Value rescale{NodeId(), 0, 0}, isTaken{NodeId(), 0, 0};  // where rescale_grad is an input
  StepNumbers<Term> numbers;
};

namespace detail {

template <auto F, bool WantsWeight, class T, size_t... S>
void stepLoop(const KernelCall &call, const StepNumbers<T> &numbers, std::index_sequence<S...>) {
  const StepParams p = call.params<StepParams>();
  const size_t weightAt = weightInput(*call.kind);
  const T *weight = call.in[weightAt].as<const T>(), *grad = call.in[1].as<const T>();
  T *out = call.out[0].as<T>(), *master = call.kind->isMutated(weightAt) ? call.in[weightAt].as<T>() : nullptr;
  const std::array<T *, kMaxStates> states{call.in[2 + S].as<T>()...};
  forElements<T>(call.out[0].size(), [=](int64_t i) {
    StepElement<T> element{p, numbers, weight[i], grad[i], {}};
    ((element.state[S] = states[S][i]), ...);
    const T after = F(element);
    ((states[S][i] = element.state[S]), ...);
    if (master) master[i] = after;
    if constexpr (WantsWeight) out[i] = after;
  });
}

}  // namespace detail

/// The output may be the weight's own memory.
template <auto F, size_t NumStates> void runStep(const KernelCall &call) {
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    bool isTaken;
    const StepNumbers<T> numbers = stepNumbers<T>(call, isTaken);
    if (!isTaken) {
      if (call.wants(0)) std::copy_n(call.in[0].as<const T>(), call.out[0].size(), call.out[0].as<T>());
    } else if (call.wants(0)) {
      detail::stepLoop<F, true>(call, numbers, std::make_index_sequence<NumStates>());
    } else {
      detail::stepLoop<F, false>(call, numbers, std::make_index_sequence<NumStates>());
    }
  });
}

template <auto F, size_t NumStates> void decomposeStep(DecomposeRule &d) {
  StepRule rule(d);
  StepElement<Term> element = rule.element(NumStates);
  const Term weight = F(element);
  rule.finish(element, weight, NumStates);
}

llvm::Error checkStep(const OpDef &, void *params);
void stepShape(ShapeInference &s);
void stepType(DTypeInference &t);

inline constexpr InplacePair kOverWeight[] = {{0, 0}};

/// Types of the form for 16-bit weights: weight and gradient have one type; all else, LAMB's direction included, is
/// float32, or float64 if they are.
void mixedStepType(DTypeInference &t);

/// The operator of a formula with that many states. `names`: the name and its aliases.
template <auto F, size_t NumStates>
constexpr OpDef stepOp(NameList names, llvm::StringRef summary, NameList inputs, llvm::ArrayRef<AttrSpec> attrs,
                       llvm::ArrayRef<Domain> domains = {}) {
  static_assert(NumStates <= kMaxStates);
  OpDef op = named(names, summary);
  op.inputs = Ports(inputs, nullptr);
  op.attrs = attrs;
  op.params = paramsOf<StepParams>();
  op.check = checkStep;
  op.shape = stepShape;
  op.dtype = stepType;
  op.inplace = kOverWeight;
  op.mutated.fixed = ((uint64_t{1} << NumStates) - 1) << 2;
  op.flags.isStep = true;
  op.domains = domains;
  op.decompose = decomposeStep<F, NumStates>;
  op.kernel = runStep<F, NumStates>;
  return op;
}

/// The operator of that formula that steps from an input weight32. `master`: the index of that input, if it is
/// overwritten.
template <auto F, size_t NumStates>
constexpr OpDef mixedStepOp(NameList names, llvm::StringRef summary, NameList inputs, llvm::ArrayRef<AttrSpec> attrs,
                            std::optional<uint32_t> master, llvm::ArrayRef<Domain> domains = {}) {
  OpDef op = stepOp<F, NumStates>(names, summary, inputs, attrs, domains);
  op.dtype = mixedStepType;
  if (master) op.mutated.fixed |= uint64_t{1} << *master;
  return op;
}

// ---- attributes. In each list, those that `_scheduled_…` operators lack come first, and rate_factor, which only they
// have, comes last.

constexpr AttrSpec kLrAttr = required<&StepParams::lr>("lr", "learning rate");
constexpr AttrSpec kRateFactorAttr = attr<&StepParams::rateFactor>("rate_factor", "1", "factor of the learning rate");
constexpr AttrSpec kWdAttr =
    attr<&StepParams::wd>("wd", "0", "weight decay: this times the weight is added to the gradient");
constexpr AttrSpec kRescaleAttr = attr<&StepParams::rescaleGrad>("rescale_grad", "1", "factor of the gradient");
constexpr llvm::StringLiteral kClipDoc = "the gradient is clamped to ± this; off if negative";
constexpr AttrSpec kClipAttr = attr<&StepParams::clipGradient>("clip_gradient", "-1", kClipDoc);
constexpr AttrSpec kEpsilonAttr =
    attr<&StepParams::epsilon>("epsilon", "9.99999994e-09", "keeps the denominator from 0");
constexpr AttrSpec kBeta1Attr = attr<&StepParams::beta1>("beta1", "0.899999976", "decay of the mean");
constexpr AttrSpec kBeta2Attr = attr<&StepParams::beta2>("beta2", "0.999000013", "decay of the mean of squares");

/// The attributes of MXNet's operator, and of its sibling, which lacks the first `numFixed` of them.
template <size_t N> constexpr llvm::ArrayRef<AttrSpec> fixedAttrs(const AttrSpec (&rows)[N]) {
  return llvm::ArrayRef<AttrSpec>(rows, N - 1);
}
template <size_t N> constexpr llvm::ArrayRef<AttrSpec> scheduledAttrs(const AttrSpec (&rows)[N], size_t numFixed = 1) {
  return llvm::ArrayRef<AttrSpec>(rows + numFixed, N - numFixed);
}

}  // namespace gradc
