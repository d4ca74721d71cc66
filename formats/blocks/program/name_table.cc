// Tested by tests/formats/blocks/block_program_test.cc
#include "formats/blocks/program/name_table.h"

#include "llvm/ADT/Twine.h"

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

TextId UnusedNames::make(StringRef begin, uint32_t &number, StringRef end) {
  uint32_t &taken = numTaken[(begin + "\n" + end).str()];
  const bool hasGap = number > taken;
  number = std::max(number, taken);
  std::string name;
  while (texts.find(name = (begin + Twine(number) + end).str()).isValid()) ++number;
  if (!hasGap) taken = number + 1;
  return texts.intern(name);
}

}  // namespace gradc
