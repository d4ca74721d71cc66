// Escapes and the text of values kept as they are. Tested by tests/formats/json/json_reader_test.cc
#include "ir/json_text.h"

#include <cassert>

using namespace llvm;

namespace gradc {

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

void JsonText::clear() {
  text.clear();
  levels.clear();
  isAfterKey = false;
}

void JsonText::separate() {
  if (!isAfterKey && !levels.empty()) {
    if (levels.back().hasElements) text += ", ";
    levels.back().hasElements = true;
  }
  isAfterKey = false;
}

void JsonText::addScalar(StringRef spelled) {
  separate();
  text.append(spelled.data(), spelled.size());
}

void JsonText::addString(StringRef value) {
  separate();
  appendQuoted(text, value);
}

void JsonText::open(char bracket) {
  separate();
  text += bracket;
  levels.emplace_back();
}

void JsonText::close(char bracket) {
  assert(!levels.empty() && "brackets match in parsed text");
  text += bracket;
  levels.pop_back();
}

bool JsonText::addKey(StringRef key) {
  if (!levels.back().keys.insert(key).second) return false;
  separate();
  appendQuoted(text, key);
  text += ": ";
  isAfterKey = true;
  return true;
}

}  // namespace gradc
