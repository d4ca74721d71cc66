// The table of gradient forms, a line for each operator type.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace gradc {

struct GradientFormRow {
  llvm::StringLiteral type, form;  // the form as gradient_forms.h describes it
};

llvm::ArrayRef<GradientFormRow> gradientFormRows();

}  // namespace gradc
