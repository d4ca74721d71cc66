// The texts of a program, each once, so that names are numbers. Tested by tests/block_program_test.cc
#pragma once

#include "ir/ids.h"

#include "llvm/ADT/StringMap.h"

#include <vector>

namespace gradc {

using TextId = Id<struct BlockTextTag>;  // a text of one NameTable

class NameTable {
 public:
  NameTable() = default;
  NameTable(const NameTable &other);
  NameTable(NameTable &&) = default;
  NameTable &operator=(NameTable other) {
    ids = std::move(other.ids);
    entries = std::move(other.entries);
    return *this;
  }

  TextId intern(llvm::StringRef text);
  /// Invalid when the table does not have it.
  TextId find(llvm::StringRef text) const;
  llvm::StringRef text(TextId id) const { return entries[id.value]->getKey(); }
  uint32_t size() const { return static_cast<uint32_t>(entries.size()); }

 private:
  llvm::StringMap<uint32_t> ids;
  std::vector<const llvm::StringMapEntry<uint32_t> *> entries;
};

}  // namespace gradc
