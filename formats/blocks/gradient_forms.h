// Which gradient operator an operator type has, and what its slots hold: the makers of Paddle 2.6, one line each.
// Tested by tests/append_backward_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace gradc {

/// `tanh_grad: Out, Out@GRAD -> X@GRAD`: its type, slots it reads, slots it writes. A slot stands for the forward operator's
/// slot of that name, or, where that has none and the name ends in @GRAD, for the gradients of what is in the slot. Behind
/// the arrow a name that ends in @GRAD always is the gradients of an input slot. `slot = source` where the names differ. `?`
/// keeps @EMPTY@ for a gradient that is not wanted, so that positions tell whose it is; without it the slot is left empty.
/// `each` before the type: one operator for every variable of the output slot.
/// Empty: the type ends the path of gradients. None: the type is not known; a type that is known and has no gradient
/// operator, but does not end the path, has the form "none".
std::optional<llvm::StringRef> gradientForm(llvm::StringRef type);

inline bool hasEmptyMaker(llvm::StringRef type) { return gradientForm(type) == llvm::StringRef(); }

}  // namespace gradc
