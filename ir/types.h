// Element types, storage kinds and request kinds, with MXNet's codes and spellings.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

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

enum class StorageKind : int8_t { Unknown = -1, Dense = 0, RowSparse = 1, Csr = 2 };
/// "dense", "row_sparse", "csr"; "unknown" for StorageKind::Unknown.
llvm::StringRef storageName(StorageKind storage);

/// What a kernel does with an output buffer (REQ-01). InPlace is chosen by the planner, never by a user.
enum class Request : uint8_t { Null = 0, Write = 1, InPlace = 2, Add = 3 };
llvm::StringRef requestName(Request request);
/// "null", "write" or "add".
std::optional<Request> parseRequest(llvm::StringRef text);

}  // namespace gradc
