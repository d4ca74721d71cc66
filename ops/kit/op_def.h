// What definitions of operators of all families use: in-place pairs, and functions that complete an OpDef which a maker
// returned, as in `withDecomposition(comparison(…), rule)`.
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Which output may take over the memory of which input.
inline constexpr InplacePair kInplaceFirst[] = {{0, 0}};
inline constexpr InplacePair kInplaceEither[] = {{0, 0}, {1, 0}};
inline constexpr InplacePair kInplaceIdentity[] = {{0, 0, true}};

constexpr OpDef asPrimitive(OpDef op, Primitive primitive) {
  op.primitive = primitive;
  return op;
}

constexpr OpDef withDecomposition(OpDef op, void (*decompose)(DecomposeRule &)) {
  op.decompose = decompose;
  return op;
}

}  // namespace gradc
