// The sources as the lints of the house see them (docs/architecture.md). Tested by tests/house/house_test.cc
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace gradc::house {

/// Path from the root of the repository, text. A small tree of a test is written down as it is.
using Tree = std::map<std::string, std::string>;

/// Every .cc and .h below the working folder; what tools write and what only looks like code is left out.
Tree readTree();
/// The folders below `root` that hold a .cc or a .h.
std::vector<std::string> foldersWithCode(llvm::StringRef root);

/// "passes/memory" of "passes/memory/plan_memory.h".
llvm::StringRef folderOf(llvm::StringRef path);
/// "passes/memory/plan_memory" of "passes/memory/plan_memory.h".
llvm::StringRef stemOf(llvm::StringRef path);
bool isHeader(llvm::StringRef path);
/// Whether the file is part of what gradc is: neither a test nor a benchmark nor an example.
bool isProduct(llvm::StringRef path);

/// A piece of C++. Numbers are words; a literal is its contents, escapes and all.
struct Token {
  enum class Kind : uint8_t { Word, Sign, String, Character };
  Kind kind = Kind::Sign;
  llvm::StringRef text;
  uint32_t line = 0;  // from 1

  bool is(llvm::StringRef what) const { return (kind == Kind::Word || kind == Kind::Sign) && text == what; }
};

/// The tokens of a source without comments and preprocessor lines. `::`, `->` and `[[` are one sign each.
std::vector<Token> tokensOf(llvm::StringRef source);
/// What `#include "…"` names, in order.
std::vector<llvm::StringRef> includesOf(llvm::StringRef source);
/// The path in the tree of a header that a file names: from the root, beside the file, or from the root that the
/// examples have. Empty if it is none of the tree's.
std::string findIncluded(const Tree &tree, llvm::StringRef file, llvm::StringRef included);

}  // namespace gradc::house
