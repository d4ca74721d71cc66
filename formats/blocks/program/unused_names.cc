// Tested by tests/formats/blocks/backward/copy_overwritten_test.cc
#include "formats/blocks/program/unused_names.h"

#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace gradc {

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
