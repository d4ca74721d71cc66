// Runs functions of the host. Tested by tests/imperative/imperative_function_test.cc
#pragma once

#include "imperative/host_run.h"
#include "imperative/tape/function.h"
#include "imperative/tape/kind.h"

namespace gradc {

/// Imperative::apply. Takes the lock, but not while `forward` runs.
llvm::Expected<TensorList> runForward(Engine &engine, const std::shared_ptr<const Function> &function, Tensors inputs,
                                      CallSite site);

/// Runs the backward of the function that a collected call is, with a gradient per output (no tensor: none arrived),
/// where `wanted` is per input. `results`, per input, are no tensor at first, then of the input's shape and type, or no
/// tensor where the function contributes nothing or was not requested. E-46, E-57, E-39, E-44, and the function's
/// error.
llvm::Error runBackward(HostRun &host, size_t call, llvm::MutableArrayRef<Tensor> gradients,
                        const std::shared_ptr<const bool[]> &wanted, llvm::MutableArrayRef<Tensor> results);

}  // namespace gradc
