// A file is
//   u64 0x112, u64 0, u64 count, arrays, u64 count, names (u64 length, bytes)
// and an array, in the form of MXNet 1.0 and later (magic V2; V3 if it was saved under NumPy's shape semantics),
//   u32 magic, i32 storage type, [shape of the stored elements,] shape, i32 device type, i32 device number, i32 dtype,
//   [for each index array: i32 dtype, shape,] elements[, index arrays]
// where a shape is i32 rank, i64 dimensions, and what is in brackets exists in sparse arrays alone: row-sparse ones
// have the rows' numbers, CSR ones the beginning of each row and the columns. Older arrays (magic V1, or none) are
// dense: shape, device, dtype, elements; without a magic a shape is u32 rank, u32 dimensions. Everything is
// little-endian. Tested by tests/runtime/params_test.cc
#include "runtime/arrays/params.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/rules/inference.h"
#include "ir/tensor/shape.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <bit>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied");

constexpr uint64_t kListMagic = 0x112;
constexpr uint32_t kV1Magic = 0xf993fac8, kV2Magic = 0xf993fac9, kV3Magic = 0xf993faca;
constexpr size_t kLargestRankOfFile = 64;  // as that of a shape (ir/tensor/shape.h)
enum StorageType : int32_t { kDense = 0, kRowSparse = 1, kCsr = 2 };

struct DTypeRow {
  int32_t flag;
  DType type;
};
constexpr DTypeRow kDTypes[] = {
    {0, DType::Float32}, {1, DType::Float64}, {2, DType::Float16}, {3, DType::UInt8},     {4, DType::Int32},
    {5, DType::Int8},    {6, DType::Int64},   {7, DType::Bool},    {12, DType::BFloat16},
};

struct Failing {
  std::string place;

  Error at(uint64_t position, const Twine &what) const {
    return Failure(ErrorKind::BadTensorFile, "'" + place + "': byte " + Twine(position) + ": " + what);
  }
};

/// An array, or an index array of a sparse one.
struct Block {
  DType type = DType::Unknown;
  SmallVector<int64_t, 4> shape;
  uint64_t size = 0, offset = 0;  // elements, position in the file

  uint64_t bytes() const { return size * dtypeBytes(type); }
};

struct StoredArray {
  std::shared_ptr<const MemoryBuffer> file;
  Failing failing;
  StorageType storage = kDense;
  SmallVector<int64_t, 4> shape;
  Block elements;
  SmallVector<Block, 2> indices;
};

class StoredElements final : public ArchivedElements {
 public:
  explicit StoredElements(StoredArray array) : array(std::move(array)) {}

  Expected<std::vector<char>> read() const override {
    return catchingBadAlloc("to read the array", [&]() -> Expected<std::vector<char>> {
      const StringRef bytes = array.file->getBuffer().substr(array.elements.offset, array.elements.bytes());
      if (array.storage == kDense) return std::vector<char>(bytes.begin(), bytes.end());
      std::vector<char> dense(static_cast<size_t>(*numElements(array.shape)) * dtypeBytes(array.elements.type));
      Error error = array.storage == kRowSparse ? placeRows(bytes, dense) : placeCsr(bytes, dense);
      if (error) return error;
      return dense;
    });
  }

 private:
  /// Element i of an index array.
  int64_t index(size_t of, uint64_t i) const {
    const Block &block = array.indices[of];
    const char *from = array.file->getBufferStart() + block.offset;
    int64_t wide;
    int32_t narrow;
    if (block.type == DType::Int64) return std::memcpy(&wide, from + i * sizeof(wide), sizeof(wide)), wide;
    return std::memcpy(&narrow, from + i * sizeof(narrow), sizeof(narrow)), narrow;
  }
  Error bad(size_t of, const Twine &what) const { return array.failing.at(array.indices[of].offset, what); }

