// Counts in messages.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace gradc {

/// "1 input", "2 inputs"; "2 axes" with the plural given.
inline std::string countOf(uint64_t count, llvm::StringRef noun, llvm::StringRef plural = {}) {
  if (count == 1) return ("1 " + noun).str();
  return (llvm::Twine(count) + " " + (plural.empty() ? noun + "s" : llvm::Twine(plural))).str();
}

}  // namespace gradc
