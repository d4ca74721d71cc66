// What definitions of operators of all families use: in-place pairs, and functions that complete an OpDef, as in
// `withDecomposition(comparison(…), rule)` and `asMovement({.name = "take", …})`.
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// Which output may take over the memory of which input.
inline constexpr InplacePair kInplaceFirst[] = {{0, 0}};
inline constexpr InplacePair kInplaceEither[] = {{0, 0}, {1, 0}};
inline constexpr InplacePair kInplaceIdentity[] = {{0, 0, true}};

/// `names`: the name and its aliases.
constexpr OpDef named(NameList names, llvm::StringRef summary) {
  OpDef op;
  op.name = names.names[0];
  op.aliases = NameList(names.names + 1, names.count - 1);
  op.summary = summary;
  return op;
}

/// Outputs hold elements of inputs, of whatever type.
constexpr OpDef asMovement(OpDef op) {
  op.flags.movesElements = true;
  op.kernelTypes = kFloatingAndIntegers;
  return op;
}
constexpr OpDef asMovementOfData(OpDef op) {
  op.inputs = {"data"};
  return asMovement(op);
}

/// Linear in the first input; of the second only the shape or the type is used. dx = Adjoint(dy, x).
template <const OpDef &Adjoint> constexpr OpDef linearInFirst(OpDef op) {
  op.ignored = {1};
  op.stopped = {1};
  op.gradient = [](GradRule &g) {
    g.dx(0, g.emit(Adjoint, {g.dy(0), g.x(0)}));
    g.noGrad(1);
  };
  return op;
}

constexpr OpDef asPrimitive(OpDef op, Primitive primitive) {
  op.primitive = primitive;
  return op;
}

constexpr OpDef withDecomposition(OpDef op, void (*decompose)(DecomposeRule &)) {
  op.decompose = decompose;
  return op;
}

}  // namespace gradc
