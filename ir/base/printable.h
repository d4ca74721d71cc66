// Text in quotes, as JSON spells it in every file and message, and text of a user, printed to a terminal. Tested by
// tests/formats/json/json_writer_test.cc and tests/ir/printable_test.cc
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

/// `text` with escapes for what a terminal would interpret: control characters (C0, DEL, C1), marks that change the
/// direction of text, line and paragraph separators, and bytes that are not UTF-8. They become `\n`, `\x1b`, `\u202e`,
/// `\xff`. The result is valid UTF-8 of one line.
std::string printable(llvm::StringRef text);

/// The same for JSON text, which stays JSON with the same values: such characters, which can only be inside its
/// strings, become `\u001b`. Line feeds and bytes that are not UTF-8 are unchanged.
std::string printableJson(llvm::StringRef json);

/// `text` in quotes, with the escapes of JSON and of `printable`.
std::string quoted(llvm::StringRef text);

/// True if `printable` returns the text unchanged.
bool isPrintable(llvm::StringRef text);

}  // namespace gradc
