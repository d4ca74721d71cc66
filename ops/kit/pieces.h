// Piece kernels of operators with inputs that only select: masks, conditions, compared operands.
// Tested by tests/ops/extrema_ops_test.cc
#pragma once

#include "ir/rules/kernel.h"

#include "llvm/ADT/SmallVector.h"

namespace gradc {

/// The operator's kernel on the inputs at the base point, except for input `passed`, which is the current one.
template <size_t passed> void chooseAtBase(const PieceCall &call) {
  llvm::SmallVector<TensorRef, 4> in(call.base.begin(), call.base.end());
  in[passed] = call.in[passed];
  KernelCall held = call;
  held.in = in;
  call.kind->op->kernel(held);
}

/// The operator's kernel on the inputs at the base point: comparisons keep the answer they gave there.
inline void holdAtBase(const PieceCall &call) {
  KernelCall held = call;
  held.in = call.base;
  call.kind->op->kernel(held);
}

}  // namespace gradc
