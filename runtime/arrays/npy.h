// NumPy's NPY and NPZ files, both ways, after the published format (numpy/lib/format.py, versions 1.0 to 3.0).
//
// NumPy has no bfloat16. Two raw bytes, '<V2', are read and written as one, as np.save does for ml_dtypes.bfloat16;
// after np.load, `array.view(ml_dtypes.bfloat16)` is the array again.
#pragma once

#include "ir/tensor/tensor.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

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
/// Members in archive order; stored and deflated ones, zip64 included.
llvm::Expected<std::vector<NamedArray>> parseNpz(llvm::StringRef bytes, llvm::StringRef place);
/// The same without the elements, which stay archived: the directory and the headers are read and checked. Arrays that
/// are never read are never inflated. The arrays share the file.
llvm::Expected<std::vector<NamedArray>> openNpz(std::shared_ptr<const llvm::MemoryBuffer> file, llvm::StringRef place);
/// Writes a row-major tensor. UnsupportedOption for an unknown dtype.
llvm::Error writeNpy(llvm::raw_ostream &os, const TensorRef &tensor);

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
