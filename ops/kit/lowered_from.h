// Marks what an operator with a declared gradient is lowered to: it has the values, but another gradient.
#pragma once

#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"

namespace gradc {

/// An attribute for the node that yields the output: `grad` refuses to differentiate it.
inline AttrText loweredFrom(const DecomposeRule &d) { return {kLoweredFromMark, d.kind().op->name}; }

}  // namespace gradc
