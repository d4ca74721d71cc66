#include "ops/optimizer/step.h"

#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kNumbers[] = {"lr", "t", "r1", "r2", "rescale_grad"};

}  // namespace

std::optional<size_t> stepInput(const NodeKind &kind, StringRef name) {
  const ArrayRef<StringRef> names = kind.op->inputs.names;
  const StringRef *at = llvm::find(names, name);
  if (at == names.end()) return std::nullopt;
  return static_cast<size_t>(at - names.begin());
}

Term bounded(const Term &v, double bound) {
  static constexpr Term::Operators kAtLeast = {nullptr, nullptr, &kMaximumScalar, nullptr,
                                               [](double x, double low) { return x < low ? low : x; }};
  static constexpr Term::Operators kAtMost = {nullptr, nullptr, &kMinimumScalar, nullptr,
                                              [](double x, double high) { return high < x ? high : x; }};
  return Term::combine(kAtMost, Term::combine(kAtLeast, v, -bound), bound);
}

// MXNet keeps attributes in float32, and so do we.
Error checkStep(const OpDef &, void *params) {
  StepParams &p = *static_cast<StepParams *>(params);
  for (double *value :
       {&p.lr, &p.rateFactor, &p.eta, &p.momentum, &p.wd, &p.wdLh, &p.rescaleGrad, &p.clipGradient, &p.clipWeights,
        &p.beta1, &p.beta2, &p.gamma1, &p.gamma2, &p.epsilon, &p.lamda1, &p.beta, &p.lowerBound, &p.upperBound})
    *value = static_cast<double>(static_cast<float>(*value));
  return Error::success();
}

void stepShape(ShapeInference &s) {
  const ArrayRef<StringRef> names = s.kind().op->inputs.names;
  for (size_t i = 0; i < names.size(); ++i)
    if (llvm::is_contained(kNumbers, names[i])) s.setIn(i, {1});
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < names.size(); ++i)
      if (!llvm::is_contained(kNumbers, names[i])) s.sameInOut(i, 0);
}

void stepType(DTypeInference &t) {
  const std::optional<size_t> rescale = stepInput(t.kind(), "rescale_grad");
  if (rescale) t.setIn(*rescale, DType::Float32);  // whatever the weight's is, as in MXNet
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < t.numInputs(); ++i)
      if (i != rescale) t.sameInOut(i, 0);
}

void mixedStepType(DTypeInference &t) {
  const bool isDirection = !t.kind().isMutated(weightInput(t.kind()));  // what LAMB's first phase yields
  const bool readsDirection = stepInput(t.kind(), "r1").has_value();
  const std::optional<size_t> rescale = stepInput(t.kind(), "rescale_grad");
  if (rescale) t.setIn(*rescale, DType::Float32);  // as in stepType
  for (int pass = 0; pass < 2; ++pass) {
    if (!isDirection) t.sameInOut(0, 0);
    if (!readsDirection) t.sameInIn(0, 1);
  }
  const DType weight = t.in(0);
  if (weight == DType::Unknown) return;
  const DType wide = weight == DType::Float64 ? DType::Float64 : DType::Float32;
  for (size_t i = readsDirection ? 1 : 2; i < t.numInputs(); ++i)
    if (i != rescale) t.setIn(i, wide);
  if (isDirection) t.setOut(0, wide);
}

StepRule::StepRule(DecomposeRule &d)
    : d(d), p(d.params<StepParams>()),
      formula(d, llvm::any_of(kNumbers, [&](StringRef name) { return stepInput(d.kind(), name).has_value(); })
                     ? Formula::Shapes::Broadcast
                     : Formula::Shapes::Equal),
      numbers{rate(), input("rescale_grad", p.rescaleGrad), 0, 0,
              stepInput(d.kind(), "lr") || stepInput(d.kind(), "t")} {
  const Term t = input("t", static_cast<double>(p.t));
  numbers.meanCorrection = 1 - pow(Term(p.beta1), t);
  numbers.varCorrection = 1 - pow(Term(p.beta2), t);
}

