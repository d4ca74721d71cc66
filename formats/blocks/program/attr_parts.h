// An attribute in Paddle's own file, which has a field for each type of value. Tested by
// tests/formats/blocks/program_desc_test.cc
#pragma once

#include "formats/blocks/program/fluid_types.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace gradc {

/// The fields by kind; a single value is a list of one.
struct AttrParts {
  llvm::StringRef name;
  int64_t type = -1;
  std::vector<int64_t> integers;
  std::vector<double> floats;
  std::vector<std::string> strings;
  std::vector<std::string> scalars;  // as JSON
};

/// The value as a JSON file spells it; empty where a single value is missing.
std::string attrText(AttrTag tag, const AttrParts &parts);

}  // namespace gradc
