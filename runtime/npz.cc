// NPZ: a zip archive of NPY members, after the published format (PKWARE APPNOTE 6.3: central directory, zip64, deflate).
//
// Reading trusts only the central directory, so members with data descriptors need no special case. A size that the
// bytes at hand cannot hold is refused. Not read: encrypted and multi-disk archives. Tested by tests/npy_test.cc
#include "ir/error.h"
#include "ir/out_of_memory.h"
#include "runtime/npy.h"

#include "runtime/npy_parts.h"

#include "llvm/ADT/StringSet.h"

#include <zlib.h>

#include <optional>

using namespace llvm;

namespace gradc {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint32_t kInZip64 = 0xffffffff;  // the real number is in a 64-bit field
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kFirstOf1980 = 1 << 5 | 1;  // month and day 1; the year counts from 1980
constexpr StringRef kSuffix = ".npy";
constexpr size_t kLongestName = 0xffff - kSuffix.size();  // its length is a 16-bit field
constexpr uint64_t kDeflateRatio = 1032;                  // what one byte of deflate can expand to at most

uint64_t little(StringRef bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}
uint16_t u16(StringRef bytes, size_t at) { return static_cast<uint16_t>(little(bytes, at, 2)); }
uint32_t u32(StringRef bytes, size_t at) { return static_cast<uint32_t>(little(bytes, at, 4)); }
uint64_t u64(StringRef bytes, size_t at) { return little(bytes, at, 8); }

/// The checksum of bytes whose own checksum is `before`, followed by `data`.
uint32_t checksum(StringRef data, uint32_t before = 0) {
  if (data.empty()) return before;  // zlib takes null data as a request for the initial value
  return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const Bytef *>(data.data()), data.size()));
}

struct Member {
  StringRef name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

struct Directory {
  uint64_t offset = 0, size = 0, count = 0;
};

class ArchiveReader {
 public:
  ArchiveReader(StringRef bytes, StringRef place) : bytes(bytes), place(place) {}

  Expected<std::vector<NamedArray>> read() {
    Expected<Directory> directory = findDirectory();
    if (!directory) return directory.takeError();
    std::vector<NamedArray> arrays;
    StringSet<> names;
    StringRef rest = bytes.substr(directory->offset, directory->size);
    uint64_t packed = 0;
    for (uint64_t i = 0; i < directory->count; ++i) {
      Expected<Member> member = nextMember(rest);
      if (!member) return member.takeError();
      packed += std::min<uint64_t>(member->packed, bytes.size());
      if (packed > bytes.size())
        return fail("members overlap");  // many members over the same bytes could expand without limit
      Expected<NamedArray> array = readMember(*member);
      if (!array) return array.takeError();
      if (!names.insert(array->name).second) return fail("two members are called '" + member->name + "'");
      arrays.push_back(std::move(*array));
    }
    return arrays;
  }

 private:
  Error fail(const Twine &what) const { return Failure(ErrorKind::BadTensorFile, "'" + place + "': " + what); }
  bool holds(uint64_t offset, uint64_t size) const { return offset <= bytes.size() && size <= bytes.size() - offset; }

  Expected<Directory> findDirectory() {
    // The end record is followed by a comment of at most 65535 bytes.
    size_t end = bytes.size() < kEndBytes ? 0 : bytes.size() - kEndBytes + 1;
    size_t lowest = end > 0x10000 ? end - 0x10000 : 0;
    while (end-- > lowest)
      if (u32(bytes, end) == kEndSignature && end + kEndBytes + u16(bytes, end + 20) == bytes.size()) break;
    if (end + 1 <= lowest || bytes.size() < kEndBytes) return fail("not an NPZ file: no end of central directory");
    Directory directory{u32(bytes, end + 16), u32(bytes, end + 12), u16(bytes, end + 10)};
    if (u16(bytes, end + 4) != u16(bytes, end + 6)) return fail("archives of several disks are not supported");
    bool isZip64 = directory.offset == kInZip64 || directory.size == kInZip64 || directory.count == 0xffff;
    if (isZip64 && end >= kLocatorBytes && u32(bytes, end - kLocatorBytes) == kLocator64Signature) {
      uint64_t at = u64(bytes, end - kLocatorBytes + 8);
      if (!holds(at, kEnd64Bytes) || u32(bytes, at) != kEnd64Signature)
        return fail("the zip64 end record is malformed");
      directory = {u64(bytes, at + 48), u64(bytes, at + 40), u64(bytes, at + 32)};
    }
    if (!holds(directory.offset, directory.size)) return fail("the central directory is outside the file");
    return directory;
  }

