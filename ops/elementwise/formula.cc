#include "ops/elementwise/formula.h"

#include "ops/control/scan_builder.h"
#include "ops/kit/primitives.h"

#include <algorithm>

using namespace llvm;

namespace gradc {

Value Formula::emit(int at) {
  Step &step = steps[static_cast<size_t>(at)];
  if (!step.op || step.value.isValid()) return step.value;
  SmallVector<Value, 2> operands = {emit(step.left)};
  if (step.right >= 0) operands.push_back(emit(step.right));
  SmallVector<AttrText, 2> attrs;
  if (step.hasScalar) attrs.push_back({"scalar", rule.number(step.scalar)});
  return step.value = loop ? loop->emit(*step.op, operands, attrs)
                           : rule.emit(*step.op, operands, rule.context().attrs(ArrayRef<AttrText>(attrs)));
}

Value Term::value() const {
  assert(formula && "a formula depends on its operands");
  return formula->emit(step);
}

Term Term::combine(const Operators &operators, const Term &a, const Term &b) {
  if (!a.formula && !b.formula) return Term(operators.numbers(a.number, b.number));
  Formula &formula = a.formula ? *a.formula : *b.formula;
  if (!b.formula) return Term(formula, formula.add({operators.scalar, a.step, -1, b.number, true, Value()}));
  if (!a.formula && !operators.reversed) return combine(operators, apply(kZerosLike, b) + a.number, b);
  if (!a.formula) return Term(formula, formula.add({operators.reversed, b.step, -1, a.number, true, Value()}));
  const OpDef *op = formula.shapes == Formula::Shapes::Equal ? operators.equal : operators.broadcast;
  return Term(formula, formula.add({op, a.step, b.step, 0, false, Value()}));
}

Term operator+(const Term &a, const Term &b) {
  static constexpr Term::Operators kPlus = {&kElemwiseAdd, &kBroadcastAdd, &kPlusScalar, &kPlusScalar,
                                            [](double x, double y) { return x + y; }};
  return Term::combine(kPlus, a, b);
}
Term operator-(const Term &a, const Term &b) {
  static constexpr Term::Operators kMinus = {&kElemwiseSub, &kBroadcastSub, &kMinusScalar, &kRminusScalar,
                                             [](double x, double y) { return x - y; }};
  return Term::combine(kMinus, a, b);
}
Term operator*(const Term &a, const Term &b) {
  static constexpr Term::Operators kTimes = {&kElemwiseMul, &kBroadcastMul, &kMulScalar, &kMulScalar,
                                             [](double x, double y) { return x * y; }};
  return Term::combine(kTimes, a, b);
}
Term operator/(const Term &a, const Term &b) {
  static constexpr Term::Operators kOver = {&kElemwiseDiv, &kBroadcastDiv, &kDivScalar, &kRdivScalar,
                                            [](double x, double y) { return x / y; }};
  return Term::combine(kOver, a, b);
}
Term pow(const Term &a, const Term &b) {
  static constexpr Term::Operators kToThe = {&kPower, &kBroadcastPower, &kPowerScalar, &kRpowerScalar,
                                             [](double x, double y) { return std::pow(x, y); }};
  return Term::combine(kToThe, a, b);
}
Term greater(const Term &a, const Term &b) {
  static constexpr Term::Operators kIsGreater = {&kGreater, &kBroadcastGreater, &kGreaterScalar, &kLesserScalar,
                                                 [](double x, double y) { return x > y ? 1.0 : 0.0; }};
  return Term::combine(kIsGreater, a, b);
}

Term Term::apply(const OpDef &op, const Term &x, double (*ofNumber)(double)) {
  assert((x.formula || ofNumber) && "numbers are computed by functions of numbers");
  if (!x.formula) return Term(ofNumber(x.number));
  return Term(*x.formula, x.formula->add({&op, x.step, -1, 0, false, Value()}));
}

Term hypot(const Term &a, const Term &b) {
  static constexpr Term::Operators kLength = {&kHypot, &kBroadcastHypot, &kHypotScalar, &kHypotScalar,
                                              [](double x, double y) { return std::hypot(x, y); }};
  return Term::combine(kLength, a, b);
}
Term atan2(const Term &a, const Term &b) {
  static constexpr Term::Operators kAngle = {&kArctan2, &kArctan2, &kArctan2Scalar, &kRarctan2Scalar,
                                             [](double x, double y) { return std::atan2(x, y); }};
  return Term::combine(kAngle, a, b);
}
Term maximum(const Term &a, const Term &b) {
  static constexpr Term::Operators kLarger = {&kBroadcastMaximum, &kBroadcastMaximum, &kMaximumScalar, nullptr,
                                              [](double x, double y) { return std::max(x, y); }};
  return Term::combine(kLarger, a, b);
}
Term minimum(const Term &a, const Term &b) {
  static constexpr Term::Operators kSmaller = {&kBroadcastMinimum, &kBroadcastMinimum, &kMinimumScalar, nullptr,
                                               [](double x, double y) { return std::min(x, y); }};
  return Term::combine(kSmaller, a, b);
}

Term operator-(const Term &a) { return Term::apply(kNegative, a); }
Term abs(const Term &x) {
  return Term::apply(kAbs, x, [](double number) { return std::abs(number); });
}
Term sign(const Term &x) { return Term::apply(kSign, x); }
Term square(const Term &x) { return Term::apply(kSquare, x); }
Term reciprocal(const Term &x) { return Term::apply(kReciprocal, x); }
Term sqrt(const Term &x) { return Term::apply(kSqrt, x); }
Term cbrt(const Term &x) { return Term::apply(kCbrt, x); }
Term exp(const Term &x) { return Term::apply(kExp, x); }
Term log(const Term &x) { return Term::apply(kLog, x); }
Term log1p(const Term &x) { return Term::apply(kLog1p, x); }
Term expm1(const Term &x) { return Term::apply(kExpm1, x); }
Term sin(const Term &x) { return Term::apply(kSin, x); }
Term cos(const Term &x) { return Term::apply(kCos, x); }
Term sinh(const Term &x) { return Term::apply(kSinh, x); }
Term cosh(const Term &x) { return Term::apply(kCosh, x); }
Term tanh(const Term &x) { return Term::apply(kTanh, x); }
Term atan(const Term &x) { return Term::apply(kArctan, x); }
Term floor(const Term &x) { return Term::apply(kFloor, x); }
Term ceil(const Term &x) { return Term::apply(kCeil, x); }
Term round(const Term &x) { return Term::apply(kRound, x); }
Term sigmoid(const Term &x) { return Term::apply(kSigmoid, x); }
Term softsign(const Term &x) { return Term::apply(kSoftsign, x); }

}  // namespace gradc
