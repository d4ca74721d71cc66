// Text of a user that is printed where a terminal could obey it.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc {

/// `text` without what a terminal obeys instead of showing it: control characters (C0, DEL, C1), marks that change the
/// direction of text, line and paragraph separators, and bytes that are not UTF-8. They become `\n`, `\x1b`, `\u202e`;
/// a byte that is not UTF-8 becomes `\xff`. The result is valid UTF-8 of one line.
std::string printable(llvm::StringRef text);

/// The same for JSON text, which stays JSON with the same values: such characters, which can only be inside its
/// strings, become `\u001b`. Line feeds and what is not UTF-8 stay.
std::string printableJson(llvm::StringRef json);

/// `text` in quotes, with the escapes of JSON and of `printable`.
std::string quoted(llvm::StringRef text);

/// True if `printable` leaves the text as it is.
bool isPrintable(llvm::StringRef text);

}  // namespace gradc
