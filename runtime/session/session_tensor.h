// The memory of a variable or a head. Callers see it row-major; while the graph runs it is in the layout that the
// kernels prefer. It is converted before a run, and back when a caller looks at it. Tested by
// tests/runtime/kernels/filter_tiles_test.cc
#pragma once

#include "runtime/executor/buffer.h"
#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc {

class SessionTensor {
 public:
  /// Zeros in newly allocated memory, aligned for vectors; `what` names them in an error.
  static llvm::Expected<SessionTensor> create(DType dtype, Dims shape, const llvm::Twine &what);
  /// Borrowed memory, row-major at this point; null data for a head that is not computed.
  SessionTensor(TensorRef other, Layout wanted)
      : memory(other.data, other.dtype, {}), wanted(wanted), dims(other.shape.vec()) {
    memory.shape = dims;
  }

  Layout layout() const { return wanted; }
  void setLayout(Layout layout) { wanted = layout; }
  /// The memory in the layout that it has while the graph runs.
  TensorRef place() const { return {memory.data, memory.dtype, memory.shape, wanted}; }

  /// Makes the memory row-major, until the next run.
  TensorRef look();
  /// The memory if it is row-major at this point, else null data.
  TensorRef plain() const { return isMoved() ? TensorRef{nullptr, memory.dtype, memory.shape} : memory; }
  /// A row-major copy.
  void read(const TensorRef &to) const;
  /// Call before a run that reads it.
  void prepareRun();
  /// Call after a run that has written all of it.
  void noteWritten() { memory.layout = wanted; }
  /// Copies the values of a tensor of the same shape and type.
  void assign(const SessionTensor &from);

 private:
  bool isMoved() const { return memory.layout != Layout::Plain; }

  TensorRef memory;  // in its current layout: row-major, or `wanted`
  Layout wanted = Layout::Plain;
  std::vector<int64_t> dims;
  Buffer bytes{nullptr, nullptr};
};

}  // namespace gradc
