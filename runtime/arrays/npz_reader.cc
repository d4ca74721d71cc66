// Reading NPZ: a zip archive of NPY members, after the published format (runtime/arrays/npz_format.h).
//
// Reading trusts only the central directory, so members with data descriptors need no special case. Phases: read the
// directory, find the members and see that they do not overlap, read the header of each, and only on request the
// elements. A size that the bytes at hand cannot hold is refused. Not read: encrypted and multi-disk archives. Tested
// by tests/runtime/npy_test.cc
#include "runtime/arrays/npz_reader.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "runtime/arrays/npz_format.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <new>

using namespace llvm;

namespace gradc {
namespace {

using namespace zip;

constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint64_t kDeflateRatio = 1032;  // what one byte of deflate can expand to at most

uint64_t little(StringRef bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}
uint16_t u16(StringRef bytes, size_t at) { return static_cast<uint16_t>(little(bytes, at, 2)); }
uint32_t u32(StringRef bytes, size_t at) { return static_cast<uint32_t>(little(bytes, at, 4)); }
uint64_t u64(StringRef bytes, size_t at) { return little(bytes, at, 8); }

/// What the members of an archive share.
struct Archive {
  std::shared_ptr<const MemoryBuffer> file;  // null: the caller's bytes
  StringRef bytes;
  std::string place;

  Failure failure(const Twine &what) const { return Failure(ErrorKind::BadTensorFile, "'" + place + "': " + what); }
};

/// The content of a member, from its beginning.
class Content {
 public:
  Content(StringRef data, uint16_t method) : rest(data), isDeflated(method == kDeflated) {
    if (isDeflated && inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Content() {
    if (isDeflated) inflateEnd(&stream);
  }
  Content(const Content &) = delete;

  /// The next bytes. False if there are fewer.
  bool read(MutableArrayRef<char> to) {
    if (isDeflated) return inflateInto(to) == to.size();
    if (to.size() > rest.size()) return false;
    llvm::copy(rest.take_front(to.size()), to.begin());
    rest = rest.drop_front(to.size());
    return true;
  }
  bool isAtEnd() {
    char more;
    if (isDeflated && (inflateInto(more) != 0 || status != Z_STREAM_END)) return false;
    return rest.empty();
  }

 private:
  size_t inflateInto(MutableArrayRef<char> to) {
    constexpr size_t kPart = size_t{1} << 30;  // zlib counts in 32 bits
    size_t done = 0;
    while (status == Z_OK && done < to.size()) {
      const uInt give = static_cast<uInt>(std::min(rest.size(), kPart));
      const uInt room = static_cast<uInt>(std::min(to.size() - done, kPart));
      stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(rest.data()));
      stream.avail_in = give;
      stream.next_out = reinterpret_cast<Bytef *>(to.data() + done);
      stream.avail_out = room;
      status = inflate(&stream, Z_NO_FLUSH);
      rest = rest.drop_front(give - stream.avail_in);
      done += room - stream.avail_out;
    }
    return done;
  }

  StringRef rest;
  const bool isDeflated;
  z_stream stream = {};
  int status = Z_OK;
};

class ArchivedMember final : public ArchivedElements {
 public:
  /// `at`: where the data of the member begins.
  ArchivedMember(std::shared_ptr<const Archive> archive, const Member &member, uint64_t at)
      : archive(std::move(archive)), member(member), data(this->archive->bytes.substr(at, member.packed)) {}

  Expected<Array> readHeader() {
    if (member.method == kStored && member.packed != member.size) return damaged();
    if (member.method == kDeflated && member.size / kDeflateRatio > member.packed) return misfit();
    Content content(data, member.method);
    char start[kNpyStart] = {};
    const size_t numStart = std::min<uint64_t>(kNpyStart, member.size);
    if (!content.read(MutableArrayRef(start, numStart))) return misfit();
    Expected<size_t> length = npyHeaderBytes(StringRef(start, numStart), member.size, place());
    if (!length) return length.takeError();
    begin.assign(*length, 0);
    llvm::copy(ArrayRef<char>(start, std::min(numStart, *length)), begin.begin());
    if (*length > numStart && !content.read(MutableArrayRef<char>(begin.data(), begin.size()).drop_front(numStart)))
      return misfit();
    Expected<NpyHeader> parsed = parseNpyHeader(begin, member.size, place());
    if (!parsed) return parsed.takeError();
    header = std::move(*parsed);
    return Array{header.dtype, header.shape, {}};
  }

