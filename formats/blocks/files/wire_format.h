// Protocol buffers' wire format: the fields of one message, one after the other. Messages are views of the bytes they
// are in, so nothing is allocated and nothing recurses. Tested by tests/formats/blocks/program_desc_test.cc
#pragma once

#include "ir/base/error.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <bit>

namespace gradc {

/// A field of a message: its number, and its encoded value.
struct WireField {
  enum class Form : uint8_t { Varint, Fixed64, Bytes, Fixed32 };
  uint32_t number = 0;
  Form form = Form::Varint;
  uint64_t bits = 0;      // of numbers
  llvm::StringRef bytes;  // of strings, messages and packed numbers
  size_t offset = 0;      // of the field in the file

  int64_t integer() const { return static_cast<int64_t>(bits); }
  bool boolean() const { return bits != 0; }
  double float64() const { return std::bit_cast<double>(bits); }
  double float32() const { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
};

/// Walks the fields. BadJson (E-33) with a byte offset for malformed ones: a number that is cut off or longer than 64
/// bits, bytes beyond the end, groups.
class WireReader {
 public:
  WireReader(llvm::StringRef message, size_t offset) : rest(message), offset(offset) {}
  /// The message that a field holds.
  explicit WireReader(const WireField &field) : WireReader(field.bytes, field.offset) {}

  bool isAtEnd() const { return rest.empty(); }
  llvm::Expected<WireField> next();
  /// Visits the number that a field holds, or the numbers packed into it. `form` is that of one number.
  static llvm::Error forEachNumber(const WireField &field, WireField::Form form,
                                   llvm::function_ref<void(const WireField &number)> take);

 private:
  llvm::Expected<uint64_t> varint();
  llvm::Expected<llvm::StringRef> take(uint64_t size);
  llvm::Error fail(const llvm::Twine &what) const;

  llvm::StringRef rest;
  size_t offset;  // of the rest in the file
};

}  // namespace gradc
