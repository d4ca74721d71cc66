// Tested by tests/runtime/array_files_test.cc
#include "tests/fuzz/array_files.h"

#include "ir/base/error.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/npz_writer.h"
#include "runtime/training/checkpoint.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <zlib.h>

using namespace llvm;

namespace gradc::fuzz {
namespace {

constexpr StringRef kPlace = "x.npz";

Array arrayOf(DType dtype, std::vector<int64_t> shape, size_t bytes) {
  Array array{dtype, std::move(shape), std::vector<char>(bytes)};
  for (size_t i = 0; i < bytes; ++i) array.bytes[i] = static_cast<char>(dtype == DType::Bool ? i % 2 : 37 * i);
  return array;
}

std::string little(uint64_t value, size_t width) {
  std::string out;
  for (; width-- > 0; value >>= 8) out += static_cast<char>(value & 0xff);
  return out;
}

template <class Write> std::string textOf(Write write) {
  std::string text;
  raw_string_ostream os(text);
  cantFail(write(os));
  return text;
}

std::string npyOf(unsigned version, StringRef dict, StringRef data) {
  const std::string header = (dict + "\n").str();
  return "\x93NUMPY" + little(version, 2) + little(header.size(), version == 1 ? 2 : 4) + header + data.str();
}

std::string deflated(StringRef bytes) {
  std::string out(bytes.size() + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// One deflated member, its sizes in zip64 fields.
std::string deflatedArchive(StringRef npy) {
  const std::string packed = deflated(npy);
  const uint32_t crc = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef *>(npy.data()), npy.size()));
  const std::string middle = little(45, 2) + little(0, 2) + little(8, 2) + little(0, 4) + little(crc, 4);
  const std::string local = "PK\3\4" + middle + little(packed.size(), 4) + little(npy.size(), 4) + little(5, 2) +
                            little(0, 2) + "a.npy" + packed;
  const std::string extra = little(1, 2) + little(16, 2) + little(npy.size(), 8) + little(packed.size(), 8);
  const std::string central = "PK\1\2" + little(45, 2) + middle + little(~0u, 4) + little(~0u, 4) + little(5, 2) +
                              little(extra.size(), 2) + little(0, 10) + little(0, 4) + "a.npy" + extra;
  return local + central + "PK\5\6" + little(0, 4) + little(1, 2) + little(1, 2) + little(central.size(), 4) +
         little(local.size(), 4) + little(0, 2);
}

/// The run that checkpoints are taken up by: two arrays and the numbers of the seed.
struct Run {
  RunState state{7, 4, 40, 1, 2, 1, 99};
  Array weight = arrayOf(DType::Float32, {2, 3}, 24), moment = arrayOf(DType::Float64, {3}, 24);

