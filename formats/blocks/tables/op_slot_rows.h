// The table of slots, a line for all operator types that have the same ones.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace gradc {

struct OpSlotRow {
  llvm::StringLiteral types, slots;  // types between spaces; the slots as op_slots.h describes them
};

llvm::ArrayRef<OpSlotRow> opSlotRows();

}  // namespace gradc
