// Piece kernels of operators with inputs that only select: masks, conditions, compared operands.
// Tested by tests/ops/extrema_ops_test.cc
#pragma once

#include "ir/rules/kernel.h"

#include "llvm/ADT/SmallVector.h"

namespace gradc {

/// The operator's kernel on other inputs.
inline void runOnInputs(const PieceCall &call, llvm::ArrayRef<TensorRef> in) {
  KernelCall other = call;
  other.in = in;
  call.kind->op->kernel(other);
}

/// The operator's kernel on the inputs at the base point, except for input `passed`, which is the current one.
template <size_t passed> void chooseAtBase(const PieceCall &call) {
  llvm::SmallVector<TensorRef, 4> in(call.base.begin(), call.base.end());
  in[passed] = call.in[passed];
  runOnInputs(call, in);
}

/// The operator's kernel on the inputs at the base point: comparisons have the result that they have there.
inline void holdAtBase(const PieceCall &call) { runOnInputs(call, call.base); }

}  // namespace gradc
