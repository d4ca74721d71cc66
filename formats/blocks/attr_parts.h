// An attribute of Paddle's own file, whose value is in one of the fields for its type. Tested by tests/program_desc_test.cc
#pragma once

#include "formats/blocks/fluid_types.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace gradc {

/// The fields, each in the list of its kind, a single value too.
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
