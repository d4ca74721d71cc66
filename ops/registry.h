// The one list of operator families.
#pragma once

#include "ir/context.h"

namespace gradc {

/// Registers every built-in operator and the well-known ones with `registry`. Call once per Context, before any graph.
void registerBuiltinOps(OpRegistry &registry);

}  // namespace gradc
