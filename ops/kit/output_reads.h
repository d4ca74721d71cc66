// Which inputs the outputs of fused gradient operators depend on: what a tape has to save follows from the gradients it
// may compute.
//
// A gradient operator of several inputs reads different operands for each: of y = A·B, dA reads B and dB reads A. Its
// kernels run without the memory of the others (ir/rules/missing_inputs.h). Tested by
// tests/imperative/memory/imperative_keeps_test.cc
#pragma once

#include "ir/op/op.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// Whether an output depends on the contents of an input. True for every operator that is not built in and not listed.
bool dependsOn(const NodeKind &kind, uint32_t output, size_t input);

/// Whether a node reads the contents of an input for those outputs of which `isWanted` is true. One without any does
/// not run, unless it has effects.
bool readsInput(const NodeKind &kind, size_t input, llvm::function_ref<bool(uint32_t)> isWanted);

}  // namespace gradc
