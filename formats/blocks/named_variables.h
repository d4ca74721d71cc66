// Variables that a request names. Tested by tests/append_backward_test.cc
#pragma once

#include "formats/blocks/block_program.h"

namespace gradc {

/// The variable of this name that `block` sees; `what` describes it in the message. UnknownName.
llvm::Expected<TextId> findVariable(const BlockProgram &program, uint32_t block, llvm::StringRef name,
                                    const char *what);

/// Appends these variables to `found`. UnknownName.
llvm::Error findVariables(const BlockProgram &program, uint32_t block, llvm::ArrayRef<std::string> names,
                          const char *what, std::vector<TextId> &found);

/// A name that some block declares. UnknownName.
llvm::Expected<TextId> findAnywhere(const BlockProgram &program, llvm::StringRef name, const char *what);

}  // namespace gradc
