// The library does not know the command line: no text of it names a flag. What to do about an error is a Remedy
// (ir/error.h), and tools/gradc/remedies.cc has the flags.
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

/// Skips the character or string that begins with `quote`.
StringRef takeQuoted(StringRef &rest, char quote) {
  size_t end = 1;
  while (end < rest.size() && rest[end] != quote) end += rest[end] == '\\' ? 2 : 1;
  StringRef text = rest.slice(1, end);
  rest = rest.drop_front(std::min(end + 1, rest.size()));
  return text;
}

/// The string literals of a source file.
std::vector<StringRef> literalsOf(StringRef rest) {
  std::vector<StringRef> literals;
  char before = ' ';
  while (!rest.empty()) {
    if (rest.starts_with("//")) {
      rest = rest.drop_until([](char c) { return c == '\n'; });
    } else if (rest.starts_with("/*")) {
      rest = rest.split("*/").second;
    } else if (rest.consume_front("R\"(")) {
      const auto [text, after] = rest.split(")\"");
      literals.push_back(text);
      rest = after;
    } else if (rest.front() == '"') {
      literals.push_back(takeQuoted(rest, '"'));
    } else if (rest.front() == '\'' && !isAlnum(before)) {  // 1'000 is a number
      takeQuoted(rest, '\'');
    } else {
      before = rest.front();
      rest = rest.drop_front();
      continue;
    }
    before = ' ';
  }
  return literals;
}

bool namesFlag(StringRef text) {
  for (size_t at = text.find("--"); at != StringRef::npos; at = text.find("--", at + 1))
    if (!text.drop_front(at + 2).empty() && isAlpha(text[at + 2])) return true;
  return false;
}

TEST(LibraryTexts, TheScannerSeesLiteralsAlone) {
  EXPECT_TRUE(namesFlag("give --seed"));
  EXPECT_FALSE(namesFlag("a -- b --"));
  const std::vector<StringRef> expected = {"a\\\"b", "c", "--d"};
  EXPECT_EQ(literalsOf("x = \"a\\\"b\"; // \"no\"\ny(1'000, '\"', \"c\") /* \"no\" */ R\"(--d)\" --first"), expected);
}

TEST(LibraryTexts, NoneNamesAFlag) {
  size_t numLiterals = 0;
  for (StringRef folder : {"formats", "ir", "ops", "passes", "runtime"}) {
    std::error_code code;
    for (sys::fs::recursive_directory_iterator at(folder, code), end; at != end && !code; at.increment(code)) {
      if (!StringRef(at->path()).ends_with(".cc")) continue;
      const std::string source = readText(at->path());
      for (StringRef literal : literalsOf(source)) {
        ++numLiterals;
        EXPECT_FALSE(namesFlag(literal)) << at->path() << ": \"" << literal.str() << '"';
      }
    }
  }
  EXPECT_GE(numLiterals, 3000u);
}

}  // namespace
}  // namespace gradc::testing
