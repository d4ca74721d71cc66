// Variables that a request names. Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

namespace gradc {

/// The variable of this name that `block` sees; `what` describes it in the message. UnknownName; ForeignEntry
/// (E-44) where another block declares it.
llvm::Expected<TextId> findVariable(const BlockProgram &program, uint32_t block, llvm::StringRef name,
                                    const char *what);

/// Appends these variables to `found`. The same errors.
llvm::Error findVariables(const BlockProgram &program, uint32_t block, llvm::ArrayRef<std::string> names,
                          const char *what, std::vector<TextId> &found);

/// The loss of append_backward: a variable of `block` that an operator of it writes. As Paddle, refuses others
/// (NoGraph, E-04).
llvm::Error checkLoss(const BlockProgram &program, uint32_t block, TextId loss);

/// A name that some block declares. UnknownName.
llvm::Expected<TextId> findAnywhere(const BlockProgram &program, llvm::StringRef name, const char *what);

}  // namespace gradc
