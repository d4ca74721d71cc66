// NPY and NPZ against bytes that NumPy 1.23 wrote, and against files no writer should have made.
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/npz_writer.h"

#include "runtime/arrays/elements.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>
#include <zlib.h>

using namespace llvm;

namespace gradc {
namespace {

using gradc::testing::describeError;

std::string pad(size_t n) { return std::string(n, ' '); }

// What numpy.save writes: 118 bytes of header with the padding and the line end.
std::string numpyFile(StringRef dict, StringRef data) {
  std::string header = dict.str() + pad(117 - dict.size()) + "\n";
  return std::string("\x93NUMPY\1\0v\0", 10) + header + data.str();
}
std::string fileOf(unsigned major, StringRef dict, StringRef data) {
  std::string header = dict.str() + "\n", length;
  for (unsigned i = 0; i < (major == 1 ? 2 : 4); ++i) length += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return "\x93NUMPY" + std::string(1, static_cast<char>(major)) + std::string(1, '\0') + length + header + data.str();
}
std::string written(const Array &array) {
  std::string bytes;
  raw_string_ostream os(bytes);
  cantFail(writeNpy(os, array.view()));
  return os.str();
}
std::string writtenNpz(ArrayRef<NamedArray> arrays) {
  std::string bytes;
  raw_string_ostream os(bytes);
  cantFail(writeNpz(os, arrays));
  return os.str();
}
Array parsed(StringRef bytes) {
  Expected<Array> array = parseNpy(bytes, "x.npy");
  if (!array) {
    ADD_FAILURE() << toString(array.takeError());
    return Array();
  }
  return std::move(*array);
}
std::string refusal(StringRef bytes) {
  GradcError error = errorOf(parseNpy(bytes, "x.npy"));
  EXPECT_EQ(error.kind, ErrorKind::BadTensorFile) << error.message;
  return error.message;
}
std::string npzRefusal(StringRef bytes) {
  GradcError error = errorOf(parseNpz(bytes, "x.npz"));
  EXPECT_EQ(error.kind, ErrorKind::BadTensorFile) << error.message;
  return error.message;
}

const StringRef kFloatData("\000\000\300\077\000\000\000\300\000\000@@\000\000\200@\000\000\000\000\000\000\200\077",
                           24);

TEST(Npy, RUN_04_ReadsWhatNumpyWrites) {
  Array array = parsed(numpyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", kFloatData));
  EXPECT_EQ(array.dtype, DType::Float32);
  EXPECT_EQ(array.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(valuesOf<float>(array), (std::vector<float>{1.5f, -2, 3, 4, 0, 1}));
}

TEST(Npy, RUN_04_SwapsForeignByteOrder) {
  Array array = parsed(numpyFile("{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3), }",
                                 StringRef("\0\1\0\2\0\3\0\4\0\5\0\6", 12)));
  EXPECT_EQ(array.dtype, DType::Int16);
  EXPECT_EQ(valuesOf<int16_t>(array), (std::vector<int16_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, RUN_04_TransposesFortranOrder) {
  Array array = parsed(numpyFile("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\6"));
  EXPECT_EQ(valuesOf<uint8_t>(array), (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  // Element (i,j,k) of a (2,3,2) array holds i + 2j + 6k, the order of its bytes.
  std::string data;
  for (char i = 0; i < 12; ++i) data += i;
  array = parsed(numpyFile("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3, 2), }", data));
  EXPECT_EQ(valuesOf<int8_t>(array), (std::vector<int8_t>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

TEST(Npy, RUN_04_ReadsScalarsAndEmptyArrays) {
  Array scalar =
      parsed(numpyFile("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", StringRef("\0\0\0\0\0\0\034@", 8)));
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(valuesOf<double>(scalar), std::vector<double>{7});
  Array empty = parsed(numpyFile("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 0, 3), }", ""));
  EXPECT_EQ(empty.shape, (std::vector<int64_t>{2, 0, 3}));
  EXPECT_TRUE(empty.bytes.empty());
}

TEST(Npy, RUN_04_ReadsEveryDType) {
  struct Row {
    StringRef descr;
    DType dtype;
  };
  for (Row row : {Row{"<f2", DType::Float16},
                  {"<f4", DType::Float32},
                  {"<f8", DType::Float64},
                  {"|u1", DType::UInt8},
                  {"<u2", DType::UInt16},
                  {"<u4", DType::UInt32},
                  {"<u8", DType::UInt64},
                  {"|i1", DType::Int8},
                  {"<i2", DType::Int16},
                  {"<i4", DType::Int32},
                  {"<i8", DType::Int64},
                  {"|b1", DType::Bool}}) {
    std::string data(dtypeBytes(row.dtype), '\0');
    data[0] = 1;
    std::string file = numpyFile("{'descr': '" + row.descr.str() + "', 'fortran_order': False, 'shape': (1,), }", data);
    Array array = parsed(file);
    EXPECT_EQ(array.dtype, row.dtype);
    EXPECT_EQ(std::string(array.bytes.begin(), array.bytes.end()), data);
    EXPECT_EQ(written(array), file) << row.descr.str();
  }
}

TEST(Npy, RUN_04_ReadsVersions2And3AndLooseSpelling) {
  for (unsigned major : {1u, 2u, 3u}) {
    Array array = parsed(fileOf(major, "{\"shape\":(2L,),'fortran_order' : False,'descr':'=u1'}", "\7\10"));
    EXPECT_EQ(array.shape, std::vector<int64_t>{2});
    EXPECT_EQ(valuesOf<uint8_t>(array), (std::vector<uint8_t>{7, 8}));
  }
}

TEST(Npy, RUN_04_WritesWhatNumpyWrites) {
  EXPECT_EQ(written(floats({3, 2}, {1.5f, -2, 3, 4, 0, 1})),
            numpyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", kFloatData));
  EXPECT_EQ(written(doubles({}, {7})),
            numpyFile("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", StringRef("\0\0\0\0\0\0\034@", 8)));
  EXPECT_EQ(written(arrayOf<int64_t>(DType::Int64, {2, 0, 3}, {})),
            numpyFile("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 0, 3), }", ""));
  EXPECT_EQ(written(arrayOf<uint8_t>(DType::Bool, {1}, {1})),
            numpyFile("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", "\1"));
}

TEST(Npy, RUN_04_RefusesMalformedFiles) {
  StringRef good = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}";
  EXPECT_EQ(refusal(""), "'x.npy': not an NPY file");
  EXPECT_EQ(refusal("PK\3\4 something else"), "'x.npy': not an NPY file");
  EXPECT_EQ(refusal(fileOf(4, good, "ab")), "'x.npy': NPY version 4.0 is not known, expected 1.0, 2.0 or 3.0");
  EXPECT_EQ(refusal(StringRef("\x93NUMPY\1\0\xff\xff{", 11)), "'x.npy': the file ends inside the header");
  EXPECT_EQ(refusal(StringRef("\x93NUMPY\2\0\1\0", 10)), "'x.npy': the file ends inside the header");
  EXPECT_EQ(refusal(fileOf(1, good, "a")),
            "'x.npy': shape (2,) of uint8 is 2 elements of 1 byte, the file has 1 byte of data");
  EXPECT_EQ(refusal(fileOf(1, good, "abc")),
            "'x.npy': shape (2,) of uint8 is 2 elements of 1 byte, the file has 3 bytes of data");
  EXPECT_EQ(refusal(fileOf(1, "[1]", "")), "'x.npy': the header is not a dict");
  EXPECT_EQ(refusal(fileOf(1, "{'descr': '|u1', 'shape': (2,)}", "ab")),
            "'x.npy': the header needs 'descr', 'fortran_order' and 'shape'");
  EXPECT_EQ(refusal(fileOf(1, "{'descr': '|u1', 'descr': '|u1'}", "")), "'x.npy': header key 'descr' is repeated");
  EXPECT_EQ(refusal(fileOf(1, "{'order': 1}", "")), "'x.npy': unknown header key 'order'");
  EXPECT_EQ(refusal(fileOf(1, "{'shape': (-1,)}", "")), "'x.npy': 'shape' has a dimension that is not a length");
  EXPECT_EQ(refusal(fileOf(1, "{'shape': (99999999999999999999,)}", "")),
            "'x.npy': 'shape' has a dimension that is not a length");
  EXPECT_EQ(refusal(fileOf(1, "{'descr': [('a', '<f4')]}", "")),
            "'x.npy': the element type is a record, expected a plain type such as '<f4'");
  EXPECT_EQ(refusal(fileOf(1, "{'descr': '|O'}", "")), "'x.npy': element type '|O' is not supported");
  EXPECT_EQ(refusal(fileOf(1, good.str() + "x", "ab")), "'x.npy': text after the header dict");
  EXPECT_EQ(refusal(fileOf(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\2")),
            "'x.npy': a bool element is neither 0 nor 1");
}

// np.save of np.array([1, -2], ml_dtypes.bfloat16).
TEST(Npy, RUN_04_TwoRawBytesAreBfloat16) {
  const std::string file =
      numpyFile("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", StringRef("\x80\x3f\0\xc0", 4));
  const Array array = cantFail(parseNpy(file, "x.npy"));
  EXPECT_EQ(array.dtype, DType::BFloat16);
  EXPECT_EQ(readElement(array.view(), 0), 1);
  EXPECT_EQ(readElement(array.view(), 1), -2);
  EXPECT_EQ(written(array), file);
}

TEST(Npy, RUN_04_HugeShapesAreRefusedBeforeAllocation) {
  EXPECT_EQ(
      refusal(fileOf(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (4611686018427387904, 4)}", "")),
      "'x.npy': shape (4611686018427387904,4) is out of range, expected dimensions from 0 and at most 2^48 elements");
  EXPECT_EQ(refusal(fileOf(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (281474976710656,)}", "")),
            "'x.npy': shape (281474976710656,) of float64 is 281474976710656 elements of 8 bytes, "
            "the file has 0 bytes of data");
  EXPECT_EQ(
      refusal(fileOf(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (1099511627776, 1099511627776, 0)}", "")),
      "'x.npy': shape (1099511627776,1099511627776,0) is out of range, expected dimensions from 0 and at most 2^48 "
      "elements");
}

TEST(Npy, RUN_04_NoPrefixOrFlippedByteCrashes) {
  std::string good = numpyFile("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", kFloatData);
  for (size_t size = 0; size < good.size(); ++size) refusal(StringRef(good).take_front(size));
  for (size_t at = 0; at < good.size(); ++at)
    for (unsigned char flip : {0x01, 0x10, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      consumeError(parseNpy(bad, "x.npy").takeError());
    }
}

// numpy.savez_compressed(x=numpy.array([1, 2], 'u1'), y=numpy.array(True)): deflated, zip64 fields in local headers.
const char kCompressed[] =
    "PK\003\004-\000\000\000\010\000\000\000!\000b\002e_\377\377\377\377\377\377\377\377\005\000\024\000x.npy\001\000"
    "\020\000\202\000\000\000\000\000\000\000F\000\000\000\000\000\000\000\233\354\027\352\033\020\311\310P\306P\255"
    "\236\222Z\234\\\244n\245\240^Sj\250\256\243\240\236\226_TR\224\230\027\237_\224\222\012\022wK\314)N\005\212\027g$"
    "\026\244\002\371\032F:\232:\012\265\012\024\000.F&\000PK\003\004-\000\000\000\010\000\000\000!\000\202-\370\323"
    "\377\377\377\377\377\377\377\377\005\000\024\000y.npy\001\000\020\000\201\000\000\000\000\000\000\000C\000\000"
    "\000\000\000\000\000\233\354\027\352\033\020\311\310P\306P\255\236\222Z\234\\\244n\245\240^\223d\250\256\243\240"
    "\236\226_TR\224\230\027\237_\224\222\012\022wK\314)N\005\212\027g$\026\244\002\371\032\232:\012\265\012\024\001.F"
    "\000PK\001\002-\003-\000\000\000\010\000\000\000!\000b\002e_F\000\000\000\202\000\000\000\005\000\000\000\000\000"
    "\000\000\000\000\000\000\200\001\000\000\000\000x.npyPK\001\002-\003-\000\000\000\010\000\000\000!\000\202-\370"
    "\323C\000\000\000\201\000\000\000\005\000\000\000\000\000\000\000\000\000\000\000\200\001}\000\000\000y.npyPK\005"
    "\006\000\000\000\000\002\000\002\000f\000\000\000\367\000\000\000\000";
const StringRef compressed(kCompressed, sizeof(kCompressed));

TEST(Npz, RUN_04_ReadsDeflatedMembersInOrder) {
  std::vector<NamedArray> arrays = cantFail(parseNpz(compressed, "x.npz"));
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "x");
  EXPECT_EQ(valuesOf<uint8_t>(arrays[0].array), (std::vector<uint8_t>{1, 2}));
  EXPECT_EQ(arrays[1].name, "y");
  EXPECT_EQ(arrays[1].array.dtype, DType::Bool);
  EXPECT_TRUE(arrays[1].array.shape.empty());
}

std::vector<NamedArray> twoArrays() {
  return {{"w", floats({2}, {1, 2})}, {"b/µ", arrayOf<int32_t>(DType::Int32, {0}, {})}};
}

TEST(Npz, RUN_04_RoundTripsStoredAndDated1980) {
  std::string bytes = writtenNpz(twoArrays());
  EXPECT_EQ(bytes, writtenNpz(twoArrays()));
  EXPECT_EQ(bytes.substr(8, 2), std::string(2, '\0')) << "stored";
  EXPECT_EQ(bytes.substr(10, 4), std::string("\0\0\x21\0", 4)) << "1980-01-01 00:00";
  std::vector<NamedArray> arrays = cantFail(parseNpz(bytes, "x.npz"));
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "w");
  EXPECT_EQ(valuesOf<float>(arrays[0].array), (std::vector<float>{1, 2}));
  EXPECT_EQ(arrays[1].name, "b/µ");
  EXPECT_EQ(arrays[1].array.shape, std::vector<int64_t>{0});
}

TEST(Npz, RUN_04_EmptyArchive) { EXPECT_TRUE(cantFail(parseNpz(writtenNpz({}), "x.npz")).empty()); }

std::string little(uint64_t value, size_t width) {
  std::string out;
  for (; width-- > 0; value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

// One stored member with a data descriptor, sizes and offset in zip64 fields, and a zip64 end record.
std::string zip64Archive(uint64_t claimedSize) {
  std::string npy = written(floats({1}, {5}));
  uint64_t crc = crc32(0, reinterpret_cast<const Bytef *>(npy.data()), static_cast<uInt>(npy.size()));
  std::string middle = little(45, 2) + little(8, 2) + little(0, 2) + little(0, 4);
  std::string local = "PK\3\4" + middle + little(0, 12) + little(5, 2) + little(0, 2) + "a.npy" + npy + "PK\7\10" +
                      little(crc, 4) + little(npy.size(), 8) + little(npy.size(), 8);
  std::string extra = little(0x7777, 2) + little(1, 2) + "?" + little(1, 2) + little(24, 2) + little(claimedSize, 8) +
                      little(npy.size(), 8) + little(0, 8);
  std::string central = "PK\1\2" + little(45, 2) + middle + little(crc, 4) + little(~0u, 4) + little(~0u, 4) +
                        little(5, 2) + little(extra.size(), 2) + little(0, 10) + little(~0u, 4) + "a.npy" + extra;
  std::string end64 = "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + little(1, 8) +
                      little(1, 8) + little(central.size(), 8) + little(local.size(), 8);
  std::string locator = "PK\6\7" + little(0, 4) + little(local.size() + central.size(), 8) + little(1, 4);
  std::string end = "PK\5\6" + little(0, 4) + little(0xffff, 2) + little(0xffff, 2) + little(~0u, 4) + little(~0u, 4) +
                    little(7, 2) + "comment";
  return local + central + end64 + locator + end;
}

TEST(Npz, RUN_04_ReadsZip64AndDataDescriptors) {
  std::vector<NamedArray> arrays = cantFail(parseNpz(zip64Archive(132), "x.npz"));
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(valuesOf<float>(arrays[0].array), std::vector<float>{5});
}

TEST(Npz, RUN_04_RefusesMalformedArchives) {
  EXPECT_EQ(npzRefusal("PK"), "'x.npz': not an NPZ file: no end of central directory");
  EXPECT_EQ(npzRefusal(zip64Archive(131)), "'x.npz': member 'a.npy' is damaged: its checksum does not match");
  std::string bytes = writtenNpz(twoArrays());
  std::string damaged = bytes;
  damaged[30 + 5 + 130] ^= 1;
  EXPECT_EQ(npzRefusal(damaged), "'x.npz': member 'w.npy' is damaged: its checksum does not match");
  std::string encrypted = bytes;
  encrypted[encrypted.find("PK\1\2") + 8] |= 1;
  EXPECT_EQ(npzRefusal(encrypted), "'x.npz': member 'w.npy' is encrypted");
  std::string packed = bytes;
  packed[packed.find("PK\1\2") + 10] = 12;
  EXPECT_EQ(npzRefusal(packed), "'x.npz': member 'w.npy' is packed by method 12, expected stored (0) or deflated (8)");
  std::string other = bytes;
  other[other.find("PK\1\2") + 46 + 4] = 'x';
  EXPECT_EQ(npzRefusal(other), "'x.npz': member 'w.npx' is not an NPY file");
  std::string elsewhere = bytes;
  elsewhere[elsewhere.find("PK\1\2") + 42] = 1;
  EXPECT_EQ(npzRefusal(elsewhere), "'x.npz': member 'w.npy' has no local header where the directory says");
}

TEST(Npz, RUN_04_RefusesOverlappingMembers) {
  // Two entries of the directory for the same bytes.
  std::string bytes = writtenNpz({{"w", floats({100}, std::vector<float>(100))}});
  const size_t central = bytes.find("PK\1\2"), end = bytes.find("PK\5\6");
  const std::string entry = bytes.substr(central, end - central);
  bytes.replace(end, std::string::npos,
                entry + "PK\5\6" + little(0, 4) + little(2, 2) + little(2, 2) + little(2 * entry.size(), 4) +
                    little(central, 4) + little(0, 2));
  EXPECT_EQ(npzRefusal(bytes), "'x.npz': members overlap");
}

TEST(Npz, RUN_04_RefusesMembersOfOneName) {
  const Array one = floats({1}, {1});
  EXPECT_EQ(npzRefusal(writtenNpz({{"w", one}, {"v", one}, {"w", one}})), "'x.npz': two members are called 'w.npy'");
}

TEST(Npz, RUN_04_InflationIsBounded) {
  // A member that claims a gigabyte from 70 bytes is refused by the ratio deflate can reach.
  std::string bomb = compressed.str();
  size_t central = bomb.find("PK\1\2");
  bomb[central + 24 + 3] = 0x40;
  EXPECT_EQ(npzRefusal(bomb), "'x.npz': member 'x.npy' does not inflate to the size the directory says");
}

TEST(Npz, RUN_04_NoPrefixOrFlippedByteCrashes) {
  for (std::string good : {compressed.str(), zip64Archive(132)}) {
    for (size_t size = 0; size < good.size(); ++size) npzRefusal(StringRef(good).take_front(size));
    for (size_t at = 0; at < good.size(); ++at)
      for (unsigned char flip : {0x01, 0x10, 0x80}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        consumeError(parseNpz(bad, "x.npz").takeError());
      }
  }
}

TEST(Npy, RUN_04_BoolsAreWrittenAsZeroAndOne) {
  EXPECT_EQ(written(arrayOf<uint8_t>(DType::Bool, {3}, {0, 2, 255})),
            numpyFile("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", StringRef("\0\1\1", 3)));
}

// As numpy.lib.format.write_array does where version 1.0 has no room.
TEST(Npy, RUN_04_LongHeadersAreOfVersion2) {
  constexpr size_t kRank = 30000;
  const std::string bytes = written(floats(std::vector<int64_t>(kRank, 1), {2.5f}));
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\2\0", 8));
  EXPECT_EQ((bytes.size() - 4) % 64, 0u);
  EXPECT_EQ(refusal(bytes),
            "'x.npy': shape (30000 dimensions, more than 64) is out of range, expected dimensions from 0 "
            "and at most 2^48 elements");
  EXPECT_EQ(written(floats({1}, {2}))[6], 1);
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + std::string(70000, ' ');
  EXPECT_EQ(valuesOf<float>(parsed(fileOf(2, dict, StringRef("\0\0 @", 4)))), std::vector<float>{2.5f});
}

TEST(Npz, RUN_04_NamesThatNoArchiveHolds) {
  const std::vector<NamedArray> longest = {{std::string(65531, 'n'), floats({1}, {1})}, {"m", floats({1}, {2})}};
  const std::vector<NamedArray> read = cantFail(parseNpz(writtenNpz(longest), "x.npz"));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].name, longest[0].name);
  EXPECT_EQ(read[1].name, "m");
  std::string bytes;
  raw_string_ostream os(bytes);
  EXPECT_EQ(describeError(writeNpz(os, {{std::string(65532, 'n'), floats({1}, {1})}})),
            "[unsupported_option] the name '" + std::string(40, 'n') +
                "…' of an array is 65532 bytes long, an NPZ file holds names of at most 65531 bytes");
  EXPECT_EQ(os.str(), "");
}

}  // namespace
}  // namespace gradc
