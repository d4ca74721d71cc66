// Edits of programs of blocks, right and wrong ones. Tested by tests/networks/fuzz_programs_test.cc
#pragma once

#include "tests/support/drawn/dice.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc::fuzz {

/// The program after a few edits. Text that is not a program is replaced by a seed; so are parts, by parts of seeds.
std::string editedProgram(llvm::StringRef text, llvm::ArrayRef<std::string> seeds, testing::Dice &dice);
/// The blocks of both in one program, where the second reads some values of the first.
std::string joinedPrograms(llvm::StringRef left, llvm::StringRef right, testing::Dice &dice);

}  // namespace gradc::fuzz
