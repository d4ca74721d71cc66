// Names that a program does not have yet. Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#pragma once

#include "formats/blocks/program/name_table.h"

namespace gradc {

/// Remembers which numbers are in use, so that many names that begin alike take linear time.
class UnusedNames {
 public:
  explicit UnusedNames(NameTable &texts) : texts(texts) {}

  /// Interns `<begin><number><end>`. Increases the number until the table does not have the name.
  TextId make(llvm::StringRef begin, uint32_t &number, llvm::StringRef end = "");
  TextId make(llvm::StringRef begin, llvm::StringRef end = "") {
    uint32_t number = 0;
    return make(begin, number, end);
  }

 private:
  NameTable &texts;
  llvm::StringMap<uint32_t> numTaken;  // by begin and end: all smaller numbers are in use
};

}  // namespace gradc
