// Interns the texts of a program, so that names are numbers. Tested by tests/formats/blocks/block_program_test.cc
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
  /// Invalid when the table does not have it.
  TextId find(llvm::StringRef text) const;
  llvm::StringRef text(TextId id) const { return entries[id.value]->getKey(); }
  uint32_t size() const { return static_cast<uint32_t>(entries.size()); }

 private:
  llvm::StringMap<uint32_t> ids;
  std::vector<const llvm::StringMapEntry<uint32_t> *> entries;
};

/// Hashes every sixteen consecutive numbers to adjacent buckets, so that lookups of a walk over a program hit the
/// cache.
struct IdInfo : llvm::DenseMapInfo<uint32_t> {
  static unsigned getHashValue(uint32_t id) { return (((id >> 4) * 0x9E3779B1u >> 8) << 4) | (id & 15); }
};
template <class T> using IdMap = DenseMap<uint32_t, T, IdInfo>;
using IdSet = DenseSet<uint32_t, IdInfo>;

}  // namespace gradc
