// Which gradient operator an operator type has, and what its slots hold: the makers of Paddle 2.6, one line each.
//
// `tanh_grad: Out, Out@GRAD -> X@GRAD` is its type, the slots it reads, the slots it writes.
// - A slot that it reads holds the operands of the forward operator's slot of that name or, if there is none and the
//   name ends in @GRAD, the gradients of the operands. Behind the arrow, a name that ends in @GRAD always means the
//   gradients of an input slot.
// - `slot = source` where the names differ.
// - `?` keeps @EMPTY@ for a gradient that is not requested, so that positions identify operands; without it the
//   gradient is left out.
// - `each` before the type: one operator for every variable of the output slot.
// - Empty: the type ends the path of gradients. "none": it does not, but has no gradient operator.
// Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace gradc {

/// The form of a type; nothing if the type is unknown.
std::optional<llvm::StringRef> gradientForm(llvm::StringRef type);

/// The table (gradient_forms.def).
struct GradientFormRow {
  llvm::StringLiteral type, form;
};
llvm::ArrayRef<GradientFormRow> gradientFormRows();

/// A parsed form. The source is the slot's own name unless the form gives one.
struct GradientForm {
  struct Slot {
    llvm::StringRef name, source;
    bool keepsEmpty = false;
  };
  llvm::StringRef forward, type;
  bool isEach = false;
  llvm::SmallVector<Slot, 8> inputs, outputs;
};

/// Requires a form that is neither empty nor "none".
GradientForm parseGradientForm(llvm::StringRef forward, llvm::StringRef form);
/// The form that makes this type, if the type only serves as a gradient: that of `tanh` for `tanh_grad`. None for other
/// types, among them forward types that are also gradients of another one (`scale`, `concat`).
std::optional<GradientForm> formOfGradient(llvm::StringRef type);
bool isGradientType(llvm::StringRef type);

inline bool hasEmptyMaker(llvm::StringRef type) { return gradientForm(type) == llvm::StringRef(); }

}  // namespace gradc
