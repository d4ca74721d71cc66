// Tested by tests/formats/json/json_writer_test.cc and tests/ir/printable_test.cc
#include "ir/base/printable.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr uint32_t kNotUtf8 = ~uint32_t{0};

struct Character {
  uint32_t code;  // kNotUtf8: the byte belongs to no character
  size_t size;    // in bytes
};

/// The character at the start of `text`, which is not empty. Overlong forms, surrogates and what is beyond Unicode are
/// not UTF-8.
Character firstOf(StringRef text) {
  auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xc0 || lead >= 0xf8 || text.size() < size) return {kNotUtf8, 1};
  uint32_t code = lead & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {kNotUtf8, 1};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool isSurrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[size] || code > 0x10ffff || isSurrogate) return {kNotUtf8, 1};
  return {code, size};
}

/// Control characters and what reorders or breaks lines.
bool needsEscape(uint32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7f;
  if (code < 0xa0 || code == 0x61c || code == 0x200e || code == 0x200f) return true;
  return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool isPlainAscii(char c) { return c >= 0x20 && c < 0x7f; }

/// Calls `escape` for every character that is not printed, and copies the others.
std::string replaced(StringRef text, function_ref<void(std::string &, StringRef bytes, uint32_t code)> escape) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t plain = text.take_while(isPlainAscii).size();
    clean.append(text.data(), plain);
    text = text.drop_front(plain);
    if (text.empty()) break;
    const auto [code, size] = firstOf(text);
    if (code != kNotUtf8 && !needsEscape(code)) clean.append(text.data(), size);
    else escape(clean, text.take_front(size), code);
    text = text.drop_front(size);
  }
  return clean;
}

std::string hex(uint32_t code, unsigned width) { return utohexstr(code, /*LowerCase=*/true, width); }

}  // namespace

bool needsNoEscape(StringRef text) {
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') return false;
  return true;
}

void appendEscaped(std::string &to, StringRef text) {
  constexpr char kHex[] = "0123456789abcdef";
  for (char c : text) {
    switch (c) {
      case '"': to += "\\\""; break;
      case '\\': to += "\\\\"; break;
      case '\n': to += "\\n"; break;
      case '\r': to += "\\r"; break;
      case '\t': to += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) to.append("\\u00").append({kHex[c >> 4], kHex[c & 15]});
        else to += c;
    }
  }
}

void appendQuoted(std::string &to, StringRef text) {
  to += '"';
  appendEscaped(to, text);
  to += '"';
}

std::string printable(StringRef text) {
  return replaced(text, [](std::string &to, StringRef bytes, uint32_t code) {
    if (code == '\n') to += "\\n";
    else if (code < 0x80 || code == kNotUtf8) to += "\\x" + hex(static_cast<unsigned char>(bytes[0]), 2);
    else to += "\\u" + hex(code, 4);
  });
}

std::string printableJson(StringRef json) {
  return replaced(json, [](std::string &to, StringRef bytes, uint32_t code) {
    if (code == '\n' || code == kNotUtf8) to += bytes;
    else to += "\\u" + hex(code, 4);
  });
}

std::string quoted(StringRef text) {
  std::string quotes;
  appendQuoted(quotes, text);
  return printable(quotes);
}

bool isPrintable(StringRef text) { return all_of(text, isPlainAscii) || printable(text) == text; }

}  // namespace gradc
