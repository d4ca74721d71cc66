// Interns the texts of a program, so that names are numbers, and makes new ones. Tested by
// tests/formats/blocks/block_program_test.cc and tests/formats/blocks/backward/copy_overwritten_test.cc
#pragma once

#include "ir/base/dense_map.h"
#include "ir/base/ids.h"

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
  /// Invalid when the text is not in the table.
  TextId find(llvm::StringRef text) const;
  llvm::StringRef text(TextId id) const { return entries[id.value]->getKey(); }
  uint32_t size() const { return static_cast<uint32_t>(entries.size()); }

 private:
  llvm::StringMap<uint32_t> ids;
  std::vector<const llvm::StringMapEntry<uint32_t> *> entries;
};

/// Remembers which numbers are in use, so that many names that begin alike take linear time.
class UnusedNames {
 public:
  explicit UnusedNames(NameTable &texts) : texts(texts) {}

  /// Interns `<begin><number><end>`. Increases the number until the name is new.
  TextId make(llvm::StringRef begin, uint32_t &number, llvm::StringRef end = "");
  TextId make(llvm::StringRef begin, llvm::StringRef end = "") {
    uint32_t number = 0;
    return make(begin, number, end);
  }

 private:
  NameTable &texts;
  llvm::StringMap<uint32_t> numTaken;  // by begin and end: all smaller numbers are in use
};

/// Hashes every sixteen consecutive numbers to adjacent buckets, so that lookups of a walk over a program hit the
/// cache.
struct IdInfo : llvm::DenseMapInfo<uint32_t> {
  static unsigned getHashValue(uint32_t id) { return (((id >> 4) * 0x9E3779B1u >> 8) << 4) | (id & 15); }
};
template <class T> using IdMap = DenseMap<uint32_t, T, IdInfo>;
using IdSet = DenseSet<uint32_t, IdInfo>;

}  // namespace gradc