  Error placeRows(StringRef bytes, std::vector<char> &dense) const {
    const uint64_t count = array.indices[0].size, rowBytes = count ? bytes.size() / count : 0;
    int64_t before = -1;
    for (uint64_t i = 0; i < count; ++i) {
      const int64_t row = index(0, i);
      if (row <= before || row >= array.shape[0])
        return bad(0, "row " + Twine(row) + " of a row-sparse array, expected ascending rows from 0 to " +
                          Twine(array.shape[0] - 1));
      std::memcpy(dense.data() + static_cast<uint64_t>(row) * rowBytes, bytes.data() + i * rowBytes, rowBytes);
      before = row;
    }
    return Error::success();
  }

  Error placeCsr(StringRef bytes, std::vector<char> &dense) const {
    const uint64_t width = dtypeBytes(array.elements.type), count = array.elements.size;
    for (int64_t row = 0; row < array.shape[0]; ++row) {
      const int64_t begin = index(0, static_cast<uint64_t>(row)), end = index(0, static_cast<uint64_t>(row) + 1);
      if (begin < 0 || end < begin || static_cast<uint64_t>(end) > count || (row == 0 && begin != 0))
        return bad(0, "the beginnings of the rows of a CSR array do not ascend from 0 to " + Twine(count));
      for (int64_t i = begin, before = -1; i < end; ++i) {
        const int64_t column = index(1, static_cast<uint64_t>(i));
        if (column <= before || column >= array.shape[1])
          return bad(1, "column " + Twine(column) + " of a CSR array, expected ascending columns from 0 to " +
                            Twine(array.shape[1] - 1));
        const uint64_t to = static_cast<uint64_t>(row * array.shape[1] + column);
        std::memcpy(dense.data() + to * width, bytes.data() + static_cast<uint64_t>(i) * width, width);
        before = column;
      }
    }
    return Error::success();
  }

  StoredArray array;
};

class ParamsReader {
 public:
  ParamsReader(std::shared_ptr<const MemoryBuffer> file, StringRef place, std::vector<std::string> &notes)
      : file(std::move(file)), bytes(this->file->getBuffer()), failing{place.str()}, notes(notes) {}

  Expected<std::vector<NamedArray>> read() {
    if (Error error = readArrays()) return error;
    if (Error error = readNames()) return error;
    if (position != bytes.size()) return failing.at(position, "the file goes on after the last name");
    return std::move(arrays);
  }

 private:
  // ---- numbers. What is beyond the file sets `isCut`, which each reader of a record checks once.

  template <class T> T number() {
    T value{};
    if (bytes.size() - position < sizeof(T)) isCut = true;
    if (isCut) return value;
    std::memcpy(&value, bytes.data() + position, sizeof(T));
    position += sizeof(T);
    return value;
  }
  Error cut() const { return failing.at(bytes.size(), "the file ends inside " + record); }

  template <class Rank, class Dim> Error readShape(SmallVectorImpl<int64_t> &shape, Rank rank) {
    if (isCut) return cut();
    if (rank < Rank{0} || static_cast<uint64_t>(rank) > kLargestRankOfFile)
      return failing.at(position - sizeof(Rank), record + " has " + Twine(static_cast<int64_t>(rank)) +
                                                     " dimensions, expected at most " + Twine(kLargestRankOfFile));
    for (Rank i = 0; i < rank; ++i) shape.push_back(static_cast<int64_t>(number<Dim>()));
    if (isCut) return cut();
    if (!isPossible(shape) || is_contained(shape, kUnknownDim))
      return failing.at(position - static_cast<uint64_t>(rank) * sizeof(Dim),
                        record + " has shape " + toString(ShapeRef(shape)) + ", which no tensor has");
    return Error::success();
  }
  Error readShape(SmallVectorImpl<int64_t> &shape) { return readShape<int32_t, int64_t>(shape, number<int32_t>()); }

  Error readType(DType &type) {
    const int32_t flag = number<int32_t>();
    if (isCut) return cut();
    const auto *row = find_if(kDTypes, [&](const DTypeRow &one) { return one.flag == flag; });
    if (row == std::end(kDTypes))
      return failing.at(position - sizeof(flag),
                        record + " has elements of type " + Twine(flag) + ", which is not known");
    type = row->type;
    return Error::success();
  }

