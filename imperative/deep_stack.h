// Room on the stack for backwards inside of backwards: hooks and functions may nest them as deep as memory reaches.
// Tested by tests/imperative_deep_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace gradc {

/// Runs `work`: where little is left of the thread's stack, on another one, in the same thread, so that what the host keeps by
/// thread stays. Exceptions pass. TooLarge without memory for a stack.
llvm::Error withRoomOnStack(llvm::function_ref<llvm::Error()> work);

}  // namespace gradc
