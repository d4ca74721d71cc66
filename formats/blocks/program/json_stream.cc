// Tested by tests/formats/blocks/block_file_test.cc
#include "formats/blocks/program/json_stream.h"

#include "ir/base/printable.h"

#include "llvm/Support/ConvertUTF.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

void appendUnit(std::string &to, uint16_t unit) {
  constexpr StringLiteral kDigits = "0123456789abcdef";
  to += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) to += kDigits[unit >> shift & 15];
}

bool isPlain(char c) { return c >= ' ' && c != '"' && c != '\\' && static_cast<unsigned char>(c) < 0x80; }

}  // namespace

JsonStream &JsonStream::string(StringRef text) {
  separate();
  to += '"';
  if (all_of(text, isPlain)) {
    to.append(text.data(), text.size());
  } else {
    SmallVector<UTF16, 64> units;
    if (!convertUTF8ToUTF16String(text, units))
      units.assign(text.bytes_begin(), text.bytes_end());  // not UTF-8: Latin-1
    for (UTF16 unit : units) switch (unit) {
        case '"': to += "\\\""; break;
        case '\\': to += "\\\\"; break;
        case '\b': to += "\\b"; break;
        case '\f': to += "\\f"; break;
        case '\n': to += "\\n"; break;
        case '\r': to += "\\r"; break;
        case '\t': to += "\\t"; break;
        default:
          if (unit >= ' ' && unit < 0x80) to += static_cast<char>(unit);
          else appendUnit(to, unit);
      }
  }
  to += '"';
  return *this;
}

std::string spellFloat(double value, bool isSingle) {
  if (!std::isfinite(value)) return std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  char buffer[64];
  const std::chars_format form = std::chars_format::scientific;
  const std::to_chars_result end = isSingle ? std::to_chars(buffer, std::end(buffer), static_cast<float>(value), form)
                                            : std::to_chars(buffer, std::end(buffer), value, form);
  auto [mantissa, exponentText] = StringRef(buffer, static_cast<size_t>(end.ptr - buffer)).split('e');
  int exponent = 0;
  exponentText.ltrim('+').getAsInteger(10, exponent);
  std::string digits, sign;
  for (char c : mantissa)
    if (isdigit(static_cast<unsigned char>(c))) digits += c;
  if (mantissa.starts_with("-")) sign = "-";
  const int numDigits = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (numDigits > 1) digits.insert(1, ".");
    const int size = std::abs(exponent);
    return sign + digits + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (numDigits <= exponent + 1)
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - numDigits), '0') + ".0";
  return sign + digits.substr(0, static_cast<size_t>(exponent + 1)) + "." +
         digits.substr(static_cast<size_t>(exponent + 1));
}

}  // namespace gradc
