// How a kernel is given operands of float16 and bfloat16, which it need not know.
//
// A node with such operands runs the kernel of float32: its inputs are widened into scratch, its outputs are computed there
// and rounded once when they are stored. An operator that moves elements is given their bits as uint16 instead, without
// scratch, and one whose `kernelTypes` has the type itself is left alone. Operators that work element by element go through
// blocks of a fixed length, so that their scratch does not grow with the tensors.
//
// The planner asks how much scratch that takes, the runtime uses it. Tested by tests/widening_test.cc
#pragma once

#include "ir/op.h"
#include "ir/tensor.h"

#include "llvm/ADT/SmallVector.h"

namespace gradc {

/// Elements of a block: float32 operands of this length stay in a processor's cache.
inline constexpr int64_t kWideningBlock = 32768;

class Widening {
 public:
  /// For operands of known types and shapes, with one request per output (none: all are wanted). Data may be null.
  Widening(const NodeKind &kind, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef> out,
           llvm::ArrayRef<Request> requests);

  /// Whether the kernel is given anything else than the operands.
  bool isNeeded() const { return isChanged; }
  /// Bytes of scratch, which is aligned to 64.
  size_t scratchBytes() const { return bytes; }
  /// How many elements of every operand the kernel computes at a time; 0: the operands whole.
  int64_t blockLength() const { return block; }

  /// An operand, inputs first: where its float32 form is in the scratch; kInPlace for one that keeps its memory.
  static constexpr size_t kInPlace = ~size_t{0};
  size_t scratchOffset(size_t operand) const { return offsets[operand]; }

  /// The element type in which the kernel is given it.
  DType type(size_t operand) const { return types[operand]; }

 private:
  llvm::SmallVector<size_t, 8> offsets;
  llvm::SmallVector<DType, 8> types;
  size_t bytes = 0;
  int64_t block = 0;
  bool isChanged = false;
};

/// The element type in which a kernel is given an input, or an output.
DType kernelInputType(const NodeKind &kind, size_t input, DType type);
DType kernelOutputType(const NodeKind &kind, DType type);

}  // namespace gradc
