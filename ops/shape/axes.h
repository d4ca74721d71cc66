// Shared by operators along axes: ranks, and lists of axes or dimensions in messages and attributes.
#pragma once

#include "ir/rules/inference.h"

#include <optional>
#include <string>

namespace gradc {

/// The rank of input 0 or, where that is unknown, of output 0.
inline std::optional<size_t> eitherRank(ShapeInference &s) {
  if (s.in(0).hasRank()) return s.in(0).rank();
  if (s.out(0).hasRank()) return s.out(0).rank();
  return std::nullopt;
}

/// "(0,-1)", as the attribute is written.
inline std::string tupleText(Dims numbers) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printAttr(os, numbers);
  return text;
}

}  // namespace gradc
