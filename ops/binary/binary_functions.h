// Makers of functions of two variables in all their forms: operands of one shape, operands that broadcast, an operand
// and the number in attribute `scalar`, the number first. A function is a type with formulas (formula.h):
//
//   struct Hypot {
//     static constexpr auto value = [](auto a, auto b) { return hypot(a, b); };
//     static constexpr auto left = [](auto dy, auto a, auto b) { return dy * (a / hypot(a, b)); };   // terms of da
//     static constexpr auto right = [](auto dy, auto a, auto b) { return dy * (b / hypot(a, b)); };  // terms of db
//   };
//
// A function whose `value` is also right for integers has the member `kHasIntegers`. A function that is smooth in
// pieces has `valuePiece`: the same with two more operands, a and b at the point that selects the piece. Its slopes are
// the same all over a piece, or, with `isTip`, smooth but for points at which all derivatives are 0 by definition.
// Gradient operators read dy and the operands, as MXNet's do. With `leftLeft`, `leftRight` and `rightRight`, formulas
// of a and b, the second derivatives are those, and not what differentiating `left` and `right` gives. Tested by
// tests/ops/elementwise_ops_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "ops/binary/broadcast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/formula.h"
#include "ops/elementwise/scalar_params.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"

#include <vector>

namespace gradc {

/// In formulas: 1 where x is 0, else 0. It is constant wherever it can be differentiated.
inline constexpr auto kIsZero = [](auto x) {
  using std::abs;
  return 1 - abs(sign(x));
};

struct BinaryForm {
  NameList names;  // the name and its aliases
  llvm::StringRef summary;
  llvm::ArrayRef<Domain> domains = {};
};

namespace detail {

template <class F> constexpr bool kHasPieces = requires { F::valuePiece; };
template <class F> constexpr bool kHasTips = requires { F::isTip; };
template <class F> constexpr bool kHasCurvature = requires { F::leftRight; };
template <class F> constexpr bool kHasIntegers = requires { F::kHasIntegers; };

constexpr OpDef binaryForm(const BinaryForm &form) {
  OpDef op = named(form.names, form.summary);
  op.domains = form.domains;
  return op;
}

constexpr OpDef scalarForm(const BinaryForm &form, NameList inputs) {
  OpDef op = scalarOp(form.names, form.summary, inputs);
  op.domains = form.domains;
  return op;
}

template <const OpDef &Backward> void readOperands(GradRule &g) {
  g.numInputs() == 1 ? g.fused(Backward, {g.dy(0), g.x(0)}) : g.fused(Backward, {g.dy(0), g.x(0), g.x(1)});
}

// Forms with a number decompose to those of two tensors, one of them constant.
template <const OpDef &Equal> void withNumberAsTensor(DecomposeRule &d) {
  d.y(0, d.emit(Equal, {d.x(0), numberLike(d, d.x(0))}));
}
template <const OpDef &Equal> void withNumberFirst(DecomposeRule &d) {
  d.y(0, d.emit(Equal, {numberLike(d, d.x(0)), d.x(0)}));
}

template <auto F> void termOfTensors(DecomposeRule &d, size_t output, bool sums) {
  Formula formula(d, sums ? Formula::Shapes::Broadcast : Formula::Shapes::Equal);
  const Term operands[] = {Term(formula, d.x(0)), Term(formula, d.x(1)), Term(formula, d.x(2))};
  const Value term = F(operands[0], operands[1], operands[2]).value();
  d.y(output, sums ? d.emit(kSumLike, {term, d.x(1 + output)}) : term);
}
template <class F, bool sums> void termsOfTensors(DecomposeRule &d) {
  if (d.wants(0)) termOfTensors<F::left>(d, 0, sums);
  if (d.wants(1)) termOfTensors<F::right>(d, 1, sums);
}

template <class F, bool isReversed> void termOfScalar(DecomposeRule &d) {
  Formula formula(d, Formula::Shapes::Equal);
  const Term dy(formula, d.x(0)), x(formula, d.x(1)), number(d.params<ScalarParams>().scalar);
  if constexpr (isReversed) d.y(0, F::right(dy, number, x).value());
  else d.y(0, F::left(dy, x, number).value());
}

/// Gradients of the gradient: of dlhs = left(dy, a, b) and drhs = right(dy, a, b), whose head gradients may be zero.
template <class F, bool sums> void curvatureOfTensors(GradRule &g) {
  if (g.isZero(0) && g.isZero(1)) {
    for (size_t i = 0; i < 3; ++i) g.noGrad(i);
    return;
  }
  Formula formula(g, sums ? Formula::Shapes::Broadcast : Formula::Shapes::Equal);
  const Term dy(formula, g.x(0)), a(formula, g.x(1)), b(formula, g.x(2));
  // The sum of what the two heads contribute, `toLeft` and `toRight` being functions of a head.
  auto total = [&](auto toLeft, auto toRight) {
    if (g.isZero(1)) return toLeft(Term(formula, g.dy(0))).value();
    if (g.isZero(0)) return toRight(Term(formula, g.dy(1))).value();
    return (toLeft(Term(formula, g.dy(0))) + toRight(Term(formula, g.dy(1)))).value();
  };
  auto give = [&](size_t input, Value v) { g.dx(input, sums ? g.emit(kSumLike, {v, g.x(input)}) : v); };
  if (g.wants(0))
    give(0, total([&](const Term &head) { return F::left(head, a, b); },
                  [&](const Term &head) { return F::right(head, a, b); }));
  if (g.wants(1))
    give(1, total([&](const Term &head) { return head * dy * F::leftLeft(a, b); },
                  [&](const Term &head) { return head * dy * F::leftRight(a, b); }));
  if (g.wants(2))
    give(2, total([&](const Term &head) { return head * dy * F::leftRight(a, b); },
                  [&](const Term &head) { return head * dy * F::rightRight(a, b); }));
}

template <class F, bool isReversed> void curvatureOfScalar(GradRule &g) {
  Formula formula(g, Formula::Shapes::Equal);
  const Term head(formula, g.dy(0)), dy(formula, g.x(0)), x(formula, g.x(1)), number(g.params<ScalarParams>().scalar);
  if constexpr (isReversed) {
    if (g.wants(0)) g.dx(0, F::right(head, number, x).value());
    if (g.wants(1)) g.dx(1, (head * dy * F::rightRight(number, x)).value());
  } else {
    if (g.wants(0)) g.dx(0, F::left(head, x, number).value());
    if (g.wants(1)) g.dx(1, (head * dy * F::leftLeft(x, number)).value());
  }
}

template <class F> void valuePiece(const PieceCall &call) {
  const TensorRef operands[] = {call.in[0], call.in[1], call.base[0], call.base[1]};
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(call.out[0], operands, [](const T *v) -> T { return F::valuePiece(v[0], v[1], v[2], v[3]); });
  });
}

