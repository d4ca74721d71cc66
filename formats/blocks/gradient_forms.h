// Which gradient operator an operator type has, and what its slots hold: the makers of Paddle 2.6, one line each.
// Tested by tests/append_backward_test.cc
#pragma once

#include "llvm/ADT/SmallVector.h"
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

/// A form, in parts. A source is the slot's own name where the form has none.
struct GradientForm {
  struct Slot {
    llvm::StringRef name, source;
    bool keepsEmpty = false;
  };
  llvm::StringRef forward, type;
  bool isEach = false;
  llvm::SmallVector<Slot, 8> inputs, outputs;
};

/// Of a form that is neither empty nor "none".
GradientForm parseGradientForm(llvm::StringRef forward, llvm::StringRef form);
/// The form whose type this is, where it makes a type of its own: that of `tanh` for `tanh_grad`. Null for other types,
/// among them those that are gradients of one type and compute something of their own (`scale`, `concat`).
const GradientForm *formOfGradient(llvm::StringRef type);

inline bool hasEmptyMaker(llvm::StringRef type) { return gradientForm(type) == llvm::StringRef(); }

}  // namespace gradc
