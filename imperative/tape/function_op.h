// Functions of the host as operators, so that their gradients are found like any other. They are in no registry and no
// file, and a replay calls the host instead of a kernel. Tested by tests/imperative/imperative_function_test.cc
#pragma once

#include "imperative/tape/function.h"
#include "ir/op/op.h"

#include <mutex>

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

/// What the tape keeps of one call of a Function.
///
/// In the pool, with all that it has. Fields below the mutex are guarded by it; it is taken after the lock of the
/// store, if both are.
struct FunctionCall {
  FunctionCall(Store &store, std::shared_ptr<const Function> function, size_t numInputs)
      : function(std::move(function)), numInputs(numInputs), nonDifferentiable(PoolAllocator<size_t>(store)),
        given(PoolAllocator<Tensor>(store)), saved(PoolAllocator<Saved>(store)) {}

  /// "call 3 of function 'f'"
  std::string describe() const { return "call " + std::to_string(number) + " of function '" + function->name + "'"; }

  std::shared_ptr<FunctionCall> self;  // while a node refers to it: what is behind TapeNode::state
  const std::shared_ptr<const Function> function;
  const size_t numInputs;
  Pooled<size_t> nonDifferentiable;
  bool materializes = true;
  bool isForward = true;  // `forward` has not returned yet
  std::shared_ptr<void> data;
  Pooled<Tensor> given;  // what `save` was given, until the call is recorded

  struct Saved {
    Tensor value;  // as it was when saved; an output without its history, which would be a cycle
    uint32_t version = 0;
    int32_t output = -1;  // the output that it is, or -1
  };
  uint64_t number = 0;  // of the call
  std::mutex mutex;
  Pooled<Saved> saved;
  bool isCleared = false;    // `saved` was released
  TapeNode *node = nullptr;  // null: not recorded, or gone
};

/// The call in the state of a node (TapeNode::state).
std::shared_ptr<FunctionCall> &functionCallOf(Storage &state);
/// Releases what a call has saved, and its node; callable by any thread.
void releaseSaved(Storage &state);

}  // namespace gradc
