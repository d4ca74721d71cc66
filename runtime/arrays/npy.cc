// NPY: one array. A header of fixed grammar (a Python dict of three keys), then the elements.
//
// Every size is checked against the bytes present before anything is allocated. Not read: structured and object types.
// Tested by tests/runtime/npy_test.cc
#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/rules/inference.h"
#include "runtime/arrays/npy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Alignment.h"

#include <bit>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kMagic("\x93NUMPY", 6);
constexpr size_t kHeaderAlignment = 64;
constexpr uint32_t kLongestHeader = 1 << 20;  // that of a file in an archive is inflated before anything is checked
static_assert(std::endian::native == std::endian::little, "byte order is swapped for big-endian files only");

struct DescrRow {
  StringRef code;  // without the byte order
  DType dtype;
};
constexpr DescrRow kDescrs[] = {
    {"f4", DType::Float32},  {"f8", DType::Float64}, {"f2", DType::Float16}, {"u1", DType::UInt8},
    {"i4", DType::Int32},    {"i1", DType::Int8},    {"i8", DType::Int64},   {"b1", DType::Bool},
    {"i2", DType::Int16},    {"u2", DType::UInt16},  {"u4", DType::UInt32},  {"u8", DType::UInt64},
    {"V2", DType::BFloat16},  // as NumPy saves the bfloat16 of ml_dtypes
};

/// Parses the dict literal `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
class HeaderParser {
 public:
  HeaderParser(StringRef text, StringRef place) : rest(text), place(place) {}

  Expected<NpyHeader> parse() {
    if (!take("{")) return fail("the header is not a dict");
    while (!take("}")) {
      StringRef key;
      if (!quoted(key) || !take(":")) return fail("a key of the header is malformed");
      if (Error error = value(key)) return error;
      if (!take(",") && !peek("}")) return fail("expected ',' or '}' in the header");
    }
    skipSpace();
    if (!rest.empty()) return fail("text after the header dict");
    if (seen != 7) return fail("the header needs 'descr', 'fortran_order' and 'shape'");
    return std::move(header);
  }

 private:
  Error fail(const Twine &what) const { return Failure(ErrorKind::BadTensorFile, "'" + place + "': " + what); }
  void skipSpace() { rest = rest.ltrim(" \t\n\r"); }
  bool take(StringRef token) {
    skipSpace();
    return rest.consume_front(token);
  }
  bool peek(StringRef token) {
    skipSpace();
    return rest.take_front(token.size()) == token;
  }
  bool quoted(StringRef &out) {
    skipSpace();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"')) return false;
    size_t end = rest.find(rest[0], 1);
    if (end == StringRef::npos) return false;
    out = rest.slice(1, end);
    rest = rest.drop_front(end + 1);
    return true;
  }

  Error value(StringRef key) {
    unsigned bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0) return fail("unknown header key '" + key + "'");
    if (seen & bit) return fail("header key '" + key + "' is repeated");
    seen |= bit;
    if (bit == 1) return descr();
    if (bit == 4) return shape();
    header.isFortran = peek("True");
    if (!take("True") && !take("False")) return fail("'fortran_order' is neither True nor False");
    return Error::success();
  }

  Error descr() {
    StringRef text;
    if (!quoted(text)) return fail("the element type is a record, expected a plain type such as '<f4'");
    StringRef code = text;
    char order = !code.empty() && StringRef("<>=|").contains(code[0]) ? code[0] : '=';
    if (order != '=' || code.take_front(1) == "=") code = code.drop_front();
    for (const DescrRow &row : kDescrs) {
      if (row.code != code) continue;
      header.dtype = row.dtype;
      header.isBigEndian = order == '>';
      return Error::success();
    }
    return fail("element type '" + text + "' is not supported");
  }

  Error shape() {
    if (!take("(")) return fail("'shape' is not a tuple");
    while (!take(")")) {
      int64_t dim;
      skipSpace();
      if (rest.consumeInteger(10, dim) || dim < 0) return fail("'shape' has a dimension that is not a length");
      rest.consume_front("L");  // as Python 2 wrote long integers
      header.shape.push_back(dim);
      if (!take(",") && !peek(")")) return fail("expected ',' or ')' in 'shape'");
    }
    return Error::success();
  }

  StringRef rest, place;
  NpyHeader header;
  unsigned seen = 0;
};

void swapBytes(MutableArrayRef<char> bytes, size_t width) {
  for (size_t i = 0; i + width <= bytes.size(); i += width) std::reverse(&bytes[i], &bytes[i] + width);
}

