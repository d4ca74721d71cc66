// Tested by tests/formats/blocks/block_program_test.cc
#include "formats/blocks/program/name_table.h"

using namespace llvm;

namespace gradc {

NameTable::NameTable(const NameTable &other) {
  entries.reserve(other.entries.size());
  for (const StringMapEntry<uint32_t> *entry : other.entries) intern(entry->getKey());
}

TextId NameTable::intern(StringRef text) {
  auto [at, isNew] = ids.try_emplace(text, size());
  if (isNew) entries.push_back(&*at);
  return TextId(at->second);
}

TextId NameTable::find(StringRef text) const {
  auto at = ids.find(text);
  return at == ids.end() ? TextId() : TextId(at->second);
}

}  // namespace gradc
