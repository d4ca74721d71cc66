// Shorthands for block programs, and the Paddle programs that tests compare with where they are available.
#pragma once

#include "formats/blocks/files/block_file.h"

#include <string>
#include <vector>

namespace gradc::testing {

/// Appends a block that declares these names, and returns its number.
uint32_t addBlock(BlockProgram &program, std::optional<uint32_t> parent, const std::vector<std::string> &names,
                  std::optional<uint32_t> forward = std::nullopt);

using SlotNames = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Appends an operator to a block.
BlockOp &addOp(BlockProgram &program, uint32_t block, llvm::StringRef type, const SlotNames &inputs,
               const SlotNames &outputs, std::optional<uint32_t> subBlock = std::nullopt);

std::string text(const BlockFile &file);

/// "[kind] message; note; note", or "success".
std::string describeWithNotes(llvm::Error error);

/// Paddle's programs, sorted, with their contents: the files whose path ends in `ending`, such as "/NAME.forward.json";
/// none if they are not available.
struct PaddleFile {
  std::string name, text;
};
std::string paddleFolder();
std::vector<PaddleFile> paddlePrograms(llvm::StringRef ending);

}  // namespace gradc::testing
