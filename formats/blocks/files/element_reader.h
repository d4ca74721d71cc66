// Parts of a block program from the elements of its file: one operator, one variable, the parameters. Tested by
// tests/formats/blocks/block_file_test.cc
#pragma once

#include "formats/blocks/files/block_file.h"
#include "formats/blocks/files/json_element.h"

namespace gradc {

/// Where an element is, for messages.
struct ElementPlace {
  size_t block = 0, op = 0;
};

class ElementReader {
 public:
  ElementReader(Context &context, BlockFile &file) : context(context), file(file) {}

  llvm::Expected<BlockOp> op(JsonCursor json, ElementPlace place);
  llvm::Expected<BlockVariable> variable(JsonCursor json, llvm::StringRef name, size_t block);
  llvm::Error parameters(JsonCursor json);

 private:
  llvm::Expected<std::vector<BlockSlot>> slots(JsonCursor json, const llvm::Twine &of);
  llvm::Error order(std::vector<BlockSlot> &slots, JsonCursor json, const llvm::Twine &of);
  llvm::Error attrs(BlockOp &op, JsonCursor json, const llvm::Twine &of);

  Context &context;
  BlockFile &file;
  std::string buffer;
};

}  // namespace gradc
