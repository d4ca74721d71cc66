// Gradients of what the tape recorded. Tested by tests/imperative/imperative_test.cc
#pragma once

#include "imperative/imperative.h"

namespace gradc {

/// Imperative::backward. Takes the lock, but not while code of the host runs.
llvm::Error deliverGradients(Engine &engine, Tensors ys, const BackwardOptions &options);
/// Imperative::grad, likewise.
llvm::Expected<std::vector<Tensor>> computeGradients(Engine &engine, Tensors ys, Tensors xs,
                                                     const GradOptions &options);

}  // namespace gradc
