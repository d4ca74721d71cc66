// Fields of protocol buffers, as bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace gradc::testing {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// A field that holds a whole number.
inline std::string number(uint32_t field, int64_t value) {
  return varint(field << 3) + varint(static_cast<uint64_t>(value));
}

/// A field that holds text or other fields.
inline std::string message(uint32_t field, const std::string &content) {
  return varint(field << 3 | 2) + varint(content.size()) + content;
}

/// A field that holds a float or a double.
template <class T> std::string fixed(uint32_t field, T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return varint(field << 3 | (sizeof value == 8 ? 1 : 5)) + bytes;
}

}  // namespace gradc::testing
