// Writing NPZ: a zip archive of NPY members, stored. Tested by tests/runtime/npy_test.cc
#include "runtime/arrays/npz_writer.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "runtime/arrays/npz_format.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using namespace zip;

constexpr uint16_t kFirstOf1980 = 1 << 5 | 1;             // month and day 1; the year counts from 1980
constexpr size_t kLongestName = 0xffff - kSuffix.size();  // its length is a 16-bit field

void put(std::string &out, uint64_t value, size_t width) {
  for (; width-- > 0; value >>= 8) out += static_cast<char>(value & 0xff);
}

uint64_t clipped(uint64_t value) { return std::min<uint64_t>(value, kInZip64); }

/// What local and central headers share, from "version needed" to the lengths of name and extra field.
void putCommon(std::string &out, const Member &member, size_t extraSize) {
  put(out, extraSize != 0 ? 45 : 20, 2);
  put(out, member.flags, 2);
  put(out, member.method, 2);
  put(out, 0, 2);
  put(out, kFirstOf1980, 2);
  put(out, member.crc, 4);
  put(out, clipped(member.packed), 4);
  put(out, clipped(member.size), 4);
  put(out, member.name.size(), 2);
  put(out, extraSize, 2);
}

std::string zip64Extra(ArrayRef<uint64_t> numbers) {
  std::string fields, extra;
  for (uint64_t number : numbers)
    if (number >= kInZip64) put(fields, number, 8);
  if (fields.empty()) return extra;
  put(extra, kZip64Extra, 2);
  put(extra, fields.size(), 2);
  return extra + fields;
}

std::string localHeader(const Member &member) {
  std::string out, extra = zip64Extra({member.size, member.packed});
  put(out, kLocalSignature, 4);
  putCommon(out, member, extra.size());
  return out + member.name.str() + extra;
}

std::string centralHeader(const Member &member) {
  std::string out, extra = zip64Extra({member.size, member.packed, member.offset});
  put(out, kCentralSignature, 4);
  put(out, 45, 2);
  putCommon(out, member, extra.size());
  put(out, 0, 2 + 2 + 2 + 4);  // comment, disk, internal and external attributes
  put(out, clipped(member.offset), 4);
  return out + member.name.str() + extra;
}

std::string endRecords(const Directory &directory) {
  std::string out;
  uint64_t end64 = directory.offset + directory.size;
  if (directory.count >= 0xffff || end64 >= kInZip64) {
    put(out, kEnd64Signature, 4);
    put(out, kEnd64Bytes - 12, 8);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0, 8);
    put(out, directory.count, 8);
    put(out, directory.count, 8);
    put(out, directory.size, 8);
    put(out, directory.offset, 8);
    put(out, kLocator64Signature, 4);
    put(out, 0, 4);
    put(out, end64, 8);
    put(out, 1, 4);
  }
  put(out, kEndSignature, 4);
  put(out, 0, 4);
  put(out, std::min<uint64_t>(directory.count, 0xffff), 2);
  put(out, std::min<uint64_t>(directory.count, 0xffff), 2);
  put(out, clipped(directory.size), 4);
  put(out, clipped(directory.offset), 4);
  put(out, 0, 2);
  return out;
}

}  // namespace

Error NpzWriter::add(StringRef name, const TensorRef &tensor) {
  return catchingBadAlloc("to write the array", [&]() -> Error {
    if (name.size() > kLongestName)
      return Failure(ErrorKind::UnsupportedOption,
                     "the name '" + name.take_front(40) + "…' of an array is " + Twine(name.size()) +
                         " bytes long, an NPZ file holds names of at most " + Twine(kLongestName) + " bytes");
    Expected<std::string> header = npyHeader(tensor);
    if (!header) return header.takeError();
    std::string scratch;
    const std::string file = (name + kSuffix).str();
    const StringRef data = npyData(tensor, scratch);
    Member member;
    member.name = file;
    const bool isAscii = all_of(file, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    member.flags = isAscii ? 0 : 1 << 11;  // the name is UTF-8
    member.crc = checksum(data, checksum(*header));
    member.packed = member.size = header->size() + data.size();
    member.offset = offset;
    const std::string local = localHeader(member);
    directory += centralHeader(member);
    os << local << *header << data;
    offset += local.size() + member.size;
    ++numMembers;
    return Error::success();
  });
}

Error NpzWriter::finish() {
  return catchingBadAlloc("to write the arrays", [&]() -> Error {
    Directory end;
    end.offset = offset;
    end.size = directory.size();
    end.count = numMembers;
    os << directory << endRecords(end);
    return Error::success();
  });
}

Error writeNpz(raw_ostream &os, ArrayRef<NamedArray> arrays) {
  NpzWriter writer(os);
  for (const NamedArray &named : arrays)
    if (Error error = writer.add(named.name, named.array.view())) return error;
  return writer.finish();
}

}  // namespace gradc