// Gradients are linear in dy: where slopes are 0, dy may be. Otherwise only the operands are held at the base point.
template <class F> void gradientPiece(const PieceCall &call) {
  llvm::SmallVector<TensorRef, 3> in(call.base.begin(), call.base.end());
  in[0] = call.in[0];
  std::vector<char> storage;
  if constexpr (kHasTips<F>) {
    in.assign(call.in.begin(), call.in.end());
    storage.resize(in[0].bytes());
    in[0].data = storage.data();
    dispatchFloating(in[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const TensorRef operands[] = {call.in[0], call.base[1], call.base[2]};
      mapBroadcast<T>(in[0], operands, [](const T *v) { return F::isTip(v[1], v[2]) ? T(0) : v[0]; });
    });
  }
  runOnInputs(call, in);
}

template <class F, bool isReversed, bool isGradient> void scalarPiece(const PieceCall &call) {
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T s = convertNumber<T>(call.params<ScalarParams>().scalar);
    const T *first = call.in[0].as<const T>(), *base = call.base.back().as<const T>();
    [[maybe_unused]] const T *x = call.in.back().as<const T>();
    T *to = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) {
      if constexpr (isGradient && kHasTips<F>) {
        if (isReversed) to[i] = F::isTip(s, base[i]) ? T(0) : F::right(first[i], s, x[i]);
        else to[i] = F::isTip(base[i], s) ? T(0) : F::left(first[i], x[i], s);
      } else if constexpr (isGradient && isReversed) to[i] = F::right(first[i], s, base[i]);
      else if constexpr (isGradient) to[i] = F::left(first[i], base[i], s);
      else if constexpr (isReversed) to[i] = F::valuePiece(s, first[i], s, base[i]);
      else to[i] = F::valuePiece(first[i], s, base[i], s);
    }
  });
}

}  // namespace detail

/// y = F(lhs, rhs) with broadcasting. The caller adds `withDecomposition` or `asPrimitive`.
template <class F, const OpDef &Backward> constexpr OpDef broadcastForm(BinaryForm form) {
  OpDef op = asBroadcast(detail::binaryForm(form));
  op.gradient = detail::readOperands<Backward>;
  if constexpr (detail::kHasIntegers<F>) op.kernel = broadcastKernel<F::value>;
  else op.kernel = broadcastFloatingKernel<F::value>;
  if constexpr (detail::kHasIntegers<F>) op.kernelTypes = kFloatingAndIntegers;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::valuePiece<F>;
  return op;
}