  /// Whose type and shape are known.
  Error takeElements(Block &block) {
    block.size = static_cast<uint64_t>(*numElements(block.shape));
    block.offset = position;
    if (block.bytes() > bytes.size() - position) return cut();
    position += block.bytes();
    return Error::success();
  }

  // ---- records

  Error readArrays() {
    record = "the header";
    const bool isList = number<uint64_t>() == kListMagic;
    number<uint64_t>();
    const uint64_t count = number<uint64_t>();
    if (isCut) return cut();
    if (!isList) return failing.at(0, "not a file of MXNet's parameters");
    for (uint64_t i = 0; i < count; ++i) {
      record = "array " + std::to_string(i);
      if (Error error = readArray()) return error;
    }
    return Error::success();
  }

  Error readArray() {
    StoredArray array{file, failing, kDense, {}, {}, {}};
    const uint32_t magic = number<uint32_t>();
    if (isCut) return cut();
    if (magic == kV2Magic || magic == kV3Magic) {
      if (Error error = readStorage(array)) return error;
    } else if (magic == kV1Magic) {
      if (Error error = readShape(array.shape)) return error;
    } else if (Error error = readShape<uint32_t, uint32_t>(array.shape, magic)) {
      return error;
    }
    if (array.shape.empty() && magic != kV3Magic) return failing.at(position, record + " has no value");
    number<int32_t>();
    number<int32_t>();  // the device
    if (Error error = readType(array.elements.type)) return error;
    return readBlocks(std::move(array));
  }

  /// Of the newer forms: storage type, shape of the stored elements, shape.
  Error readStorage(StoredArray &array) {
    const uint64_t begin = position;
    array.storage = static_cast<StorageType>(number<int32_t>());
    if (isCut) return cut();
    if (array.storage != kDense && array.storage != kRowSparse && array.storage != kCsr)
      return failing.at(begin, record + " has storage type " + Twine(static_cast<int32_t>(array.storage)) +
                                   ", expected 0 (dense), 1 (row-sparse) or 2 (CSR)");
    if (array.storage != kDense)
      if (Error error = readShape(array.elements.shape)) return error;
    return readShape(array.shape);
  }

  Error readBlocks(StoredArray array) {
    for (int32_t i = 0; i < static_cast<int32_t>(array.storage); ++i) {
      Block &block = array.indices.emplace_back();
      const uint64_t begin = position;
      if (Error error = readType(block.type)) return error;
      if (block.type != DType::Int64 && block.type != DType::Int32)
        return failing.at(begin,
                          record + " has indices of type " + dtypeName(block.type) + ", expected int32 or int64");
      if (Error error = readShape(block.shape)) return error;
    }
    if (array.storage == kDense) array.elements.shape = array.shape;
    if (Error error = takeElements(array.elements)) return error;
    for (Block &block : array.indices)
      if (Error error = takeElements(block)) return error;
    if (!fits(array)) return failing.at(array.elements.offset, record + " has index arrays that do not fit its shape");
    NamedArray &made = arrays.emplace_back();
    made.array = {array.elements.type, std::vector<int64_t>(array.shape.begin(), array.shape.end()), {}};
    storages.push_back(array.storage);
    made.archived = std::make_shared<StoredElements>(std::move(array));
    return Error::success();
  }

  static bool fits(const StoredArray &array) {
    if (array.storage == kDense) return true;
    if (array.storage == kRowSparse)
      return array.elements.shape.size() == array.shape.size() &&
             array.elements.shape[0] == static_cast<int64_t>(array.indices[0].size) &&
             ArrayRef(array.elements.shape).drop_front() == ArrayRef(array.shape).drop_front();
    return array.shape.size() == 2 && array.indices[0].size == static_cast<uint64_t>(array.shape[0]) + 1 &&
           array.indices[1].size == array.elements.size;
  }

