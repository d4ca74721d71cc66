// Formulas written once: on numbers they are kernels, on the values of a decomposition they emit operators.
//
//   constexpr auto kSlope = [](auto dy, auto x) { return dy * cos(x); };
//   .decompose = byFormula<kSlope>, .kernel = mapFloating<kSlope>
//
// A formula is a captureless generic lambda. Its constants are integers, or `constant(x, 0.5)` in the type of x.
// Functions are those below, found by their names without `std::`. Tested by tests/ops/formula_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

#include "llvm/ADT/SmallVector.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace gradc {

class ScanBuilder;

/// The steps of the terms of one formula. They are emitted only at the end, left operands first, because C++ leaves the
/// order in which `f(x) * g(x)` calls f and g to the compiler.
class Formula {
 public:
  /// Operands of one shape, or operands that broadcast.
  enum class Shapes : uint8_t { Equal, Broadcast };

  Formula(RuleContext &rule, Shapes shapes) : rule(rule), shapes(shapes) {}
  /// Emits into the body of a loop.
  Formula(DecomposeRule &rule, ScanBuilder &loop, Shapes shapes) : rule(rule), loop(&loop), shapes(shapes) {}

 private:
  friend class Term;
  struct Step {
    const OpDef *op;  // null: an operand of the formula
    int left, right;  // steps before this one; none: -1
    double scalar;
    bool hasScalar;
    Value value;  // valid once it is emitted
  };

  int add(Step step) {
    steps.push_back(step);
    return static_cast<int>(steps.size()) - 1;
  }
  Value emit(int step);

  RuleContext &rule;
  ScanBuilder *loop = nullptr;
  Shapes shapes;
  llvm::SmallVector<Step, 16> steps;
};

/// A number, or a step of a formula.
class Term {
 public:
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  Term(N number) : number(static_cast<double>(number)) {}
  Term(Formula &formula, Value operand) : formula(&formula), step(formula.add({nullptr, -1, -1, 0, false, operand})) {}

  /// Emits the steps of the term; terms that share steps share nodes.
  Value value() const;

  /// op(x), of the same shape as x, which must not be a number unless `ofNumber` is the function of numbers.
  static Term apply(const OpDef &op, const Term &x, double (*ofNumber)(double) = nullptr);
  /// The forms of one function of two operands: two tensors of one shape, two that broadcast, a tensor and a number, a
  /// number and a tensor, two numbers. Without `reversed`, a number in front becomes a tensor.
  struct Operators {
    const OpDef *equal, *broadcast, *scalar, *reversed;
    double (*numbers)(double, double);
  };
  static Term combine(const Operators &operators, const Term &a, const Term &b);

 private:
  Term(Formula &formula, int step) : formula(&formula), step(step) {}

  Formula *formula = nullptr;  // null: a number
  int step = -1;
  double number = 0;
};

Term operator+(const Term &a, const Term &b);
Term operator-(const Term &a, const Term &b);
Term operator*(const Term &a, const Term &b);
Term operator/(const Term &a, const Term &b);
Term operator-(const Term &a);
Term pow(const Term &a, const Term &b);
Term greater(const Term &a, const Term &b);  // 1 where a > b, else 0
Term hypot(const Term &a, const Term &b);    // sqrt(a² + b²)
Term atan2(const Term &a, const Term &b);
// At ties the gradient goes to the first operand alone.
Term maximum(const Term &a, const Term &b);
Term minimum(const Term &a, const Term &b);
Term abs(const Term &x);
Term sign(const Term &x);
Term square(const Term &x);
Term reciprocal(const Term &x);
Term sqrt(const Term &x);
Term cbrt(const Term &x);
Term exp(const Term &x);
Term log(const Term &x);
Term log1p(const Term &x);
Term expm1(const Term &x);
Term sin(const Term &x);
Term cos(const Term &x);
Term sinh(const Term &x);
Term cosh(const Term &x);
Term tanh(const Term &x);
Term atan(const Term &x);
Term floor(const Term &x);
Term ceil(const Term &x);
Term round(const Term &x);
Term sigmoid(const Term &x);
Term softsign(const Term &x);  // x / (1 + |x|)

// The same names for numbers. Those of <cmath> come from `using std::…` where a formula uses them.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T square(T x) { return x * x; }
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T reciprocal(T x) { return 1 / x; }
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}
// Nothing overflows, so that what is below the normal numbers is not 0.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T sigmoid(T x) {
  const T e = std::exp(-std::abs(x)), numerator = x < 0 ? e : T(1);
  return numerator / (1 + e);
}
/// x / (1 + |x|), and its limits at the infinities.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T softsign(T x) {
  const T size = std::abs(x), inside = x / (1 + size), limit = std::copysign(T(1), x);
  return size == std::numeric_limits<T>::infinity() ? limit : inside;
}
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> T greater(T a, std::type_identity_t<T> b) {
  return a > b;
}

/// A constant that need not be an integer, in the type of the formula's operands.
template <class T> T constant(const T &, double number) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(number);
  else return T(number);
}

namespace detail {

template <auto F, size_t... I> Term callFormula(Formula &formula, DecomposeRule &d, std::index_sequence<I...>) {
  // Braces evaluate in order, so operands become steps in their order.
  const Term operands[] = {Term(formula, d.x(I))...};
  return F(operands[I]...);
}

template <auto F, size_t count = 1> constexpr size_t arity() {
  if constexpr (count == 1) {
    if constexpr (std::is_invocable_v<decltype(F), Term>) return 1;
    else return arity<F, 2>();
  } else if constexpr (count == 2) {
    if constexpr (std::is_invocable_v<decltype(F), Term, Term>) return 2;
    else return 3;
  }
}

}  // namespace detail

/// Output 0 = F of the inputs, all of one shape.
template <auto F> void byFormula(DecomposeRule &d) {
  Formula formula(d, Formula::Shapes::Equal);
  d.y(0, detail::callFormula<F>(formula, d, std::make_index_sequence<detail::arity<F>()>()).value());
}

}  // namespace gradc