/// Elements of a column-major array, moved to row-major order.
std::vector<char> transposed(StringRef data, ArrayRef<int64_t> dims, size_t width) {
  std::vector<char> out(data.size());
  // Axes of length 1 move nothing, and a header can have thousands.
  SmallVector<int64_t, 8> shape;
  llvm::copy_if(dims, std::back_inserter(shape), [](int64_t dim) { return dim != 1; });
  std::vector<int64_t> index(shape.size(), 0), stride(shape.size(), 1);
  for (size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  int64_t source = 0;
  for (size_t at = 0; at < out.size(); at += width) {
    std::memcpy(&out[at], data.data() + source * width, width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

uint32_t readLittle(StringRef bytes, size_t width) {
  uint32_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

Expected<std::string> descrOf(DType type) {
  for (const DescrRow &row : kDescrs)
    if (row.dtype == type) return (Twine(dtypeBytes(type) == 1 ? "|" : "<") + row.code).str();
  return Failure(ErrorKind::UnsupportedOption, "an NPY file cannot hold elements of type " + dtypeName(type));
}

std::string little(size_t value, size_t width) {
  std::string out;
  for (; width-- > 0; value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

/// Every writer stores bools as 0 or 1.
bool areBools(ArrayRef<char> bytes) {
  return all_of(bytes, [](char byte) { return byte == 0 || byte == 1; });
}

}  // namespace

namespace {

Failure malformed(StringRef place, const Twine &what) {
  return Failure(ErrorKind::BadTensorFile, "'" + place + "': " + what);
}

}  // namespace

Expected<size_t> npyHeaderBytes(StringRef start, uint64_t size, StringRef place) {
  if (start.take_front(kMagic.size()) != kMagic || start.size() < 10) return malformed(place, "not an NPY file");
  const unsigned major = static_cast<unsigned char>(start[6]), minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    return malformed(place,
                     "NPY version " + Twine(major) + "." + Twine(minor) + " is not known, expected 1.0, 2.0 or 3.0");
  const size_t width = major == 1 ? 2 : 4;
  if (start.size() < 8 + width) return malformed(place, "the file ends inside the header");
  const uint32_t length = readLittle(start.substr(8, width), width);
  if (length > size - 8 - width) return malformed(place, "the file ends inside the header");
  if (length > kLongestHeader)
    return malformed(place,
                     "the header is " + Twine(length) + " bytes long, expected at most " + Twine(kLongestHeader));
  return 8 + width + length;
}

Expected<NpyHeader> parseNpyHeader(StringRef text, uint64_t size, StringRef place) {
  const uint64_t data = size - text.size();
  Expected<NpyHeader> header = HeaderParser(text.drop_front(text[6] == 1 ? 10 : 12), place).parse();
  if (!header) return header.takeError();
  if (!isPossible(header->shape))
    return malformed(place, "shape " + toString(ShapeRef(header->shape)) + " is out of range, " + kPossible);
  const uint64_t count = static_cast<uint64_t>(*numElements(header->shape)), width = dtypeBytes(header->dtype);
  if (count > data / width || count * width != data)
    return malformed(place, "shape " + toString(ShapeRef(header->shape)) + " of " + dtypeName(header->dtype) + " is " +
                                countOf(count, "element") + " of " + countOf(width, "byte") + ", the file has " +
                                countOf(data, "byte") + " of data");
  return header;
}

Error arrangeElements(const NpyHeader &header, std::vector<char> &elements, StringRef place) {
  const size_t width = dtypeBytes(header.dtype);
  if (header.isFortran) elements = transposed(StringRef(elements.data(), elements.size()), header.shape, width);
  if (header.isBigEndian) swapBytes(elements, width);
  if (header.dtype == DType::Bool && !areBools(elements)) return malformed(place, "a bool element is neither 0 nor 1");
  return Error::success();
}

Expected<Array> parseNpy(StringRef bytes, StringRef place) {
  return catchingBadAlloc("to read the array", [&]() -> Expected<Array> {
    Expected<size_t> length = npyHeaderBytes(bytes.take_front(kNpyStart), bytes.size(), place);
    if (!length) return length.takeError();
    Expected<NpyHeader> header = parseNpyHeader(bytes.take_front(*length), bytes.size(), place);
    if (!header) return header.takeError();
    const StringRef data = bytes.drop_front(*length);
    Array array{header->dtype, header->shape, std::vector<char>(data.begin(), data.end())};
    if (Error error = arrangeElements(*header, array.bytes, place)) return error;
    return array;
  });
}

Error readElements(NamedArray &array) {
  return catchingBadAlloc("to read the array", [&]() -> Error {
    if (array.archived) {
      Expected<std::vector<char>> bytes = array.archived->read();
      if (!bytes) return bytes.takeError();
      array.array.bytes = std::move(*bytes);
      array.archived = nullptr;
    }
    const Array &read = array.array;
    if (isPossible(read.shape) && read.view().bytes() == read.bytes.size()) return Error::success();
    return Failure(ErrorKind::BindingMismatch, "'" + array.name + "' has " + countOf(read.bytes.size(), "byte") +
                                                   ", which are not those of shape " + toString(ShapeRef(read.shape)) +
                                                   " of " + dtypeName(read.dtype));
  });
}

Expected<std::string> npyHeader(const TensorRef &tensor) {
  Expected<std::string> descr = descrOf(tensor.dtype);
  if (!descr) return descr.takeError();
  std::string header = ("{'descr': '" + *descr + "', 'fortran_order': False, 'shape': (");
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (axis > 0) header += ' ';
    header += std::to_string(tensor.shape[axis]);
    if (axis + 1 < tensor.shape.size() || tensor.shape.size() == 1) header += ',';
  }
  header += "), }";
  // The data begins at a multiple of 64. Version 1.0 counts the header in two bytes, 2.0 in four.
  auto padding = [&](size_t width) {
    return offsetToAlignment(8 + width + header.size() + 1, Align(kHeaderAlignment));
  };
  const size_t width = header.size() + padding(2) + 1 <= 0xffff ? 2 : 4;
  header.append(padding(width), ' ');
  header += '\n';
  return (kMagic + (width == 2 ? "\1" : "\2")).str() + '\0' + little(header.size(), width) + header;
}

StringRef npyData(const TensorRef &tensor, std::string &scratch) {
  const StringRef bytes(tensor.as<const char>(), tensor.bytes());
  if (tensor.dtype != DType::Bool) return bytes;
  scratch.clear();
  for (char byte : bytes) scratch += static_cast<char>(byte != 0);
  return scratch;
}

Error writeNpy(raw_ostream &os, const TensorRef &tensor) {
  return catchingBadAlloc("to write the array", [&]() -> Error {
    Expected<std::string> header = npyHeader(tensor);
    if (!header) return header.takeError();
    std::string scratch;
    os << *header << npyData(tensor, scratch);
    return Error::success();
  });
}

}  // namespace gradc
