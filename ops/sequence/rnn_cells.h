// One step of a recurrent layer, written once: on numbers it is the kernel's, on the terms of a decomposition it emits
// operators. For each mode there is a step and its slope; directions and layers share them.
//
// A cell receives the gates' shares of the input, W·x + b, and of the state, W·h + b, separately, because gru
// multiplies one of the latter before adding them. A projection is applied to the output later. Step and slope are
// functions of the point and the gates; a kernel may keep the gates from one to the other.
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

/// The kind of cell, and the bounds of an lstm cell.
struct CellRules {
  RnnMode mode;
  std::optional<double> clipMin, clipMax;  // both or none
  bool clipNan = false;                    // NaN becomes clipMin

  /// Whether the formula has pieces; the number that `selectorOf` computes selects one.
  bool isPiecewise() const { return mode == RnnMode::Relu || clipMin; }
};

template <class A> struct CellPoint {
  A x[kMaxGates] = {0, 0, 0, 0}, h[kMaxGates] = {0, 0, 0, 0};
  A state = 0, cell = 0;
  A at = 0;  // selects the piece; outside gradient checks the point's own selector
};
template <class A> struct CellResult {
  A state = 0, cell = 0;
};
/// Gradients of the members of a point.
template <class A> struct CellSlope {
  A x[kMaxGates] = {0, 0, 0, 0}, h[kMaxGates] = {0, 0, 0, 0};
  A state = 0, cell = 0;
};

inline double rectified(double x, double at) { return at <= 0 ? 0 : x; }
Term rectified(const Term &x, const Term &at);
inline double clipped(double x, double at, const CellRules &rules) {
  if (at < *rules.clipMin || (rules.clipNan && std::isnan(at))) return *rules.clipMin;
  return at > *rules.clipMax ? *rules.clipMax : x;
}
Term clipped(const Term &x, const Term &at, const CellRules &rules);
/// 1 where `clipped` leaves its argument unchanged, else 0.
template <class A> A isKept(const A &at, const CellRules &rules) {
  return (1 - greater(A(*rules.clipMin), at)) * (1 - greater(at, A(*rules.clipMax)));
}

/// h' = y = relu(a) or tanh(a), a = x + h
template <class A> struct PlainGates {
  A y;
  PlainGates(const CellRules &rules, const CellPoint<A> &p) : y(function(rules, p.x[0] + p.h[0], p.at)) {}
  explicit PlainGates(const A *kept) : y(kept[0]) {}
  void keep(A *to) const { to[0] = y; }

  CellResult<A> step(const CellRules &, const CellPoint<A> &) const { return {y, A(0)}; }
  CellSlope<A> slope(const CellRules &rules, const CellPoint<A> &p, const CellResult<A> &head) const {
    CellSlope<A> slope;
    if (rules.mode == RnnMode::Relu) slope.x[0] = greater(p.at, A(0)) * head.state;
    else slope.x[0] = head.state * (1 - y * y);
    slope.h[0] = slope.x[0];
    return slope;
  }
  /// The number that selects the piece: the sum that relu receives.
  static A selector(const CellRules &, const CellPoint<A> &p) { return p.x[0] + p.h[0]; }

 private:
  static A function(const CellRules &rules, const A &sum, const A &at) {
    using std::tanh;
    return rules.mode == RnnMode::Relu ? A(rectified(sum, at)) : A(tanh(sum));
  }
};

