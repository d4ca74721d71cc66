// The one list of operator families.
#pragma once

#include "ir/context.h"
#include "ir/row_ops.h"

namespace gradc {

/// Registers every built-in operator and the well-known ones with `registry`. Call once per Context, before any graph.
void registerBuiltinOps(OpRegistry &registry);

/// What unrolling makes the rows of a loop of, among the built-in operators.
RowOps builtinRowOps();

}  // namespace gradc
