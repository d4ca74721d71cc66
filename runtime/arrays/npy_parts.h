// An NPY file in two parts, for archives. Tested by tests/runtime/npy_test.cc
#pragma once

#include "ir/tensor/tensor.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace gradc {

struct NpyHeader {
  DType dtype = DType::Unknown;
  bool isBigEndian = false;
  bool isFortran = false;
  std::vector<int64_t> shape;
};

inline constexpr size_t kNpyStart = 12;  // bytes that contain the length of the header, in every version

// For reading. `size` is the number of bytes of the file, of which the first suffice; `place` names it in errors.

/// How long the header is, from the first kNpyStart bytes, or as many as there are.
llvm::Expected<size_t> npyHeaderBytes(llvm::StringRef start, uint64_t size, llvm::StringRef place);
/// `text`: npyHeaderBytes bytes. The elements take up the rest of the file.
llvm::Expected<NpyHeader> parseNpyHeader(llvm::StringRef text, uint64_t size, llvm::StringRef place);
/// Puts elements in C order and in the byte order of the machine.
llvm::Error arrangeElements(const NpyHeader &header, std::vector<char> &elements, llvm::StringRef place);

// For writing.

/// What comes before the data. UnsupportedOption for an unknown dtype.
llvm::Expected<std::string> npyHeader(const TensorRef &tensor);
/// The data: the bytes of the tensor; bools as 0 or 1, in `scratch`.
llvm::StringRef npyData(const TensorRef &tensor, std::string &scratch);

}  // namespace gradc
