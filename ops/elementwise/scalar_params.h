// Shared by operators of a tensor and a number: the attribute `scalar`, and kernels from a function of element and
// number.
#pragma once

#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/loops.h"
#include "ops/kit/op_def.h"
#include "ops/kit/primitives.h"

#include <type_traits>

namespace gradc {

struct ScalarParams {
  double scalar;
  bool isInt;
};

inline constexpr AttrSpec kScalarAttrs[] = {
    attr<&ScalarParams::scalar>("scalar", "1.0", "the number, in float64 whatever the tensor's type"),
    attr<&ScalarParams::isInt>("is_int", "True",
                               "whether the number was written as an integer; False requires floating tensors"),
};

/// Type function of these operators. MXNet computes in float64 if the data are integers and the number was not written
/// as one. That is refused here, because the number would be truncated to the data's type.
inline void scalarType(DTypeInference &t) {
  t.sameAll();
  if (t.hasFailed() || t.in(0) == DType::Unknown || isFloating(t.in(0)) || t.params<ScalarParams>().isInt) return;
  t.fail("is_int is False and data is " + dtypeName(t.in(0)) + "; cast the data to a floating type first");
}

namespace detail {

template <class T, auto F> void mapWithScalar(const KernelCall &call) {
  const T scalar = convertNumber<T>(call.params<ScalarParams>().scalar);
  const T *a = call.in[0].as<const T>();
  T *out = call.out[0].as<T>();
  const int64_t size = call.out[0].size();
  if constexpr (std::is_invocable_v<decltype(F), T, T>) {
    forElements<T>(size, [=](int64_t i) { out[i] = static_cast<T>(F(a[i], scalar)); });
  } else {
    const T *b = call.in[1].as<const T>();
    forElements<T>(size, [=](int64_t i) { out[i] = static_cast<T>(F(a[i], b[i], scalar)); });
  }
}

}  // namespace detail

/// `names`: the name and its aliases. The caller adds kernel and rules.
constexpr OpDef scalarOp(NameList names, llvm::StringRef summary, NameList inputs) {
  OpDef op = named(names, summary);
  op.inputs = {inputs};
  op.attrs = kScalarAttrs;
  op.params = paramsOf<ScalarParams>();
  op.shape = shapes::same;
  op.dtype = scalarType;
  op.inplace = kInplaceFirst;
  op.flags.isElementwise = true;
  return op;
}

inline llvm::StringRef scalarText(RuleContext &r) { return r.number(r.params<ScalarParams>().scalar); }

/// The number as a tensor like x.
inline Value numberLike(DecomposeRule &d, Value x) {
  return d.emit(kPlusScalar, {d.emit(kZerosLike, {x})}, {{"scalar", scalarText(d)}});
}

/// A number, by default the node's, as a tensor without axes, in the type of x.
inline Value numberOf(DecomposeRule &d, Value x, llvm::StringRef text) {
  const std::string values = ("(" + text + ",)").str();
  const Value number = d.emit(kConstant, {}, {{"dtype", "float64"}, {"shape", "()"}, {"values", values}});
  return d.emit(kCastLike, {number, x});
}
inline Value numberOf(DecomposeRule &d, Value x) { return numberOf(d, x, scalarText(d)); }
/// y = Op(x, scalar) and y = Op(scalar, x), by an operator that broadcasts.
template <const OpDef &Op> void broadcastNumber(DecomposeRule &d) { d.y(0, d.emit(Op, {d.x(0), numberOf(d, d.x(0))})); }
template <const OpDef &Op> void broadcastNumberFirst(DecomposeRule &d) {
  d.y(0, d.emit(Op, {numberOf(d, d.x(0)), d.x(0)}));
}

/// output = F(input 0[, input 1], scalar).
template <auto F> void scalarNumeric(const KernelCall &call) {
  if (call.wants(0))
    dispatchNumeric(call.out[0].dtype, [&](auto zero) { detail::mapWithScalar<decltype(zero), F>(call); });
}
template <auto F> void scalarFloating(const KernelCall &call) {
  if (call.wants(0))
    dispatchFloating(call.out[0].dtype, [&](auto zero) { detail::mapWithScalar<decltype(zero), F>(call); });
}

}  // namespace gradc
