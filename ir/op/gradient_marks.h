// Attributes of nodes that say how the gradient pass treats them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace gradc {

/// `True`: the outputs never get a gradient (NG-01).
inline constexpr llvm::StringLiteral kStopMark = "__stop_gradient__";
/// The name of an operator whose values the node computes, but whose declared gradient it does not have: a lowered
/// loss, say.
inline constexpr llvm::StringLiteral kLoweredFromMark = "__lowered_from__";

}  // namespace gradc
