// What the tape keeps of one call of a Function.
// Tested by tests/imperative_function_test.cc
#pragma once

#include "imperative/function.h"

#include <mutex>

namespace gradc {

/// Fields below the mutex are guarded by it; it is taken after the lock of the store, if both are.
struct FunctionCall {
  std::shared_ptr<const Function> function;
  llvm::SmallVector<size_t, 1> nonDifferentiable;
  bool materializes = true;
  std::shared_ptr<void> data;
  TensorList given;  // what `save` was given, until the call is recorded

  struct Saved {
    Tensor value;  // as it was when saved; an output without its history, which would be a cycle
    uint32_t version = 0;
    int32_t output = -1;  // the output that it is, or -1
  };
  std::mutex mutex;
  llvm::SmallVector<Saved, 2> saved;
  bool isCleared = false;    // `saved` was released
  TapeNode *node = nullptr;  // null: not recorded, or gone
  std::string text;          // "call 3 of function 'f'"
};

/// The call in the state of a node (TapeNode::state).
std::shared_ptr<FunctionCall> &functionCallOf(Storage &state);
/// Releases what a call has saved, and its node; callable by any thread.
void releaseSaved(Storage &state);

}  // namespace gradc
