// The memory of a variable or a head: row-major for whoever looks at it, and while the graph runs in the order that the
// kernels want. It is taken there before a run, and back when somebody looks. Tested by tests/filter_tiles_test.cc
#pragma once

#include "runtime/buffer.h"
#include "runtime/kernels/prepared_kernel.h"

namespace gradc {

class Argument {
 public:
  /// Zeros in memory of its own, aligned for vectors; `what` names them in an error.
  static llvm::Expected<Argument> create(DType dtype, Dims shape, const llvm::Twine &what);
  /// Memory of somebody else's, row-major by now; a head that is not computed has none.
  Argument(TensorRef other, Layout wanted)
      : memory(other.data, other.dtype, {}), wanted(wanted), dims(other.shape.vec()) {
    memory.shape = dims;
  }

  Layout layout() const { return wanted; }
  void setLayout(Layout layout) { wanted = layout; }
  /// The memory, in the order it is in while the graph runs.
  TensorRef place() const { return {memory.data, memory.dtype, memory.shape, wanted}; }

  /// Row-major until the next run.
  TensorRef look();
  /// A row-major copy.
  void read(const TensorRef &to) const;
  /// Before a run that reads it.
  void prepareRun();
  /// After a run that has written all of it.
  void noteWritten() { memory.layout = wanted; }
  /// Takes over the values of an argument of the same shape and type.
  void assign(const Argument &from);

 private:
  bool isMoved() const { return memory.layout != Layout::Plain; }

  TensorRef memory;  // in the order it is in now: row-major, or as wanted
  Layout wanted = Layout::Plain;
  std::vector<int64_t> dims;
  Buffer bytes{nullptr, nullptr};
};

}  // namespace gradc
