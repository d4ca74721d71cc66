// NumPy's NPY and NPZ files, both ways, after the published format (numpy/lib/format.py, versions 1.0 to 3.0).
#pragma once

#include "ir/tensor.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace gradc {

/// An array that owns its bytes (C order).
struct Array {
  DType dtype = DType::Float32;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  TensorRef ref() { return {bytes.data(), dtype, shape}; }
};

struct NamedArray {
  std::string name;
  Array array;
};

/// `place` names the file in errors (BadTensorFile). Fortran order is transposed, foreign byte order swapped.
llvm::Expected<Array> parseNpy(llvm::StringRef bytes, llvm::StringRef place);
/// Members in archive order; stored and deflated ones, zip64 included.
llvm::Expected<std::vector<NamedArray>> parseNpz(llvm::StringRef bytes, llvm::StringRef place);
void writeNpy(llvm::raw_ostream &os, const Array &array);
/// Stored, members in the given order, dated 1980, so that equal arrays give equal files.
void writeNpz(llvm::raw_ostream &os, llvm::ArrayRef<NamedArray> arrays);

}  // namespace gradc
