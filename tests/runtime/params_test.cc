// MXNet's files of parameters against files that MXNet 1.9.1 wrote or read (tests/oracles/mxnet/params_files.py), and
// against files that no writer should have made.
#include "runtime/arrays/params.h"

#include "runtime/arrays/archive.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using Arrays = std::vector<NamedArray>;

std::string bytesOf(StringRef name) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file = MemoryBuffer::getFile(("testdata/params/" + name).str());
  if (file) return (*file)->getBuffer().str();
  ADD_FAILURE() << name.str();
  return "";
}

/// All of the file, elements too.
Expected<Arrays> parse(StringRef bytes, std::vector<std::string> *notes = nullptr) {
  std::vector<std::string> own;
  Expected<Arrays> arrays = openArchive(MemoryBuffer::getMemBufferCopy(bytes), "x.params", notes ? *notes : own);
  if (!arrays) return arrays;
  for (NamedArray &array : *arrays)
    if (Error error = readElements(array)) return error;
  return arrays;
}

Arrays parsed(StringRef bytes, std::vector<std::string> *notes = nullptr) {
  Expected<Arrays> arrays = parse(bytes, notes);
  if (arrays) return std::move(*arrays);
  ADD_FAILURE() << toString(arrays.takeError());
  return {};
}

const Array &find(const Arrays &arrays, StringRef name) {
  for (const NamedArray &array : arrays)
    if (array.name == name) return array.array;
  ADD_FAILURE() << name.str();
  static const Array none;
  return none;
}

std::string refusal(StringRef bytes) {
  GradcError error = errorOf(parse(bytes));
  EXPECT_EQ(error.kind, ErrorKind::BadTensorFile) << error.message;
  EXPECT_TRUE(StringRef(error.message).starts_with("'x.params': byte ")) << error.message;
  return error.message;
}

std::string written(ArrayRef<NamedArray> arrays, StringRef aux = "") {
  std::string bytes;
  raw_string_ostream os(bytes);
  cantFail(writeParams(os, arrays, [&](StringRef name) { return name == aux; }));
  return os.str();
}

using Shape = std::vector<int64_t>;
const std::vector<float> kWeight = {0.5f, -1, 2, 3, 1e-40f, -0.0f}, kMean = {1, INFINITY, -2.25f};

/// Bits, because −0 equals 0.
template <class T> void expectValues(const Array &array, Shape shape, std::vector<T> values) {
  EXPECT_EQ(array.shape, shape);
  ASSERT_EQ(array.bytes.size(), values.size() * sizeof(T));
  EXPECT_EQ(std::memcmp(array.bytes.data(), values.data(), array.bytes.size()), 0);
}

TEST(Params, ReadsEveryVersion) {
  for (StringRef name : {"v0.params", "v1.params", "dense.params"}) {
    SCOPED_TRACE(name.str());
    const Arrays arrays = parsed(bytesOf(name));
    EXPECT_EQ(find(arrays, "weight").dtype, DType::Float32);
    expectValues(find(arrays, "weight"), {2, 3}, kWeight);
    expectValues(find(arrays, "mean"), {3}, kMean);
  }
}

TEST(Params, ReadsEveryTypeThatMxnetWrites) {
  const Arrays arrays = parsed(bytesOf("dense.params"));
  std::vector<std::string> names;
  for (const NamedArray &array : arrays) names.push_back(array.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "mean", "float64", "float16", "uint8", "int32", "int8", "int64",
                                             "gluon"}));
  const std::pair<StringRef, DType> types[] = {{"float64", DType::Float64}, {"float16", DType::Float16},
                                               {"uint8", DType::UInt8},     {"int32", DType::Int32},
                                               {"int8", DType::Int8},       {"int64", DType::Int64}};
  for (auto [name, type] : types) EXPECT_EQ(find(arrays, name).dtype, type) << name.str();
  expectValues<double>(find(arrays, "float64"), {2, 1}, {0, 100});
  expectValues<uint16_t>(find(arrays, "float16"), {2, 1}, {0x3c00, 0x5640});  // 1, 100
  expectValues<uint8_t>(find(arrays, "uint8"), {2, 1}, {2, 100});
  expectValues<int32_t>(find(arrays, "int32"), {2, 1}, {3, 100});
  expectValues<int8_t>(find(arrays, "int8"), {2, 1}, {4, 100});
  expectValues<int64_t>(find(arrays, "int64"), {2, 1}, {5, 100});
  expectValues<float>(find(arrays, "gluon"), {1}, {7});
}

