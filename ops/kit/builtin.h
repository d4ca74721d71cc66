// Distinguishes built-in operators from those that a host has added.
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// Whether `op` is one of the definitions that registerBuiltinOps registers, not a host's operator of the same name. A
/// binary search by address.
bool isBuiltinOp(const OpDef &op);

}  // namespace gradc
