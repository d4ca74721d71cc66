// Arithmetic on dimensions that cannot wrap around.
//
// Shape functions compute with Dim and pass `inShape()` to setIn and setOut. A result beyond 64 bits is *endless*; it
// stays so in sums, products and as a dividend, and becomes kBadDim, which no shape can contain. Unknown dimensions are
// not Dims: a shape function tests for kUnknownDim first. Tested by tests/ir/shape_test.cc
#pragma once

#include "ir/tensor/shape.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <limits>

namespace gradc {

class Dim {
 public:
  /// The ends of the 64-bit range count as endless, so that a negated Dim is a Dim.
  constexpr Dim(int64_t value) : value(value < -kEndless ? -kEndless : value) {}

  constexpr bool isEndless() const { return value == kEndless || value == -kEndless; }
  /// The dimension to put into a shape: kBadDim for a negative number or one that no shape can contain.
  constexpr int64_t inShape() const { return value < 0 || value > kMaxElements ? kBadDim : value; }
  /// For messages and for results known to fit: the number, or the nearest 64-bit one.
  constexpr int64_t nearest() const { return value; }

  /// Endless is larger (or, negative, smaller) than every number.
  friend constexpr bool operator==(Dim, Dim) = default;
  friend constexpr auto operator<=>(Dim, Dim) = default;

  friend constexpr Dim operator-(Dim a) { return Dim(-a.value); }
  friend constexpr Dim operator+(Dim a, Dim b) {
    if (a.isEndless() || b.isEndless()) return a.isEndless() ? a : b;
    int64_t sum;
    return __builtin_add_overflow(a.value, b.value, &sum) ? endless(a.value < 0) : Dim(sum);
  }
  friend constexpr Dim operator-(Dim a, Dim b) { return a + -b; }
  friend constexpr Dim operator*(Dim a, Dim b) {
    const bool isNegative = (a.value < 0) != (b.value < 0);
    int64_t product;
    if (a.isEndless() || b.isEndless() || __builtin_mul_overflow(a.value, b.value, &product))
      return endless(isNegative);
    return Dim(product);
  }
  /// Rounded towards zero; the divisor is not 0.
  friend constexpr Dim operator/(Dim a, Dim b) {
    assert(b.value != 0);
    return a.isEndless() ? endless((a.value < 0) != (b.value < 0)) : Dim(a.value / b.value);
  }

 private:
  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();
  static constexpr Dim endless(bool isNegative) { return Dim(isNegative ? -kEndless : kEndless); }

  int64_t value;
};

/// a / b rounded up, for a >= 0 and b > 0.
constexpr Dim ceilDiv(Dim a, Dim b) {
  assert(a >= 0 && b > 0);
  return a.isEndless() ? a : Dim(a.nearest() / b.nearest() + (a.nearest() % b.nearest() != 0));
}

/// Product of known dimensions; endless where it does not fit, 0 where one of them is 0.
inline Dim productOf(Dims dims) {
  if (llvm::is_contained(dims, 0)) return 0;
  Dim product = 1;
  for (int64_t dim : dims) product = product * dim;
  return product;
}

}  // namespace gradc
