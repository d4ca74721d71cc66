// Element types, storage kinds, layouts and request kinds, with MXNet's codes and spellings.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace gradc {

/// Element type; the values are MXNet's type codes, as `__dtype__` and the graph attribute `dtype` spell them.
enum class DType : int8_t {
  Unknown = -1,
  Float32 = 0,
  Float64 = 1,
  Float16 = 2,
  UInt8 = 3,
  Int32 = 4,
  Int8 = 5,
  Int64 = 6,
  Bool = 7,
  Int16 = 8,
  UInt16 = 9,
  UInt32 = 10,
  UInt64 = 11,
  BFloat16 = 12,
};

/// "float32", …; "unknown" for DType::Unknown.
llvm::StringRef dtypeName(DType type);
/// Accepts a name ("float32") or a code ("0"); nothing for any other text.
std::optional<DType> parseDType(llvm::StringRef text);
/// Bytes per element; 0 for DType::Unknown.
uint32_t dtypeBytes(DType type);
bool isFloating(DType type);
/// Whether it is a 16-bit floating type: stored as such, computed in float32 (ir/rules/widening.h).
constexpr bool isHalf(DType type) { return type == DType::Float16 || type == DType::BFloat16; }

/// A set of element types.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> types) {
    for (DType type : types) bits |= 1u << static_cast<int>(type);
  }
  constexpr bool contains(DType type) const { return type != DType::Unknown && (bits >> static_cast<int>(type) & 1); }
  /// "float32, float64 and int32", in order of the codes.
  std::string names() const;
  friend constexpr bool operator==(DTypeSet, DTypeSet) = default;

 private:
  uint32_t bits = 0;
};
inline constexpr DTypeSet kFloatingTypes = {DType::Float32, DType::Float64};
/// All but the 16-bit floating types, which kernels receive as float32 (ir/rules/widening.h).
inline constexpr DTypeSet kFloatingAndIntegers = {
    DType::Float32, DType::Float64, DType::UInt8,  DType::Int32,  DType::Int8,   DType::Int64,
    DType::Bool,    DType::Int16,   DType::UInt16, DType::UInt32, DType::UInt64,
};
/// For conversions, whose kernels handle the 16-bit floating types themselves.
inline constexpr DTypeSet kEveryType = {
    DType::Float32, DType::Float64, DType::Float16, DType::UInt8,  DType::Int32,  DType::Int8,     DType::Int64,
    DType::Bool,    DType::Int16,   DType::UInt16,  DType::UInt32, DType::UInt64, DType::BFloat16,
};

enum class StorageKind : int8_t { Unknown = -1, Dense = 0, RowSparse = 1, Csr = 2 };
/// "dense", "row_sparse", "csr"; "unknown" for StorageKind::Unknown.
llvm::StringRef storageName(StorageKind storage);

/// How a tensor of rank three or four is laid out in memory; all take the same space. Any other tensor is Plain.
enum class Layout : uint8_t {
  Plain,         // row-major
  ChannelsLast,  // images (n, c, h, w) as (n, h, w, c), lines (n, c, w) as (n, w, c)
  FilterTiles,   // filters (o, c, h, w) as (o / 16, c / 16, h, w, c % 16, o % 16), without remainders
};
/// "row-major", "channels-last", "filter tiles".
llvm::StringRef layoutName(Layout layout);

/// What a kernel does with an output buffer (REQ-01). InPlace is chosen by the planner, never by a user.
enum class Request : uint8_t { Null = 0, Write = 1, InPlace = 2, Add = 3 };
llvm::StringRef requestName(Request request);
/// "null", "write" or "add".
std::optional<Request> parseRequest(llvm::StringRef text);

}  // namespace gradc
