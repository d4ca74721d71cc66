// Writing NPZ archives. Tested by tests/runtime/npy_test.cc
#pragma once

#include "runtime/arrays/npy.h"

namespace gradc {

/// Writes an archive array by array: stored, in the order of the calls, dated 1980, so that equal arrays give equal
/// files.
class NpzWriter {
 public:
  explicit NpzWriter(llvm::raw_ostream &os) : os(os) {}
  /// Adds a row-major tensor. UnsupportedOption, with nothing written, for an unknown dtype and for a name of more than
  /// 65,531 bytes, which no archive can hold.
  llvm::Error add(llvm::StringRef name, const TensorRef &tensor);
  /// Call after the last `add`.
  llvm::Error finish();

 private:
  llvm::raw_ostream &os;
  std::string directory;
  uint64_t numMembers = 0, offset = 0;
};
/// With the errors of NpzWriter::add.
llvm::Error writeNpz(llvm::raw_ostream &os, llvm::ArrayRef<NamedArray> arrays);

}  // namespace gradc
