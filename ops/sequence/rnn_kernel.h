// Reference kernels of RNN and its gradient. Tested by tests/ops/rnn_test.cc
#pragma once

#include "ir/rules/kernel.h"

namespace gradc {

size_t rnnWorkspace(const NodeKind &kind, llvm::ArrayRef<TensorRef> in, bool isBackward);

void rnnForward(const KernelCall &call);
void rnnForwardPiece(const PieceCall &call);

/// `hasLengths`: whether the last input is the lengths of the sequences.
void rnnBackward(const KernelCall &call, bool hasLengths);
void rnnBackwardPiece(const PieceCall &call, bool hasLengths);

}  // namespace gradc
