// Functions that complete an OpDef which a maker returned: `withDecomposition(comparison(…), rule)`.
#pragma once

#include "ir/op/op.h"

namespace gradc {

constexpr OpDef asPrimitive(OpDef op, Primitive primitive) {
  op.primitive = primitive;
  return op;
}

constexpr OpDef withDecomposition(OpDef op, void (*decompose)(DecomposeRule &)) {
  op.decompose = decompose;
  return op;
}

}  // namespace gradc
