// Names and widths of element types. Tested by tests/ir/types_test.cc
#include "ir/tensor/types.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <iterator>

using namespace llvm;

namespace gradc {
namespace {

struct DTypeRow {
  StringRef name;
  uint32_t bytes;
  bool floating;
};

// Indexed by the type's code.
constexpr DTypeRow kDTypes[] = {
    {"float32", 4, true}, {"float64", 8, true}, {"float16", 2, true},  {"uint8", 1, false}, {"int32", 4, false},
    {"int8", 1, false},   {"int64", 8, false},  {"bool", 1, false},    {"int16", 2, false}, {"uint16", 2, false},
    {"uint32", 4, false}, {"uint64", 8, false}, {"bfloat16", 2, true},
};

}  // namespace

StringRef dtypeName(DType type) {
  return type == DType::Unknown ? StringRef("unknown") : kDTypes[static_cast<int>(type)].name;
}

std::optional<DType> parseDType(StringRef text) {
  for (size_t code = 0; code < std::size(kDTypes); ++code)
    if (kDTypes[code].name == text) return static_cast<DType>(code);
  int code;
  if (text.getAsInteger(10, code) || code < -1 || code >= static_cast<int>(std::size(kDTypes))) return std::nullopt;
  return static_cast<DType>(code);
}

uint32_t dtypeBytes(DType type) { return type == DType::Unknown ? 0 : kDTypes[static_cast<int>(type)].bytes; }

bool isFloating(DType type) { return type != DType::Unknown && kDTypes[static_cast<int>(type)].floating; }

std::string DTypeSet::names() const {
  SmallVector<StringRef, 13> list;
  for (size_t code = 0; code < std::size(kDTypes); ++code)
    if (contains(static_cast<DType>(code))) list.push_back(kDTypes[code].name);
  if (list.size() < 2) return list.empty() ? "no type" : list[0].str();
  return join(ArrayRef(list).drop_back(), ", ") + " and " + list.back().str();
}

StringRef storageName(StorageKind storage) {
  constexpr StringRef kNames[] = {"unknown", "dense", "row_sparse", "csr"};
  return kNames[static_cast<int>(storage) + 1];
}

StringRef layoutName(Layout layout) {
  constexpr StringRef kNames[] = {"row-major", "channels-last", "filter tiles"};
  return kNames[static_cast<int>(layout)];
}

StringRef requestName(Request request) {
  constexpr StringRef kNames[] = {"null", "write", "inplace", "add"};
  return kNames[static_cast<int>(request)];
}

std::optional<Request> parseRequest(StringRef text) {
  for (Request request : {Request::Null, Request::Write, Request::Add})
    if (requestName(request) == text) return request;
  return std::nullopt;
}

}  // namespace gradc
