// Tested by tests/formats/json/json_writer_test.cc
#include "ir/base/escapes.h"

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

}  // namespace gradc
