// The one list of operator families.
#pragma once

#include "ir/graph/context.h"
#include "ir/op/op.h"

namespace gradc {

/// Registers every built-in operator and the well-known ones with `registry`. Call once per Context, before any graph.
void registerBuiltinOps(OpRegistry &registry);

/// The built-in operators with which unrolling splits, stacks and fills the rows of a loop.
RowOps builtinRowOps();

}  // namespace gradc
