// NumPy's NPY files, both ways, after the published format (numpy/lib/format.py, versions 1.0 to 3.0).
//
// NumPy has no bfloat16. Two raw bytes, '<V2', are read and written as one, as np.save does for ml_dtypes.bfloat16;
// after np.load, `array.view(ml_dtypes.bfloat16)` is the array again. Tested by tests/runtime/npy_test.cc
#pragma once

#include "ir/tensor/tensor.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace gradc {

/// An array that owns its bytes (C order).
struct Array {
  DType dtype = DType::Float32;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  TensorRef ref() { return {bytes.data(), dtype, shape}; }
  /// For reading only.
  TensorRef view() const { return const_cast<Array *>(this)->ref(); }
};

/// Elements that are still packed in an archive.
class ArchivedElements {
 public:
  virtual ~ArchivedElements() = default;
  /// In C order. BadTensorFile if they are damaged.
  virtual llvm::Expected<std::vector<char>> read() const = 0;
};

struct NamedArray {
  std::string name;
  Array array;
  /// Not null: `array` has no bytes before `readElements`.
  std::shared_ptr<const ArchivedElements> archived = nullptr;
};

/// Reads what is archived. BindingMismatch, naming the array, when its bytes are not as many as its shape and type
/// need.
llvm::Error readElements(NamedArray &array);

/// `place` names the file in errors (BadTensorFile). Fortran order is transposed, foreign byte order swapped.
llvm::Expected<Array> parseNpy(llvm::StringRef bytes, llvm::StringRef place);
/// Writes a row-major tensor. UnsupportedOption for an unknown dtype.
llvm::Error writeNpy(llvm::raw_ostream &os, const TensorRef &tensor);

// A file in two parts, for archives.

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
