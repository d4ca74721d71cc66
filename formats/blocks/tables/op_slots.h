// Which slots the operators of a type have, and whether a program keeps to that. Tested by
// tests/formats/blocks/op_slots_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// `X, Scale?, Mean~ -> Out*`: the slots of operands and of results, each of one variable.
struct OpSlot {
  llvm::StringRef name;
  bool isList = false;       // `*`: one or more variables
  bool isOptional = false;   // `?`: may be missing
  bool isAuxiliary = false;  // `~`: may be missing where no gradient reads it
};
struct OpSlots {
  llvm::SmallVector<OpSlot, 4> inputs, outputs;
};

/// The table (op_slots.def): types between spaces, and the slots that all of them have.
struct OpSlotRow {
  llvm::StringLiteral types, slots;
};
llvm::ArrayRef<OpSlotRow> opSlotRows();

/// Of a forward type, from the table; none: not known.
std::optional<OpSlots> slotsOfType(llvm::StringRef type);

/// Each operator of a known type, or of a type of gradient operators, has the slots of its type with the right number
/// of variables, tensors unless it takes arrays (BadEntry, which names block, operator, slot and variable). Others may
/// hold anything. Linear.
llvm::Error verifySlots(const BlockProgram &program);

}  // namespace gradc
