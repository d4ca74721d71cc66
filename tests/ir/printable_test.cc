// What of a user's text reaches a terminal.
#include "ir/base/printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/JSON.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc {
namespace {

std::string encoded(uint32_t code) {
  char bytes[UNI_MAX_UTF8_BYTES_PER_CODE_POINT], *end = bytes;
  return ConvertCodePointToUTF8(code, end) ? std::string(bytes, end) : std::string();
}

/// Control characters, marks of direction and separators, by Unicode's own ranges.
bool needsEscape(uint32_t code) {
  const bool isControl = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool isMark = code == 0x61c || code == 0x200e || code == 0x200f;
  return isControl || isMark || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

TEST(Printable, EveryCharacterOfUnicode) {
  size_t numEscaped = 0;
  for (uint32_t code = 0; code <= 0x10ffff; ++code) {
    const std::string text = encoded(code);
    if (text.empty()) continue;  // half of a surrogate pair
    const std::string shown = printable(text);
    if (!needsEscape(code)) {
      ASSERT_EQ(shown, text) << code;
      ASSERT_TRUE(isPrintable(text)) << code;
      continue;
    }
    ++numEscaped;
    ASSERT_FALSE(isPrintable(text)) << code;
    const std::string hex = utohexstr(code, /*LowerCase=*/true, code < 0x80 ? 2 : 4);
    ASSERT_EQ(shown, code == '\n' ? "\\n" : (code < 0x80 ? "\\x" : "\\u") + hex);
  }
  EXPECT_EQ(numEscaped, 0x20u + 0x21u + 3u + 7u + 4u);
}

TEST(Printable, BytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");                           // a byte of Latin 1 that terminals take for CSI
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");  // overlong
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a surrogate pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80");                    // cut off
  EXPECT_EQ(printable("\xe2"
                      "a\x80"),
            "\\xe2a\\x80");
}

TEST(Printable, JsonKeepsItsValues) {
  std::string all;
  for (uint32_t code = 1; code < 0x2100; ++code) all += encoded(code);
  std::string text;
  raw_string_ostream(text) << json::Value(all);
  const std::string shown = printableJson(text);
  EXPECT_TRUE(isPrintable(shown));
  Expected<json::Value> read = json::parse(shown);
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  EXPECT_EQ(read->getAsString(), StringRef(all));
}

TEST(Printable, QuotedTextEndsWhereItsQuotesSay) {
  EXPECT_EQ(quoted("a\"b\\c\n\x1b\x7f\u202e\xff"), "\"a\\\"b\\\\c\\n\\u001b\\x7f\\u202e\\xff\"");
}

}  // namespace
}  // namespace gradc
