// Runs functions of the host. Tested by tests/imperative/imperative_function_test.cc
#pragma once

#include "imperative/host_run.h"
#include "imperative/tape/function.h"
#include "imperative/tape/kind.h"

namespace gradc {

/// Imperative::apply. Takes the lock, but not while `forward` runs.
llvm::Expected<TensorList> runForward(Engine &engine, const std::shared_ptr<const Function> &function, Tensors inputs,
                                      CallSite site);

/// Runs the backward of the function that a collected call is. `gradients`: per output; no tensor: none arrived.
/// `wanted`: per input. `results`: per input, none at first, then of its shape and type; no tensor: it contributes
/// nothing, or was not requested. E-46, E-57, E-39, E-44, and the function's own error.
llvm::Error runBackward(HostRun &host, size_t call, llvm::MutableArrayRef<Tensor> gradients,
                        const std::shared_ptr<const bool[]> &wanted, llvm::MutableArrayRef<Tensor> results);

}  // namespace gradc