Term StepRule::input(StringRef name, double fallback) {
  const std::optional<size_t> i = stepInput(d.kind(), name);
  if (!i) return fallback;
  if (name != "rescale_grad") return operand(*i);
  rescale = d.emit(kCastLike, {d.x(*i), d.x(weightInput(d.kind()))});
  return Term(formula, rescale);
}

// LAMB multiplies the rate by the quotient of two norms unless one of them is 0.
Term StepRule::rate() {
  const Term lr = stepInput(d.kind(), "lr") ? input("lr", 0) * p.rateFactor : Term(p.lr);
  if (!stepInput(d.kind(), "r1")) return lr;
  Value norm = d.x(*stepInput(d.kind(), "r1")), ofStep = d.x(*stepInput(d.kind(), "r2"));
  if (p.lowerBound >= 0) norm = d.emit(kMaximumScalar, {norm}, {{"scalar", d.number(p.lowerBound)}});
  if (p.upperBound >= 0) norm = d.emit(kMinimumScalar, {norm}, {{"scalar", d.number(p.upperBound)}});
  auto isZero = [&](Value v) { return d.emit(kEqualScalar, {v}, {{"scalar", "0"}}); };
  const Value isNone = d.emit(kElemwiseAdd, {isZero(norm), isZero(ofStep)});
  const Value quotient = d.emit(kElemwiseDiv, {norm, ofStep});
  return lr * Term(formula, d.emit(kWhere, {isNone, d.emit(kOnesLike, {norm}), quotient}));
}

StepElement<Term> StepRule::element(size_t numStates) {
  auto state = [&](size_t i) { return i < numStates ? Term(formula, beforeWrite(d.x(2 + i))) : Term(0); };
  const bool isMixed = weightInput(d.kind()) != 0;
  const Term grad = isMixed ? Term(formula, d.emit(kCastLike, {d.x(1), weight()})) : operand(1);
  return {p, numbers, Term(formula, weight()), grad, {state(0), state(1), state(2)}};
}

/// The weight that the step starts from.
Value StepRule::weight() {
  const size_t at = weightInput(d.kind());
  return d.kind().isMutated(at) ? beforeWrite(d.x(at)) : d.x(at);
}

// The step is taken if rescale is finite (rescale · 0 is 0) and not 0.
Value StepRule::ifTaken(Value after, Value before) {
  if (!rescale.isValid()) return after;
  if (!isTaken.isValid()) {
    const Value nothing = d.emit(kMulScalar, {rescale}, {{"scalar", "0"}});
    const Value isFinite = d.emit(kEqualScalar, {nothing}, {{"scalar", "0"}});
    isTaken = d.emit(kElemwiseMul, {isFinite, d.emit(kNotEqualScalar, {rescale}, {{"scalar", "0"}})});
  }
  return d.emit(kWhere, {d.emit(kBroadcastLike, {isTaken, after}), after, before});
}

void StepRule::finish(const StepElement<Term> &element, const Term &weight, size_t numStates) {
  SmallVector<Value, kMaxStates + 1> states;
  for (size_t i = 0; i < numStates; ++i) states.push_back(element.state[i].value());
  auto overwrite = [&](size_t input, Value after) {
    d.emit(kAssign, {d.x(input), ifTaken(after, beforeWrite(d.x(input)))});
  };
  for (size_t i = 0; i < numStates; ++i) overwrite(2 + i, states[i]);
  // After the writes, so that it waits for them.
  const size_t master = weightInput(d.kind());
  if (!d.kind().isMutated(master)) return d.y(0, ifTaken(weight.value(), d.x(0)));
  const Value after = weight.value();
  overwrite(master, after);
  d.y(0, ifTaken(d.emit(kCastLike, {after, d.x(0)}), d.x(0)));
}

}  // namespace gradc
