// Arithmetic on jets, and the functions of one variable. Tested by tests/networks/differential_test.cc
#pragma once

#include "tests/support/drawn/jets.h"

#include <cmath>

namespace gradc::testing {

// f(x) from f, f' and f'' at x. The bounds include the effect of an error of x.
inline Jet chain(const Jet &x, double f, double f1, double f2) {
  Jet y(f);
  y.d1 = f1 * x.d1, y.d2 = f1 * x.d2;
  y.d12 = f2 * x.d1 * x.d2 + f1 * x.d12;
  const double slack = 1e-3, curve = std::abs(f2) + slack, slope = std::abs(f1) + curve * x.bv;
  y.bv = std::abs(f) + (std::abs(f1) + slack) * x.bv;
  y.b1 = slope * x.b1, y.b2 = slope * x.b2;
  y.b12 = curve * (1 + x.bv) * x.b1 * x.b2 + slope * x.b12;
  return y;
}

inline Jet operator+(const Jet &a, const Jet &b) {
  Jet y(a.v + b.v);
  y.d1 = a.d1 + b.d1, y.d2 = a.d2 + b.d2, y.d12 = a.d12 + b.d12;
  y.bv = a.bv + b.bv, y.b1 = a.b1 + b.b1, y.b2 = a.b2 + b.b2, y.b12 = a.b12 + b.b12;
  return y;
}

inline Jet operator*(const Jet &a, const Jet &b) {
  Jet y(a.v * b.v);
  y.d1 = a.v * b.d1 + a.d1 * b.v, y.d2 = a.v * b.d2 + a.d2 * b.v;
  y.d12 = a.v * b.d12 + a.d1 * b.d2 + a.d2 * b.d1 + a.d12 * b.v;
  y.bv = a.bv * b.bv, y.b1 = a.bv * b.b1 + a.b1 * b.bv, y.b2 = a.bv * b.b2 + a.b2 * b.bv;
  y.b12 = a.bv * b.b12 + a.b1 * b.b2 + a.b2 * b.b1 + a.b12 * b.bv;
  return y;
}

inline Jet exponential(const Jet &x) { return chain(x, std::exp(x.v), std::exp(x.v), std::exp(x.v)); }
inline Jet logarithm(const Jet &x) { return chain(x, std::log(x.v), 1 / x.v, -1 / (x.v * x.v)); }
inline Jet inverse(const Jet &x) { return chain(x, 1 / x.v, -1 / (x.v * x.v), 2 / (x.v * x.v * x.v)); }
inline Jet minus(const Jet &a, const Jet &b) { return a + b * Jet(-1); }

/// Applies the function of one variable of this name, element by element; false if there is none. `outputs` stays empty
/// near a kink or a pole.
bool mapFunction(const SketchNode &node, const JetTensor &x, std::vector<JetTensor> &outputs);

}  // namespace gradc::testing