  Error readNames() {
    record = "the names";
    const uint64_t at = position, count = number<uint64_t>();
    if (isCut) return cut();
    if (count != arrays.size()) return failing.at(at, Twine(count) + " names for " + Twine(arrays.size()) + " arrays");
    StringMap<std::string> known;  // as in the file, by name
    for (auto [array, storage] : zip(arrays, storages)) {
      const uint64_t begin = position, length = number<uint64_t>();
      if (isCut || length > bytes.size() - position) return cut();
      const StringRef given = bytes.substr(position, length);
      position += length;
      StringRef name = given;
      if (!name.consume_front("arg:")) name.consume_front("aux:");
      const auto [other, isNew] = known.try_emplace(name, given);
      if (!isNew) return failing.at(begin, "two arrays of one name: '" + other->second + "' and '" + given + "'");
      array.name = name.str();
      if (storage != kDense)
        notes.push_back("'" + failing.place + "': '" + array.name + "' is " +
                        (storage == kRowSparse ? "row-sparse" : "CSR") + ", read as a dense array");
    }
    return Error::success();
  }

  std::shared_ptr<const MemoryBuffer> file;
  StringRef bytes;
  Failing failing;
  std::vector<std::string> &notes;
  uint64_t position = 0;
  bool isCut = false;
  std::string record;  // what is being read
  std::vector<NamedArray> arrays;
  std::vector<StorageType> storages;  // parallel
};

template <class T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

/// What comes before the elements.
Expected<std::string> headerOf(const NamedArray &named) {
  const Array &array = named.array;
  auto refuse = [&](const Twine &what) {
    return Failure(ErrorKind::UnsupportedOption,
                   "array '" + named.name + "' " + what + ", which MXNet's files of parameters cannot hold");
  };
  const auto *row = find_if(kDTypes, [&](const DTypeRow &one) { return one.type == array.dtype; });
  if (row == std::end(kDTypes)) return refuse("has elements of type " + dtypeName(array.dtype));
  if (array.shape.empty()) return refuse("has no dimensions");
  if (is_contained(array.shape, 0)) return refuse("has no elements");
  std::string out;
  put(out, kV2Magic);
  put(out, static_cast<int32_t>(kDense));
  put(out, static_cast<int32_t>(array.shape.size()));
  for (int64_t dim : array.shape) put(out, dim);
  put(out, int32_t{1});  // the processor
  put(out, int32_t{0});
  put(out, row->flag);
  return out;
}

}  // namespace

bool isParams(StringRef bytes) {
  uint64_t magic = 0;
  if (bytes.size() < sizeof(magic)) return false;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == kListMagic;
}

Expected<std::vector<NamedArray>> openParams(std::shared_ptr<const MemoryBuffer> file, StringRef place,
                                             std::vector<std::string> &notes) {
  return catchingBadAlloc("to read the arrays", [&]() -> Expected<std::vector<NamedArray>> {
    return ParamsReader(std::move(file), place, notes).read();
  });
}

Error writeParams(raw_ostream &os, ArrayRef<NamedArray> arrays, function_ref<bool(StringRef)> isAux) {
  return catchingBadAlloc("to write the arrays", [&]() -> Error {
    std::vector<std::string> headers;
    std::string text, scratch;
    for (const NamedArray &named : arrays) {
      Expected<std::string> header = headerOf(named);
      if (!header) return header.takeError();
      headers.push_back(std::move(*header));
    }
    put(text, kListMagic);
    put(text, uint64_t{0});
    put(text, static_cast<uint64_t>(arrays.size()));
    os << text;
    for (auto [named, header] : zip(arrays, headers)) os << header << npyData(named.array.view(), scratch);
    text.clear();
    put(text, static_cast<uint64_t>(arrays.size()));
    for (const NamedArray &named : arrays) {
      const std::string name = (isAux(named.name) ? "aux:" : "arg:") + named.name;
      put(text, static_cast<uint64_t>(name.size()));
      text += name;
    }
    os << text;
    return Error::success();
  });
}

}  // namespace gradc
