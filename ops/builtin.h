// Which operators are built in, and which a host has added.
#pragma once

#include "ir/op.h"

namespace gradc {

/// Whether `op` is itself one of those that registerBuiltinOps registers; not one of a host's of the same name. Looks through
/// them all: for once per kind, not per node.
bool isBuiltinOp(const OpDef &op);

}  // namespace gradc
