// Tested by tests/formats/blocks/program_desc_test.cc
#include "formats/blocks/files/wire_format.h"

#include "llvm/Support/Endian.h"

using namespace llvm;

namespace gradc {

Error WireReader::fail(const Twine &what) const {
  return Failure(ErrorKind::BadJson, "malformed protocol buffer at byte " + Twine(offset) + ": " + what);
}

Expected<uint64_t> WireReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest.empty()) return fail("a number is cut off");
    const auto byte = static_cast<uint8_t>(rest.front());
    rest = rest.drop_front();
    ++offset;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return fail("a number has more than 64 bits");
}

Expected<StringRef> WireReader::take(uint64_t size) {
  if (size > rest.size()) return fail("expected " + Twine(size) + " bytes, found " + Twine(rest.size()));
  const StringRef bytes = rest.take_front(size);
  rest = rest.drop_front(size);
  offset += size;
  return bytes;
}

Expected<WireField> WireReader::next() {
  Expected<uint64_t> tag = varint();
  if (!tag) return tag.takeError();
  WireField field;
  if (*tag >> 3 == 0 || *tag >> 3 > UINT32_MAX >> 3) return fail("a field has the number " + Twine(*tag >> 3));
  field.number = static_cast<uint32_t>(*tag >> 3);
  const auto wire = static_cast<unsigned>(*tag & 7);
  uint64_t size = wire == 1 ? 8 : 4;
  if (wire == 0 || wire == 2) {
    Expected<uint64_t> number = varint();
    if (!number) return number.takeError();
    (wire == 0 ? field.bits : size) = *number;
  }
  field.offset = offset;
  if (wire == 0) return field;
  if (wire != 1 && wire != 2 && wire != 5) return fail("a field has the wire type " + Twine(wire));
  Expected<StringRef> bytes = take(size);
  if (!bytes) return bytes.takeError();
  if (wire == 2) {
    field.form = WireField::Form::Bytes;
    field.bytes = *bytes;
  } else {
    field.form = wire == 1 ? WireField::Form::Fixed64 : WireField::Form::Fixed32;
    field.bits = wire == 1 ? support::endian::read64le(bytes->data()) : support::endian::read32le(bytes->data());
  }
  return field;
}

Error WireReader::forEachNumber(const WireField &field, WireField::Form form,
                                function_ref<void(const WireField &number)> take) {
  if (field.form == form) {
    take(field);
    return Error::success();
  }
  WireReader packed(field);
  if (field.form != WireField::Form::Bytes)
    return packed.fail("field " + Twine(field.number) + " has another wire type");
  while (!packed.isAtEnd()) {
    WireField number = field;
    number.form = form;
    if (form == WireField::Form::Varint) {
      Expected<uint64_t> bits = packed.varint();
      if (!bits) return bits.takeError();
      number.bits = *bits;
    } else {
      Expected<StringRef> bytes = packed.take(form == WireField::Form::Fixed64 ? 8 : 4);
      if (!bytes) return bytes.takeError();
      number.bits = form == WireField::Form::Fixed64 ? support::endian::read64le(bytes->data())
                                                     : support::endian::read32le(bytes->data());
    }
    take(number);
  }
  return Error::success();
}

}  // namespace gradc
