// Strings as JSON spells them, in every file written and every text printed. Tested by
// tests/formats/json/json_writer_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc {

/// True when `text` can be put between quotes without escapes.
bool needsNoEscape(llvm::StringRef text);
/// Appends `text` with the escapes \" \\ \n \r \t; other control characters, which no host accepts, as \u00XX.
void appendEscaped(std::string &to, llvm::StringRef text);
/// Appends `"text"`, escaped.
void appendQuoted(std::string &to, llvm::StringRef text);

}  // namespace gradc