/// i, f, o = σ(a), g = tanh(a), a = x + h for each; c' = f·c + i·g; h' = o·tanh(c')
template <class A> struct LstmGates {
  A i, f, g, o;
  LstmGates(const CellRules &, const CellPoint<A> &p)
      : i(sigmoid(p.x[0] + p.h[0])), f(sigmoid(p.x[1] + p.h[1])), g(tangent(p.x[2] + p.h[2])),
        o(sigmoid(p.x[3] + p.h[3])) {}
  explicit LstmGates(const A *kept) : i(kept[0]), f(kept[1]), g(kept[2]), o(kept[3]) {}
  void keep(A *to) const { to[0] = i, to[1] = f, to[2] = g, to[3] = o; }

  A unclipped(const CellPoint<A> &p) const { return f * p.cell + i * g; }
  A cell(const CellRules &rules, const CellPoint<A> &p) const {
    return rules.clipMin ? A(clipped(unclipped(p), p.at, rules)) : unclipped(p);
  }
  CellResult<A> step(const CellRules &rules, const CellPoint<A> &p) const {
    const A next = cell(rules, p);
    return {o * tangent(next), next};
  }
  CellSlope<A> slope(const CellRules &rules, const CellPoint<A> &p, const CellResult<A> &head) const {
    const A shown = tangent(cell(rules, p));
    A dCell = head.cell + head.state * o * (1 - shown * shown);
    if (rules.clipMin) dCell = isKept(p.at, rules) * dCell;
    CellSlope<A> slope;
    slope.x[0] = dCell * g * i * (1 - i);
    slope.x[1] = dCell * p.cell * f * (1 - f);
    slope.x[2] = dCell * i * (1 - g * g);
    slope.x[3] = head.state * shown * o * (1 - o);
    for (int gate = 0; gate < 4; ++gate) slope.h[gate] = slope.x[gate];
    slope.cell = dCell * f;
    return slope;
  }
  /// The number that selects the piece: the cell before it is clipped.
  static A selector(const CellRules &rules, const CellPoint<A> &p) { return LstmGates(rules, p).unclipped(p); }

  static A tangent(const A &x) {
    using std::tanh;
    return tanh(x);
  }
};

/// r, z = σ(x + h) for each; n = tanh(x + r·h); h' = (1 − z)·n + z·h
template <class A> struct GruGates {
  A r, z, n;
  GruGates(const CellRules &, const CellPoint<A> &p)
      : r(sigmoid(p.x[0] + p.h[0])), z(sigmoid(p.x[1] + p.h[1])), n(LstmGates<A>::tangent(p.x[2] + r * p.h[2])) {}
  explicit GruGates(const A *kept) : r(kept[0]), z(kept[1]), n(kept[2]) {}
  void keep(A *to) const { to[0] = r, to[1] = z, to[2] = n; }

  CellResult<A> step(const CellRules &, const CellPoint<A> &p) const { return {(1 - z) * n + z * p.state, A(0)}; }
  CellSlope<A> slope(const CellRules &, const CellPoint<A> &p, const CellResult<A> &head) const {
    CellSlope<A> slope;
    slope.x[2] = head.state * (1 - z) * (1 - n * n);
    slope.h[2] = slope.x[2] * r;
    slope.x[0] = slope.h[0] = slope.x[2] * p.h[2] * r * (1 - r);
    slope.x[1] = slope.h[1] = head.state * (p.state - n) * z * (1 - z);
    slope.state = head.state * z;
    return slope;
  }
};

template <class A> CellResult<A> cellStep(const CellRules &rules, const CellPoint<A> &p) {
  if (rules.mode == RnnMode::Lstm) return LstmGates<A>(rules, p).step(rules, p);
  if (rules.mode == RnnMode::Gru) return GruGates<A>(rules, p).step(rules, p);
  return PlainGates<A>(rules, p).step(rules, p);
}
template <class A> CellSlope<A> cellSlope(const CellRules &rules, const CellPoint<A> &p, const CellResult<A> &head) {
  if (rules.mode == RnnMode::Lstm) return LstmGates<A>(rules, p).slope(rules, p, head);
  if (rules.mode == RnnMode::Gru) return GruGates<A>(rules, p).slope(rules, p, head);
  return PlainGates<A>(rules, p).slope(rules, p, head);
}
template <class A> A selectorOf(const CellRules &rules, const CellPoint<A> &p) {
  return rules.mode == RnnMode::Relu ? PlainGates<A>::selector(rules, p) : LstmGates<A>::selector(rules, p);
}

}  // namespace gradc