/// y = F(lhs, rhs) for operands of one shape.
template <class F, const OpDef &Backward, const OpDef &Broadcast> constexpr OpDef equalForm(BinaryForm form) {
  OpDef op = asEqualShapes(detail::binaryForm(form));
  op.gradient = detail::readOperands<Backward>;
  op.decompose = [](DecomposeRule &d) { d.y(0, d.emit(Broadcast, {d.x(0), d.x(1)})); };
  if constexpr (detail::kHasIntegers<F>) op.kernel = mapNumeric<F::value>;
  else op.kernel = mapFloating<F::value>;
  if constexpr (detail::kHasIntegers<F>) op.kernelTypes = kFloatingAndIntegers;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::valuePiece<F>;
  return op;
}

/// y = F(x, scalar).
template <class F, const OpDef &Backward, const OpDef &Equal> constexpr OpDef scalarForm(BinaryForm form) {
  OpDef op = detail::scalarForm(form, {"data"});
  op.gradient = detail::readOperands<Backward>;
  op.decompose = detail::withNumberAsTensor<Equal>;
  if constexpr (detail::kHasIntegers<F>) op.kernel = scalarNumeric<F::value>;
  else op.kernel = scalarFloating<F::value>;
  if constexpr (detail::kHasIntegers<F>) op.kernelTypes = kFloatingAndIntegers;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::scalarPiece<F, false, false>;
  return op;
}

/// y = F(scalar, x).
template <class F, const OpDef &Backward, const OpDef &Equal> constexpr OpDef reversedForm(BinaryForm form) {
  OpDef op = detail::scalarForm(form, {"data"});
  op.gradient = detail::readOperands<Backward>;
  op.decompose = detail::withNumberFirst<Equal>;
  constexpr auto reversed = [](auto x, auto s) { return F::value(s, x); };
  if constexpr (detail::kHasIntegers<F>) op.kernel = scalarNumeric<reversed>;
  else op.kernel = scalarFloating<reversed>;
  if constexpr (detail::kHasIntegers<F>) op.kernelTypes = kFloatingAndIntegers;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::scalarPiece<F, true, false>;
  return op;
}

/// dlhs = F's left terms, drhs = its right ones, each summed over the axes along which the operand was repeated.
template <class F> constexpr OpDef broadcastGradient(BinaryForm form) {
  OpDef op = asBroadcastGradient(detail::binaryForm(form));
  if constexpr (detail::kHasCurvature<F>) op.gradient = detail::curvatureOfTensors<F, true>;
  op.decompose = detail::termsOfTensors<F, true>;
  op.kernel = broadcastBackwardKernel<[](auto v) { return F::left(v[0], v[1], v[2]); },
                                      [](auto v) { return F::right(v[0], v[1], v[2]); }>;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::gradientPiece<F>;
  return op;
}

template <class F> constexpr OpDef equalGradient(BinaryForm form) {
  OpDef op = asEqualShapesGradient(detail::binaryForm(form));
  if constexpr (detail::kHasCurvature<F>) op.gradient = detail::curvatureOfTensors<F, false>;
  op.decompose = detail::termsOfTensors<F, false>;
  op.kernel = mapTwoFloating<F::left, F::right>;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::gradientPiece<F>;
  return op;
}

template <class F> constexpr OpDef scalarGradient(BinaryForm form) {
  OpDef op = detail::scalarForm(form, {"dy", "x"});
  op.flags.isBackward = true;
  if constexpr (detail::kHasCurvature<F>) op.gradient = detail::curvatureOfScalar<F, false>;
  op.decompose = detail::termOfScalar<F, false>;
  op.kernel = scalarFloating<F::left>;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::scalarPiece<F, false, true>;
  return op;
}

template <class F> constexpr OpDef reversedGradient(BinaryForm form) {
  OpDef op = detail::scalarForm(form, {"dy", "x"});
  op.flags.isBackward = true;
  if constexpr (detail::kHasCurvature<F>) op.gradient = detail::curvatureOfScalar<F, true>;
  op.decompose = detail::termOfScalar<F, true>;
  op.kernel = scalarFloating<[](auto dy, auto x, auto s) { return F::right(dy, s, x); }>;
  if constexpr (detail::kHasPieces<F>) op.piece = detail::scalarPiece<F, true, true>;
  return op;
}

}  // namespace gradc
