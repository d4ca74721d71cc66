// How kernels, which need not know float16 and bfloat16, receive operands of these types.
//
// A node with such operands runs its float32 kernel: its inputs are widened into scratch, its outputs are computed
// there and rounded once when they are stored. An operator that moves elements receives their bits as uint16 instead,
// without scratch, and one whose `kernelTypes` contains the type receives its operands unchanged. Elementwise operators
// process blocks of a fixed length, so that their scratch does not grow with the tensors.
//
// The planner reserves the scratch, the runtime uses it. Tested by tests/ir/widening_test.cc
#pragma once

#include "ir/op/op.h"
#include "ir/tensor/tensor.h"

#include "llvm/ADT/SmallVector.h"

namespace gradc {

/// Elements of a block: float32 operands of this length stay in a processor's cache.
inline constexpr int64_t kWideningBlock = 32768;

class Widening {
 public:
  /// For operands of known types and shapes, with one request per output (none: all are requested). Data may be null.
  Widening(const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef> out,
           llvm::ArrayRef<Request> requests);

  /// Whether the kernel receives anything other than the operands themselves.
  bool isNeeded() const { return isChanged; }
  /// Bytes of scratch, which is aligned to 64.
  size_t scratchBytes() const { return bytes; }
  /// How many elements of every operand the kernel computes at a time; 0: whole operands.
  int64_t blockLength() const { return block; }

  /// Offset of an operand's float32 form in the scratch, inputs first; kInPlace for one that keeps its memory.
  static constexpr size_t kInPlace = ~size_t{0};
  size_t scratchOffset(size_t operand) const { return offsets[operand]; }

  /// The element type in which the kernel receives it.
  DType type(size_t operand) const { return types[operand]; }

 private:
  llvm::SmallVector<size_t, 8> offsets;
  llvm::SmallVector<DType, 8> types;
  size_t bytes = 0;
  int64_t block = 0;
  bool isChanged = false;
};

/// The element type in which a kernel receives an input, or an output.
DType kernelInputType(const NodeKind &kind, size_t input, DType type);
DType kernelOutputType(const NodeKind &kind, DType type);

}  // namespace gradc
