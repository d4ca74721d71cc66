// Functions of the host as operators, so that their gradients are found like any other. No registry has them, and no file
// names them; whoever runs a graph with one calls the host instead of a kernel.
// Tested by tests/imperative_function_test.cc
#pragma once

#include "ir/op.h"

namespace gradc {

/// f(x…), attributes num_args and num_outputs; spelled as the function is named.
extern const OpDef kFunction;
/// The same without a gradient: what a function computed that can be differentiated once alone.
extern const OpDef kOnceFunction;
/// (dy of the outputs that a gradient arrives at, these outputs, x…) → dx…: shapes are taken from the ignored inputs.
extern const OpDef kFunctionGradient;

inline bool isHostCode(const OpDef &op) {
  return &op == &kFunction || &op == &kOnceFunction || &op == &kFunctionGradient;
}

/// Of a kFunctionGradient: the outputs of the function that its first inputs are the gradients of, rising.
llvm::ArrayRef<int64_t> arrivingOutputs(const NodeKind &kind);

}  // namespace gradc