  Expected<Member> nextMember(StringRef &rest) {
    if (rest.size() < kCentralBytes || u32(rest, 0) != kCentralSignature)
      return fail("the central directory is malformed");
    Member member;
    member.flags = u16(rest, 8);
    member.method = u16(rest, 10);
    member.crc = u32(rest, 16);
    member.packed = u32(rest, 20);
    member.size = u32(rest, 24);
    member.offset = u32(rest, 42);
    size_t nameSize = u16(rest, 28), extraSize = u16(rest, 30), commentSize = u16(rest, 32);
    if (rest.size() < kCentralBytes + nameSize + extraSize + commentSize)
      return fail("the central directory ends inside a member");
    member.name = rest.substr(kCentralBytes, nameSize);
    if (Error error = applyZip64(rest.substr(kCentralBytes + nameSize, extraSize), member)) return error;
    rest = rest.drop_front(kCentralBytes + nameSize + extraSize + commentSize);
    return member;
  }

  Error applyZip64(StringRef extra, Member &member) {
    while (extra.size() >= 4) {
      size_t size = u16(extra, 2);
      if (size > extra.size() - 4) return fail("an extra field of member '" + member.name + "' is malformed");
      StringRef field = extra.substr(4, size);
      if (u16(extra, 0) == kZip64Extra)
        for (uint64_t *number : {&member.size, &member.packed, &member.offset}) {
          if (*number != kInZip64) continue;
          if (field.size() < 8) return fail("the zip64 field of member '" + member.name + "' is too short");
          *number = u64(field, 0);
          field = field.drop_front(8);
        }
      extra = extra.drop_front(4 + size);
    }
    return Error::success();
  }

  Expected<NamedArray> readMember(const Member &member) {
    StringRef stem = member.name;
    if (!stem.consume_back(kSuffix)) return fail("member '" + member.name + "' is not an NPY file");
    if (member.flags & 1) return fail("member '" + member.name + "' is encrypted");
    if (!holds(member.offset, kLocalBytes) || u32(bytes, member.offset) != kLocalSignature)
      return fail("member '" + member.name + "' has no local header where the directory says");
    uint64_t begin = member.offset + kLocalBytes + u16(bytes, member.offset + 26) + u16(bytes, member.offset + 28);
    if (!holds(begin, member.packed)) return fail("member '" + member.name + "' ends outside the file");
    StringRef data = bytes.substr(begin, member.packed);
    std::vector<char> inflated;
    if (member.method == 8) {
      if (member.size / kDeflateRatio > member.packed || !inflateInto(data, member.size, inflated))
        return fail("member '" + member.name + "' does not inflate to the size the directory says");
      data = StringRef(inflated.data(), inflated.size());
    } else if (member.method != 0) {
      return fail("member '" + member.name + "' is packed by method " + Twine(member.method) +
                  ", expected stored (0) or deflated (8)");
    }
    if (data.size() != member.size || checksum(data) != member.crc)
      return fail("member '" + member.name + "' is damaged: its checksum does not match");
    Expected<Array> array = parseNpy(data, (place + ":" + member.name).str());
    if (!array) return array.takeError();
    return NamedArray{stem.str(), std::move(*array)};
  }

  static bool inflateInto(StringRef packed, uint64_t size, std::vector<char> &out) {
    out.resize(size);
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    constexpr uint64_t kPart = 1u << 30;  // zlib counts in 32 bits
    int status = Z_OK;
    uint64_t in = 0, done = 0;
    char none;  // the output when there is nothing to inflate
    while (status == Z_OK) {
      uInt give = static_cast<uInt>(std::min<uint64_t>(packed.size() - in, kPart));
      uInt room = static_cast<uInt>(std::min<uint64_t>(size - done, kPart));
      stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data() + in));
      stream.avail_in = give;
      stream.next_out = reinterpret_cast<Bytef *>(size == 0 ? &none : out.data() + done);
      stream.avail_out = room;
      status = inflate(&stream, Z_NO_FLUSH);
      in += give - stream.avail_in;
      done += room - stream.avail_out;
    }
    inflateEnd(&stream);
    return status == Z_STREAM_END && done == size && in == packed.size();
  }

  StringRef bytes, place;
};

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

Expected<std::vector<NamedArray>> parseNpz(StringRef bytes, StringRef place) {
  return catchingBadAlloc("to read the arrays",
                          [&]() -> Expected<std::vector<NamedArray>> { return ArchiveReader(bytes, place).read(); });
}

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
