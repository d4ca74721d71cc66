// Archives whose elements are read only when somebody needs them: what is refused before anything is inflated.
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"

#include "runtime/session/session.h"
#include "runtime/training/dataset.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>
#include <zlib.h>

using namespace llvm;

namespace gradc {
namespace {

using gradc::testing::TestGraph;

std::string little(uint64_t value, size_t width) {
  std::string out;
  for (; width-- > 0; value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

/// The deflate stream of `head` and then `chunks` chunks of 16 MiB of zeros, which is 16 KiB for each.
std::string deflated(StringRef head, size_t chunks) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  auto pack = [&](StringRef bytes, int flush) {
    std::string out(bytes.size() / 500 + 1000, '\0');
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef *>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, flush);
    out.resize(out.size() - stream.avail_out);
    return out;
  };
  // After a full flush a part depends on nothing before it, so it can be repeated.
  std::string out = pack(head, Z_FULL_FLUSH);
  static const std::string chunk = pack(std::string(size_t{16} << 20, '\0'), Z_FULL_FLUSH);
  for (size_t i = 0; i < chunks; ++i) out += chunk;
  out += pack("", Z_FINISH);
  deflateEnd(&stream);
  return out;
}

struct Packed {
  std::string name, data;
  uint64_t size;
  uint32_t crc;
};

std::unique_ptr<MemoryBuffer> archiveOf(ArrayRef<Packed> members) {
  std::string bytes, directory;
  for (const Packed &member : members) {
    const std::string common = little(20, 2) + little(0, 2) + little(8, 2) + little(0, 4) + little(member.crc, 4) +
                               little(member.data.size(), 4) + little(member.size, 4) + little(member.name.size(), 2) +
                               little(0, 2);
    directory += "PK\1\2" + little(20, 2) + common + little(0, 10) + little(bytes.size(), 4) + member.name;
    bytes += "PK\3\4" + common + member.name + member.data;
  }
  const size_t offset = bytes.size();
  bytes += directory + "PK\5\6" + little(0, 4) + little(members.size(), 2) + little(members.size(), 2) +
           little(directory.size(), 4) + little(offset, 4) + little(0, 2);
  return MemoryBuffer::getMemBufferCopy(bytes, "x.npz");
}

constexpr size_t kBombChunks = 127;  // almost 2 GiB
constexpr uint64_t kBombBytes = uint64_t{kBombChunks} << 24;

std::string headerFor(StringRef shape) {
  std::string dict = ("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }").str();
  dict.resize(117, ' ');
  return std::string("\x93NUMPY\1\0v\0", 10) + dict + "\n";
}

/// An array of 2 GiB in 2 MB. Its checksum is wrong, so that reading it is an error.
Packed bomb(StringRef name) {
  const std::string header = headerFor("(" + std::to_string(kBombBytes / 4) + ",)");
  return {(name + ".npy").str(), deflated(header, kBombChunks), header.size() + kBombBytes, 1};
}
Packed small(StringRef name, ArrayRef<float> values, uint32_t crcChange = 0) {
  const std::string content = headerFor("(" + std::to_string(values.size()) + ",)") +
                              std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
  const auto crc = crc32(0, reinterpret_cast<const Bytef *>(content.data()), static_cast<uInt>(content.size()));
  return {(name + ".npy").str(), deflated(content, 0), content.size(), static_cast<uint32_t>(crc) ^ crcChange};
}

/// What opening the archive as the bindings of a graph that adds x and y says, within a tenth of the time that
/// inflating takes.
std::string opened(std::unique_ptr<MemoryBuffer> file) {
  TestGraph g("s = elemwise_add(x, y)");
  const std::shared_ptr<const MemoryBuffer> shared(std::move(file));
  std::string message;
  const double seconds = testing::secondsOf([&] {
    Expected<std::vector<NamedArray>> arrays = openNpz(shared, "x.npz");
    message = !arrays ? errorOf(arrays.takeError()).message
                      : errorOf(Session::create(g.context, g, std::move(*arrays), {})).message;
  });
  EXPECT_LT(seconds, 0.5);
  return message;
}

TEST(NpzOpen, WhatNobodyNeedsIsNotInflated) {
  const float values[] = {1, 2};
  const Packed x = small("x", values), y = small("y", values);
  EXPECT_EQ(opened(archiveOf({x, y})), "success");
  EXPECT_EQ(opened(archiveOf({x, y, bomb("zzz")})), "'zzz' is bound, but the graph has no variable of that name");
  EXPECT_EQ(
      opened(archiveOf({bomb("x"), y})),
      "operator 'elemwise_add', node 's' (elemwise_add): input 0 has shape (532676608,), but input 1 has shape (2,)");
  EXPECT_EQ(opened(archiveOf({bomb("x"), bomb("x")})), "'x.npz': two members are called 'x.npy'");
}

TEST(NpzOpen, HeadersAreReadFromTheFirstBytes) {
  Packed noise = bomb("x"), cut = bomb("x"), other = bomb("x"), long1 = bomb("x");
  noise.data = deflated("no NPY file at all", kBombChunks);
  noise.size = 18 + kBombBytes;
  EXPECT_EQ(opened(archiveOf({noise})), "'x.npz:x.npy': not an NPY file");
  cut.size -= 4;
  EXPECT_EQ(
      opened(archiveOf({cut})),
      "'x.npz:x.npy': shape (532676608,) of float32 is 532676608 elements of 4 bytes, the file has 2130706428 bytes "
      "of data");
  other.data = deflated(headerFor("(1,)"), kBombChunks);
  EXPECT_EQ(opened(archiveOf({other})),
            "'x.npz:x.npy': shape (1,) of float32 is 1 element of 4 bytes, the file has 2130706432 bytes of data");
  long1.data = deflated(std::string("\x93NUMPY\2\0\0\0\0\x40", 12), kBombChunks);
  EXPECT_EQ(opened(archiveOf({long1})), "'x.npz:x.npy': the header is 1073741824 bytes long, expected at most 1048576");
}

// Both members are within the archive and together smaller than it, which only their places show.
TEST(NpzOpen, MembersThatOverlapInPart) {
  const float values[] = {1, 2};
  const Packed y = small("y", values);
  std::string bytes = archiveOf({small("x", values), y, small("z", values)})->getBuffer().str();
  const size_t entry = bytes.find("PK\1\2", bytes.find("PK\1\2") + 4);
  bytes.replace(entry + 20, 4, little(y.data.size() + 1, 4));  // it reaches into the next
  EXPECT_EQ(opened(MemoryBuffer::getMemBufferCopy(bytes, "x.npz")), "'x.npz': members overlap");
}

TEST(NpzOpen, DamageIsFoundWhenElementsAreRead) {
  const float values[] = {1, 2};
  std::shared_ptr<const MemoryBuffer> file = archiveOf({small("x", values, 1), small("y", values)});
  std::vector<NamedArray> arrays = cantFail(openNpz(file, "x.npz"));
  file.reset();  // the arrays keep it
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].array.shape, std::vector<int64_t>{2});
  EXPECT_TRUE(arrays[0].array.bytes.empty());
  EXPECT_EQ(errorOf(readElements(arrays[0])).message,
            "'x.npz': member 'x.npy' is damaged: its checksum does not match");
  cantFail(readElements(arrays[1]));
  cantFail(readElements(arrays[1]));  // once is enough
  EXPECT_EQ(valuesOf<float>(arrays[1].array), (std::vector<float>{1, 2}));
  EXPECT_EQ(arrays[1].archived, nullptr);
}

TEST(NpzOpen, ExamplesStayArchivedUntilTheyAreConverted) {
  const float values[] = {1, 2};
  std::vector<NamedArray> arrays = cantFail(openNpz(archiveOf({small("x", values), bomb("y")}), "x.npz"));
  Dataset data = cantFail(Dataset::select(arrays, {{"a", "x"}}, "x.npz"));
  EXPECT_EQ(data.column(0).data, nullptr);
  Array row = floats({1}, {0});
  EXPECT_EQ(errorOf(data.gather(0, {1u}, row.ref())).kind, ErrorKind::BindingMismatch);
  cantFail(data.convert(0, DType::Float32));
  cantFail(data.gather(0, {1u}, row.ref()));
  EXPECT_EQ(valuesOf<float>(row), std::vector<float>{2});
}

}  // namespace
}  // namespace gradc