  std::vector<LastingArray> lasting() { return {{"w", weight.ref()}, {"w_mom", moment.ref()}}; }
  std::vector<NamedArray> checkpoint() const {
    std::vector<NamedArray> arrays = {{"w", weight}, {"w_mom", moment}};
    for (NamedArray &number : runNumbers(state)) arrays.push_back(std::move(number));
    return arrays;
  }
};

bool isSame(const Array &a, const Array &b) { return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes; }

std::string withoutValues(StringRef message) {
  std::string sketch;
  bool isQuoted = false;
  for (char c : message) {
    if (c == '\'') isQuoted = !isQuoted;
    if (!isQuoted && !isDigit(c) && !StringRef("(),").contains(c)) sketch += c;
  }
  return sketch;
}

std::string refusal(Error error, ErrorKind expected, ArrayTally &tally) {
  std::string finding;
  handleAllErrors(std::move(error), [&](const GradcError &info) {
    tally.refusals.insert(withoutValues(info.message));
    if (info.kind != expected) finding = ("refused as " + errorKindName(info.kind) + ": " + info.message).str();
  });
  return finding;
}

std::string checkArray(const Array &array) {
  uint64_t size = dtypeBytes(array.dtype);
  for (int64_t dim : array.shape) size *= static_cast<uint64_t>(dim);
  if (size != array.bytes.size()) return "an array has other bytes than its shape says";
  Expected<Array> again = parseNpy(textOf([&](raw_ostream &os) { return writeNpy(os, array.view()); }), kPlace);
  if (!again) return "not read back: " + toString(again.takeError());
  return isSame(*again, array) ? "" : "another array is read back";
}

std::string checkArchive(ArrayRef<NamedArray> arrays) {
  for (const NamedArray &named : arrays)
    if (std::string finding = checkArray(named.array); !finding.empty()) return finding;
  Expected<std::vector<NamedArray>> again =
      parseNpz(textOf([&](raw_ostream &os) { return writeNpz(os, arrays); }), kPlace);
  if (!again) return "not read back: " + toString(again.takeError());
  auto equal = [](const NamedArray &a, const NamedArray &b) { return a.name == b.name && isSame(a.array, b.array); };
  return std::equal(arrays.begin(), arrays.end(), again->begin(), again->end(), equal) ? ""
                                                                                       : "other arrays are read back";
}

std::string checkCheckpoint(ArrayRef<NamedArray> arrays, ArrayTally &tally) {
  const Run before;
  Run run;
  Expected<uint64_t> step = takeCheckpoint(arrays, run.lasting(), run.state, kPlace);
  tally.numCheckpoints += bool(step);
  if (step) return "";
  if (!isSame(run.weight, before.weight) || !isSame(run.moment, before.moment))
    return "a refused checkpoint changed the run";
  return refusal(step.takeError(), ErrorKind::BindingMismatch, tally);
}

}  // namespace

std::vector<std::string> arraySeeds() {
  const std::string data(48, '\1');
  std::vector<std::string> seeds = {
      npyOf(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", data),
      npyOf(2, "{'descr': '>i8', 'fortran_order': True, 'shape': (2, 1, 3), }", data),
      npyOf(3, "{'shape': (48,), 'fortran_order': False, 'descr': '|b1'}", data),
      npyOf(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", data.substr(0, 8)),
      npyOf(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 7), }", ""),
  };
  for (size_t i = 0; i < 2; ++i) seeds.push_back(deflatedArchive(seeds[i]));
  seeds.push_back(textOf([](raw_ostream &os) { return writeNpz(os, Run().checkpoint()); }));
  seeds.push_back(textOf([](raw_ostream &os) {
    return writeNpz(os, {{"b/µ", arrayOf(DType::Bool, {3}, 3)}, {"", arrayOf(DType::Int16, {2, 2}, 8)}});
  }));
  return seeds;
}

std::string exerciseArrays(StringRef bytes, ArrayTally &tally) {
  Expected<Array> array = parseNpy(bytes, kPlace);
  tally.numArrays += bool(array);
  if (std::string finding = array ? checkArray(*array) : refusal(array.takeError(), ErrorKind::BadTensorFile, tally);
      !finding.empty())
    return finding;
  Expected<std::vector<NamedArray>> arrays = parseNpz(bytes, kPlace);
  tally.numArchives += bool(arrays);
  if (!arrays) return refusal(arrays.takeError(), ErrorKind::BadTensorFile, tally);
  std::string finding = checkArchive(*arrays);
  return finding.empty() ? checkCheckpoint(*arrays, tally) : finding;
}

std::string editedArrayFile(ArrayRef<std::string> seeds, testing::Dice &dice) {
  constexpr uint64_t kExtremes[] = {0,          1,          0x7f,       0xff,       0x7fff, 0xffff,
                                    0x7fffffff, 0xfffffffe, 0xffffffff, ~0ull >> 1, ~0ull};
  std::string bytes = dice.one(seeds);
  const StringRef other = dice.one(seeds);
  for (size_t edits = 1 + dice.below(3); edits-- > 0 && !bytes.empty();) {
    const size_t at = dice.below(bytes.size()), length = 1 + dice.below(std::min<size_t>(bytes.size() - at, 40));
    switch (dice.below(8)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << dice.below(8)); break;
      case 1: bytes.resize(at); break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, bytes.substr(at, length)); break;
      case 4: bytes.replace(at, length, other.substr(dice.below(other.size() + 1), length).str()); break;
      case 5:
      case 6: {
        const std::string field =
            little(dice.chance(70) ? dice.one(ArrayRef(kExtremes)) : bytes.size() - at, size_t{1} << dice.below(4));
        bytes.replace(at, std::min(field.size(), bytes.size() - at), field);
        break;
      }
      case 7:
        if (const size_t digit = bytes.find_first_of("0123456789", at); digit != std::string::npos)
          bytes.replace(digit, 1, std::to_string(dice.next() >> dice.below(64)));
        break;
    }
  }
  return bytes;
}

}  // namespace gradc::fuzz