TEST(Params, ReadsArraysOfNumpysShapes) {
  const Arrays arrays = parsed(bytesOf("numpy.params"));
  expectValues<float>(find(arrays, "scalar"), {}, {2.5f});
  expectValues<float>(find(arrays, "empty"), {0, 3}, {});
  EXPECT_EQ(find(arrays, "flag").dtype, DType::Bool);
  expectValues<uint8_t>(find(arrays, "flag"), {3}, {1, 0, 1});
}

TEST(Params, ReadsSparseArraysAsDenseOnesAndSaysSo) {
  std::vector<std::string> notes;
  const Arrays arrays = parsed(bytesOf("sparse.params"), &notes);
  expectValues<float>(find(arrays, "rows"), {5, 2}, {0, 0, 1, 2, 0, 0, 3, 4, 0, 0});
  expectValues<float>(find(arrays, "csr"), {3, 4}, {1, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0});
  EXPECT_EQ(notes, (std::vector<std::string>{"'x.params': 'rows' is row-sparse, read as a dense array",
                                             "'x.params': 'csr' is CSR, read as a dense array"}));
}

TEST(Params, WritesWhatMxnetWrites) {
  EXPECT_EQ(written(parsed(bytesOf("dense.params")), "mean").substr(0, 100), bytesOf("dense.params").substr(0, 100));
  Arrays arrays = parsed(bytesOf("dense.params"));
  arrays.pop_back();  // which has no prefix there
  std::string expected = bytesOf("dense.params");
  const std::string bytes = written(arrays, "mean");
  const Arrays again = parsed(bytes);
  ASSERT_EQ(again.size(), arrays.size());
  for (auto [left, right] : zip(arrays, again)) {
    EXPECT_EQ(left.name, right.name);
    EXPECT_EQ(left.array.dtype, right.array.dtype);
    EXPECT_EQ(left.array.shape, right.array.shape);
    EXPECT_EQ(left.array.bytes, right.array.bytes);
  }
  EXPECT_TRUE(StringRef(bytes).contains("aux:mean"));
  EXPECT_TRUE(StringRef(bytes).contains("arg:weight"));
}

TEST(Params, WritesNothingThatMxnetCannotRead) {
  auto refuse = [](Array array) {
    std::string bytes;
    raw_string_ostream os(bytes);
    const NamedArray named[] = {{"good", {DType::Float32, {1}, std::vector<char>(4)}}, {"bad", std::move(array)}};
    GradcError error = errorOf(writeParams(os, named, [](StringRef) { return false; }));
    EXPECT_EQ(error.kind, ErrorKind::UnsupportedOption);
    EXPECT_EQ(os.str(), "");
    return error.message;
  };
  EXPECT_EQ(refuse({DType::UInt32, {1}, std::vector<char>(4)}),
            "array 'bad' has elements of type uint32, which MXNet's files of parameters cannot hold");
  EXPECT_EQ(refuse({DType::Float32, {}, std::vector<char>(4)}),
            "array 'bad' has no dimensions, which MXNet's files of parameters cannot hold");
  EXPECT_EQ(refuse({DType::Float32, {0, 3}, {}}),
            "array 'bad' has no elements, which MXNet's files of parameters cannot hold");
}

// ---- bad files

TEST(Params, EveryTruncationIsAnError) {
  for (StringRef name : {"v0.params", "v1.params", "dense.params", "sparse.params", "numpy.params"}) {
    const std::string bytes = bytesOf(name);
    for (size_t size = 8; size < bytes.size(); ++size)
      EXPECT_TRUE(StringRef(refusal(StringRef(bytes).take_front(size))).contains("the file ends inside "))
          << name.str() << " " << size;
    EXPECT_TRUE(StringRef(refusal(bytes + "x")).contains("the file goes on after the last name"));
  }
}

/// A file with one array, of the bytes given, and its name.
std::string fileOf(StringRef array, StringRef name = "w") {
  auto u64 = [](uint64_t value) { return std::string(reinterpret_cast<const char *>(&value), sizeof(value)); };
  return u64(0x112) + u64(0) + u64(1) + array.str() + u64(1) + u64(name.size()) + name.str();
}
template <class... Ts> std::string packed(Ts... values) {
  std::string out;
  (out.append(reinterpret_cast<const char *>(&values), sizeof(values)), ...);
  return out;
}
constexpr uint32_t kV2 = 0xf993fac9;

