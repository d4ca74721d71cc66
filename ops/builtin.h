// Distinguishes built-in operators from those that a host has added.
#pragma once

#include "ir/op.h"

namespace gradc {

/// Whether `op` is one of the definitions that registerBuiltinOps registers, not a host's operator of the same name.
/// Searches them all: call it once per kind, not per node.
bool isBuiltinOp(const OpDef &op);

}  // namespace gradc
