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
  Argument(TensorRef memory, Layout wanted) : memory(memory), wanted(wanted) {}

  Layout layout() const { return wanted; }
  void setLayout(Layout layout) { wanted = layout; }
  /// The memory, however it lies.
  const TensorRef &place() const { return memory; }

  /// Row-major until the next run.
  TensorRef look();
  /// Before a run that reads it.
  void prepareRun();
  /// After a run that has written all of it.
  void noteWritten() { isMoved = wanted != Layout::Plain; }
  /// Takes over the values of an argument of the same shape and type.
  void assign(const Argument &from);

 private:
  TensorRef memory;
  Layout wanted = Layout::Plain;
  bool isMoved = false;  // lies as wanted, not row-major
  std::vector<int64_t> dims;
  Buffer bytes{nullptr, nullptr};
};

}  // namespace gradc
