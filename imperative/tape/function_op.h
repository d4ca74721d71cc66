// Functions of the host as operators, so that their gradients are found like any other. They are in no registry and no
// file, and a replay calls the host instead of a kernel. Tested by tests/imperative/imperative_function_test.cc
#pragma once

#include "ir/op/op.h"

namespace gradc {

/// f(x…), attributes num_args and num_outputs; spelled as the function is named.
extern const OpDef kFunction;
/// The same without a gradient: results of a function that can be differentiated only once.
extern const OpDef kOnceFunction;
/// (dy of the outputs that a gradient arrives at, these outputs, x…) → dx…: shapes are taken from the ignored inputs.
extern const OpDef kFunctionGradient;

inline bool isHostCode(const OpDef &op) {
  return &op == &kFunction || &op == &kOnceFunction || &op == &kFunctionGradient;
}

/// For a kFunctionGradient: the outputs of the function whose gradients are its first inputs, ascending.
llvm::ArrayRef<int64_t> arrivingOutputs(const NodeKind &kind);

}  // namespace gradc