TEST(Params, NumbersThatNoFileHas) {
  auto dense = [](int32_t storage, int32_t rank, int64_t dim, int32_t type) {
    return fileOf(packed(kV2, storage, rank, dim, int32_t{1}, int32_t{0}, type, 1.5f));
  };
  expectValues<float>(find(parsed(dense(0, 1, 1, 0)), "w"), {1}, {1.5f});
  EXPECT_EQ(refusal(dense(3, 1, 1, 0)), "'x.params': byte 28: array 0 has storage type 3, expected 0 (dense), 1 "
                                        "(row-sparse) or 2 (CSR)");
  EXPECT_EQ(refusal(dense(0, 65, 1, 0)), "'x.params': byte 32: array 0 has 65 dimensions, expected at most 64");
  EXPECT_EQ(refusal(dense(0, -1, 1, 0)), "'x.params': byte 32: array 0 has -1 dimensions, expected at most 64");
  EXPECT_EQ(refusal(dense(0, 0, 1, 0)), "'x.params': byte 36: array 0 has no value");
  EXPECT_EQ(refusal(dense(0, 1, 1, 99)), "'x.params': byte 52: array 0 has elements of type 99, which is not known");
  EXPECT_EQ(refusal(dense(0, 1, int64_t{1} << 33, 0)), "'x.params': byte 77: the file ends inside array 0");
  for (int64_t dim : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 50})
    EXPECT_TRUE(StringRef(refusal(dense(0, 1, dim, 0))).contains("which no tensor has")) << dim;
  EXPECT_EQ(refusal(fileOf(packed(uint32_t{100}))),
            "'x.params': byte 24: array 0 has 100 dimensions, expected at most 64");
}

TEST(Params, IndicesOfSparseArraysAreChecked) {
  auto rows = [](int64_t first, int64_t second) {
    const int64_t two = 2, one = 1, five = 5;
    return fileOf(packed(kV2, int32_t{1}, int32_t{2}, two, one, int32_t{2}, five, one, int32_t{1}, int32_t{0},
                         int32_t{0}, int32_t{6}, int32_t{1}, two, 1.0f, 2.0f, first, second));
  };
  expectValues<float>(find(parsed(rows(0, 4)), "w"), {5, 1}, {1, 0, 0, 0, 2});
  for (auto [first, second] : {std::pair<int64_t, int64_t>{-1, 1}, {0, 5}, {2, 2}, {3, 1}, {0, INT64_MAX}})
    EXPECT_TRUE(StringRef(refusal(rows(first, second))).contains("expected ascending rows from 0 to 4"));
  auto csr = [](int64_t middle, int64_t end, int32_t column) {
    const int64_t two = 2, three = 3;
    return fileOf(packed(kV2, int32_t{2}, int32_t{1}, two, int32_t{2}, two, two, int32_t{1}, int32_t{0}, int32_t{0},
                         int32_t{6}, int32_t{1}, three, int32_t{4}, int32_t{1}, two, 1.0f, 2.0f, int64_t{0}, middle,
                         end, column, int32_t{1}));
  };
  expectValues<float>(find(parsed(csr(1, 2, 0)), "w"), {2, 2}, {1, 0, 0, 2});
  for (auto [middle, end] : {std::pair<int64_t, int64_t>{3, 2}, {-1, 2}, {1, 3}, {2, 1}})
    EXPECT_TRUE(StringRef(refusal(csr(middle, end, 0))).contains("do not ascend from 0 to 2")) << middle << " " << end;
  for (int32_t column : {-1, 2})
    EXPECT_TRUE(StringRef(refusal(csr(1, 2, column))).contains("expected ascending columns from 0 to 1"));
  EXPECT_TRUE(StringRef(refusal(csr(2, 2, 1))).contains("column 1 of a CSR array"));
}

TEST(Params, NamesAreDistinct) {
  std::string bytes = bytesOf("v1.params");
  const size_t at = bytes.find("aux:mean");
  EXPECT_EQ(refusal(StringRef(bytes).take_front(at - 8).str() + packed(uint64_t{10}) + "aux:weight"),
            "'x.params': byte 150: two arrays of one name: 'arg:weight' and 'aux:weight'");
  EXPECT_EQ(refusal(StringRef(bytes).take_front(at - 8).str() + packed(uint64_t{6}) + "weight"),
            "'x.params': byte 150: two arrays of one name: 'arg:weight' and 'weight'");
  const size_t names = bytes.find("arg:weight") - 16;
  bytes[names] = 0;
  EXPECT_EQ(refusal(StringRef(bytes).take_front(names + 8)), "'x.params': byte 124: 0 names for 2 arrays");
}

}  // namespace
}  // namespace gradc
