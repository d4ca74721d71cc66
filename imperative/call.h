// One call of an operator. Tested by tests/imperative/imperative_test.cc
#pragma once

#include "imperative/engine.h"

namespace gradc {

struct CallRequest {
  KindRow *kind;
  Tensors inputs;
  Modes modes;
  CallSite site = {};
  Tensors into = {};  // per visible output; none: new tensors
  llvm::ArrayRef<KnownOutput> known =
      {};                       // all outputs, if known; one that is not requested comes back as an empty handle
  TapeNode *forward = nullptr;  // of a fused backward operator
  Origin *origin = nullptr;     // the call whose gradient this one computes
  uint64_t draw = 0;            // for a random operator, the draw that it repeats; 0: a new one
  Storage *state = nullptr;     // of the host's object for the kernel; null: none
  bool keepsDerived = false;    // a result of untracked values keeps the call, for graphs
};

/// Runs an operator and records it. Puts the first visible outputs into `outputs`, as many as fit.
llvm::Error runCall(Engine &engine, const CallRequest &request, llvm::MutableArrayRef<Tensor> outputs);

}  // namespace gradc
