// The records of a zip archive, after the published format (PKWARE APPNOTE 6.3: central directory, zip64, deflate).
#pragma once

#include "llvm/ADT/StringRef.h"

#include <zlib.h>

namespace gradc::zip {

inline constexpr uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50,
                          kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
inline constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
inline constexpr uint32_t kInZip64 = 0xffffffff;  // the real number is in a 64-bit field
inline constexpr uint16_t kZip64Extra = 1;
inline constexpr llvm::StringRef kSuffix = ".npy";

struct Member {
  llvm::StringRef name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

struct Directory {
  uint64_t offset = 0, size = 0, count = 0;
};

/// The checksum of bytes with the checksum `before`, followed by `data`.
inline uint32_t checksum(llvm::StringRef data, uint32_t before = 0) {
  if (data.empty()) return before;  // zlib takes null data as a request for the initial value
  return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const Bytef *>(data.data()), data.size()));
}

}  // namespace gradc::zip
