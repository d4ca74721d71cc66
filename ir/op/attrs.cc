// Tested by tests/ir/context_test.cc
#include "ir/op/attrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

std::optional<StringRef> Attrs::get(StringRef key) const {
  for (const AttrText &pair : pairs())
    if (pair.key == key) return pair.value;
  return std::nullopt;
}

}  // namespace gradc