  Expected<std::vector<char>> read() const override {
    return catchingBadAlloc("to read the array", [&]() -> Expected<std::vector<char>> {
      // Part by part: what is read is added to the checksum while it is in the cache.
      constexpr size_t kPart = size_t{1} << 18;
      const size_t size = member.size - begin.size();
      std::vector<char> first(begin.size()), elements;
      elements.reserve(size);
      Content content(data, member.method);
      if (!content.read(first)) return misfit();
      uint32_t sum = checksum(StringRef(first.data(), first.size()));
      while (elements.size() < size) {
        const size_t before = elements.size(), count = std::min(kPart, size - before);
        elements.resize(before + count);
        if (!content.read(MutableArrayRef<char>(elements).drop_front(before))) return misfit();
        sum = checksum(StringRef(elements.data() + before, count), sum);
      }
      if (!content.isAtEnd()) return misfit();
      if (sum != member.crc) return damaged();
      if (Error error = arrangeElements(header, elements, place())) return error;
      return elements;
    });
  }

 private:
  std::string place() const { return archive->place + ":" + member.name.str(); }
  Error damaged() const {
    return archive->failure("member '" + member.name + "' is damaged: its checksum does not match");
  }
  Error misfit() const {
    return archive->failure("member '" + member.name + "' does not inflate to the size the directory says");
  }

  std::shared_ptr<const Archive> archive;
  Member member;
  StringRef data;
  std::string begin;  // of the content: all before the elements
  NpyHeader header;
};

class ArchiveReader {
 public:
  explicit ArchiveReader(std::shared_ptr<const Archive> archive) : archive(archive), bytes(archive->bytes) {}

  Expected<std::vector<NamedArray>> read() {
    if (Error error = readDirectory()) return error;
    if (Error error = findMembers()) return error;
    std::vector<NamedArray> arrays;
    for (size_t i = 0; i < members.size(); ++i) {
      auto archived = std::make_shared<ArchivedMember>(archive, members[i], begins[i]);
      Expected<Array> array = archived->readHeader();
      if (!array) return array.takeError();
      arrays.push_back({members[i].name.drop_back(kSuffix.size()).str(), std::move(*array), std::move(archived)});
    }
    return arrays;
  }

 private:
  Error fail(const Twine &what) const { return archive->failure(what); }
  bool holds(uint64_t offset, uint64_t size) const { return offset <= bytes.size() && size <= bytes.size() - offset; }

  Error readDirectory() {
    Expected<Directory> directory = findDirectory();
    if (!directory) return directory.takeError();
    StringRef rest = bytes.substr(directory->offset, directory->size);
    for (uint64_t i = 0; i < directory->count; ++i) {
      Expected<Member> member = nextMember(rest);
      if (!member) return member.takeError();
      members.push_back(*member);
    }
    return Error::success();
  }

  Error findMembers() {
    StringSet<> names;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const Member &member : members) {
      Expected<uint64_t> begin = dataOf(member);
      if (!begin) return begin.takeError();
      begins.push_back(*begin);
      ranges.push_back({member.offset, *begin + member.packed});
    }
    llvm::sort(ranges);  // many members over the same bytes could expand without limit
    for (size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].first < ranges[i - 1].second) return fail("members overlap");
    for (const Member &member : members)
      if (!names.insert(member.name).second) return fail("two members are called '" + member.name + "'");
    return Error::success();
  }

  /// Where the data of the member begins.
  Expected<uint64_t> dataOf(const Member &member) const {
    if (!member.name.ends_with(kSuffix)) return fail("member '" + member.name + "' is not an NPY file");
    if (member.flags & 1) return fail("member '" + member.name + "' is encrypted");
    if (member.method != kStored && member.method != kDeflated)
      return fail("member '" + member.name + "' is packed by method " + Twine(member.method) +
                  ", expected stored (0) or deflated (8)");
    if (!holds(member.offset, kLocalBytes) || u32(bytes, member.offset) != kLocalSignature)
      return fail("member '" + member.name + "' has no local header where the directory says");
    const uint64_t begin =
        member.offset + kLocalBytes + u16(bytes, member.offset + 26) + u16(bytes, member.offset + 28);
    if (!holds(begin, member.packed)) return fail("member '" + member.name + "' ends outside the file");
    return begin;
  }

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

  std::shared_ptr<const Archive> archive;
  StringRef bytes;
  std::vector<Member> members;
  std::vector<uint64_t> begins;  // of their data
};

}  // namespace

Expected<std::vector<NamedArray>> openNpz(std::shared_ptr<const MemoryBuffer> file, StringRef place) {
  return catchingBadAlloc("to read the arrays", [&]() -> Expected<std::vector<NamedArray>> {
    const StringRef bytes = file->getBuffer();
    return ArchiveReader(std::make_shared<Archive>(Archive{std::move(file), bytes, place.str()})).read();
  });
}

Expected<std::vector<NamedArray>> parseNpz(StringRef bytes, StringRef place) {
  return catchingBadAlloc("to read the arrays", [&]() -> Expected<std::vector<NamedArray>> {
    auto arrays = ArchiveReader(std::make_shared<Archive>(Archive{nullptr, bytes, place.str()})).read();
    if (!arrays) return arrays;
    for (NamedArray &array : *arrays)
      if (Error error = readElements(array)) return error;
    return arrays;
  });
}

}  // namespace gradc
