// Loops shared by the element-by-element families: `f` applied to the elements of one, two or three operands of one
// shape. `f` is a captureless generic lambda, so each kernel is one plain function.
//
//   .kernel = mapFloating<[](auto x) { return std::exp(x); }>
//
// Not for operands of different shapes (ops/binary/broadcast.cc) nor for functions of attributes
// (ops/elementwise/scalar.cc). Tested by tests/ops/elementwise_ops_test.cc
#pragma once

#include "ir/base/number.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/loops.h"
#include "ops/kit/op_def.h"

#include <cstring>
#include <type_traits>

namespace gradc {

/// y = f(data), element by element; y may take the memory of data.
constexpr OpDef asFunction(OpDef op) {
  op.inputs = {"data"};
  op.shape = shapes::same;
  op.inplace = kInplaceFirst;
  op.flags.isElementwise = true;
  return op;
}
/// dx = f(dy, x or y), likewise.
constexpr OpDef asSlope(OpDef op) {
  op.shape = shapes::same;
  op.inplace = kInplaceFirst;
  op.flags.isBackward = true;
  op.flags.isElementwise = true;
  return op;
}
/// y = f(lhs, rhs), operands of one shape.
constexpr OpDef asEqualShapes(OpDef op) {
  op.inputs = {"lhs", "rhs"};
  op.shape = shapes::same;
  op.inplace = kInplaceEither;
  op.flags.isElementwise = true;
  return op;
}
/// The two gradients of such a function.
constexpr OpDef asEqualShapesGradient(OpDef op) {
  op.inputs = {"dy", "lhs", "rhs"};
  op.outputs = {"dlhs", "drhs"};
  return asSlope(op);
}

namespace detail {

template <class T, auto F> void mapElements(const TensorRef &out, llvm::ArrayRef<TensorRef> in) {
  T *to = out.as<T>();
  const int64_t size = out.size();
  const T *a = in[0].as<const T>();
  if constexpr (std::is_invocable_v<decltype(F), T>) {
    forElements<T>(size, [=](int64_t i) { to[i] = static_cast<T>(F(a[i])); });
  } else if constexpr (std::is_invocable_v<decltype(F), T, T>) {
    const T *b = in[1].as<const T>();
    forElements<T>(size, [=](int64_t i) { to[i] = static_cast<T>(F(a[i], b[i])); });
  } else {
    const T *b = in[1].as<const T>(), *c = in[2].as<const T>();
    forElements<T>(size, [=](int64_t i) { to[i] = static_cast<T>(F(a[i], b[i], c[i])); });
  }
}

}  // namespace detail

/// output 0 = F(input 0[, input 1[, input 2]]) for floating types.
template <auto F> void mapFloating(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) { detail::mapElements<decltype(zero), F>(call.out[0], call.in); });
}

/// The same for every numeric type.
template <auto F> void mapNumeric(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) { detail::mapElements<decltype(zero), F>(call.out[0], call.in); });
}

/// Output k = Fk of the same operands, k = 0, 1: fused backward operators of binary operators.
template <auto F0, auto F1> void mapTwoFloating(const KernelCall &call) {
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t size = call.in[0].size();
    const T *dy = call.in[0].as<const T>(), *a = call.in[1].as<const T>(), *b = call.in[2].as<const T>();
    T *da = call.wants(0) ? call.out[0].as<T>() : nullptr, *db = call.wants(1) ? call.out[1].as<T>() : nullptr;
    if (da && db)
      forElements<T>(size, [=](int64_t i) {
        // Both are computed before either is stored: an output may share the memory of an input.
        const T first = F0(dy[i], a[i], b[i]), second = F1(dy[i], a[i], b[i]);
        da[i] = first;
        db[i] = second;
      });
    else if (da) forElements<T>(size, [=](int64_t i) { da[i] = F0(dy[i], a[i], b[i]); });
    else if (db) forElements<T>(size, [=](int64_t i) { db[i] = F1(dy[i], a[i], b[i]); });
  });
}

/// Piece kernel: F(x, x at the base point), element by element; F decides the piece by its second argument.
template <auto F> void mapPiece(const PieceCall &call) {
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    const TensorRef operands[] = {call.in[0], call.base[0]};
    detail::mapElements<decltype(zero), F>(call.out[0], operands);
  });
}

/// dx = F(dy, v, v at the base point): pieces of backward operators (dy, x or y).
template <auto F> void mapBackwardPiece(const PieceCall &call) {
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    const TensorRef operands[] = {call.in[0], call.in[1], call.base[1]};
    detail::mapElements<decltype(zero), F>(call.out[0], operands);
  });
}

/// Output 0 = zeros.
inline void writeZeros(const KernelCall &call) {
  if (call.wants(0)) std::memset(call.out[0].data, 0, call.out[0].bytes());
}

/// Output 0 = the bytes of input 0, in whatever shape.
inline void copyBytes(const KernelCall &call) {
  if (call.wants(0) && call.out[0].data != call.in[0].data)
    std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
}

}  // namespace gradc
