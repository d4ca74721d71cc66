// Stack space for backwards inside of backwards: hooks and functions may nest them as deep as memory allows.
// Tested by tests/imperative/memory/imperative_deep_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace gradc {

/// Runs `work`, on another stack if little is left of the thread's; the thread and its thread-local data stay the same.
/// Exceptions pass. TooLarge without memory for a stack.
llvm::Error withRoomOnStack(llvm::function_ref<llvm::Error()> work);

}  // namespace gradc
