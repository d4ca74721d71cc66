// One step of a recurrent layer, written once: on numbers it is the kernel's, on the terms of a decomposition it emits
// operators. For each mode there is a step and its slope; directions and layers share them.
//
// A cell receives the gates' shares of the input, W·x + b, and of the state, W·h + b: gru multiplies one of the latter
// before they are added. What a projection does to the output comes after.
#pragma once

#include "ops/elementwise/formula.h"

#include <optional>

namespace gradc {

enum class RnnMode : uint8_t { Relu, Tanh, Lstm, Gru };
inline constexpr llvm::StringRef kRnnModeNames[] = {"rnn_relu", "rnn_tanh", "lstm", "gru"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(RnnMode) { return kRnnModeNames; }

inline constexpr int kMaxGates = 4;
constexpr int64_t numGates(RnnMode mode) {
  if (mode == RnnMode::Lstm) return 4;
  return mode == RnnMode::Gru ? 3 : 1;
}

/// How a cell of lstm is kept within bounds, and which function it is.
struct CellRules {
  RnnMode mode;
  std::optional<double> clipMin, clipMax;  // both or none
  bool clipNan = false;                    // NaN becomes clipMin

  /// Which formula holds depends on the sign or size of a number, which `selectorOf` computes.
  bool isPiecewise() const { return mode == RnnMode::Relu || clipMin; }
};

template <class A> struct CellPoint {
  A x[kMaxGates] = {0, 0, 0, 0}, h[kMaxGates] = {0, 0, 0, 0};
  A state = 0, cell = 0;
  A at = 0;  // the selector that decides the piece; outside gradient checks the point's own
};
template <class A> struct CellResult {
  A state = 0, cell = 0;
};
/// Gradients of what the point consists of.
template <class A> struct CellSlope {
  A x[kMaxGates] = {0, 0, 0, 0}, h[kMaxGates] = {0, 0, 0, 0};
  A state = 0, cell = 0;
};

inline double rectified(double x, double at) { return at <= 0 ? 0 : x; }
Term rectified(const Term &x, const Term &at);
double clipped(double x, double at, const CellRules &rules);
Term clipped(const Term &x, const Term &at, const CellRules &rules);
/// 1 where `clipped` keeps what it is given, else 0.
template <class A> A isKept(const A &at, const CellRules &rules) {
  return (1 - greater(A(*rules.clipMin), at)) * (1 - greater(at, A(*rules.clipMax)));
}

/// h' = relu(a) or tanh(a), a = x + h
template <class A> CellResult<A> plainStep(const CellRules &rules, const CellPoint<A> &p) {
  using std::tanh;
  const A sum = p.x[0] + p.h[0];
  return {rules.mode == RnnMode::Relu ? A(rectified(sum, p.at)) : A(tanh(sum)), A(0)};
}
template <class A> CellSlope<A> plainSlope(const CellRules &rules, const CellPoint<A> &p, const CellResult<A> &head) {
  using std::tanh;
  CellSlope<A> slope;
  if (rules.mode == RnnMode::Relu) {
    slope.x[0] = greater(p.at, A(0)) * head.state;
  } else {
    const A y = tanh(p.x[0] + p.h[0]);
    slope.x[0] = head.state * (1 - y * y);
  }
  slope.h[0] = slope.x[0];
  return slope;
}

/// i, f, o = σ(a), g = tanh(a), a = x + h for each; c' = f·c + i·g; h' = o·tanh(c')
template <class A> struct LstmGates {
  A i, f, g, o;
  explicit LstmGates(const CellPoint<A> &p)
      : i(sigmoid(p.x[0] + p.h[0])), f(sigmoid(p.x[1] + p.h[1])), g(tangent(p.x[2] + p.h[2])),
        o(sigmoid(p.x[3] + p.h[3])) {}
  A unclipped(const CellPoint<A> &p) const { return f * p.cell + i * g; }
  A cell(const CellRules &rules, const CellPoint<A> &p) const {
    return rules.clipMin ? A(clipped(unclipped(p), p.at, rules)) : unclipped(p);
  }

  static A tangent(const A &x) {
    using std::tanh;
    return tanh(x);
  }
};
template <class A> CellResult<A> lstmStep(const CellRules &rules, const CellPoint<A> &p) {
  const LstmGates<A> gates(p);
  const A cell = gates.cell(rules, p);
  return {gates.o * LstmGates<A>::tangent(cell), cell};
}
template <class A> CellSlope<A> lstmSlope(const CellRules &rules, const CellPoint<A> &p, const CellResult<A> &head) {
  const LstmGates<A> gates(p);
  const A shown = LstmGates<A>::tangent(gates.cell(rules, p));
  A dCell = head.cell + head.state * gates.o * (1 - shown * shown);
  if (rules.clipMin) dCell = isKept(p.at, rules) * dCell;
  CellSlope<A> slope;
  slope.x[0] = dCell * gates.g * gates.i * (1 - gates.i);
  slope.x[1] = dCell * p.cell * gates.f * (1 - gates.f);
  slope.x[2] = dCell * gates.i * (1 - gates.g * gates.g);
  slope.x[3] = head.state * shown * gates.o * (1 - gates.o);
  for (int g = 0; g < 4; ++g) slope.h[g] = slope.x[g];
  slope.cell = dCell * gates.f;
  return slope;
}

/// r, z = σ(x + h) for each; n = tanh(x + r·h); h' = (1 − z)·n + z·h
template <class A> struct GruGates {
  A r, z, n;
  explicit GruGates(const CellPoint<A> &p)
      : r(sigmoid(p.x[0] + p.h[0])), z(sigmoid(p.x[1] + p.h[1])), n(LstmGates<A>::tangent(p.x[2] + r * p.h[2])) {}
};
template <class A> CellResult<A> gruStep(const CellPoint<A> &p) {
  const GruGates<A> gates(p);
  return {(1 - gates.z) * gates.n + gates.z * p.state, A(0)};
}
template <class A> CellSlope<A> gruSlope(const CellPoint<A> &p, const CellResult<A> &head) {
  const GruGates<A> gates(p);
  CellSlope<A> slope;
  slope.x[2] = head.state * (1 - gates.z) * (1 - gates.n * gates.n);
  slope.h[2] = slope.x[2] * gates.r;
  slope.x[0] = slope.h[0] = slope.x[2] * p.h[2] * gates.r * (1 - gates.r);
  slope.x[1] = slope.h[1] = head.state * (p.state - gates.n) * gates.z * (1 - gates.z);
  slope.state = head.state * gates.z;
  return slope;
}

template <class A> CellResult<A> cellStep(const CellRules &rules, const CellPoint<A> &p) {
  if (rules.mode == RnnMode::Lstm) return lstmStep(rules, p);
  return rules.mode == RnnMode::Gru ? gruStep(p) : plainStep(rules, p);
}
template <class A> CellSlope<A> cellSlope(const CellRules &rules, const CellPoint<A> &p, const CellResult<A> &head) {
  if (rules.mode == RnnMode::Lstm) return lstmSlope(rules, p, head);
  return rules.mode == RnnMode::Gru ? gruSlope(p, head) : plainSlope(rules, p, head);
}

/// What decides the piece: the sum that relu receives, the cell before it is clipped.
template <class A> A selectorOf(const CellRules &rules, const CellPoint<A> &p) {
  return rules.mode == RnnMode::Relu ? p.x[0] + p.h[0] : LstmGates<A>(p).unclipped(p);
}

}  // namespace gradc
