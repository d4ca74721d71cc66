// Code of the host inside of one backward: hooks, functions, callbacks. The lock is not held while it runs.
// Tested by tests/imperative_hooks_test.cc, tests/imperative_function_test.cc
#pragma once

#include "imperative/collect.h"
#include "imperative/hooks.h"

namespace gradc {

class StoreLock;

/// What a backward with code of the host works with, reused by the next: a steady step allocates nothing.
struct HostScratch {
  struct Tap {
    HookRows before, after;        // null: none
    TapeValue value;               // whose gradient it is
    Mark *mark;                    // that has the hooks
    uint32_t result = 0xffffffff;  // position of the gradient among the results, if there are hooks after it
  };
  /// A value that instructions read, and its version when they began.
  struct Held {
    Storage *storage;
    uint32_t version;
  };
  std::vector<Tap> taps;  // as in the request
  std::vector<TapeNode *> nodes;
  std::vector<Mark *> marks;
  std::vector<Held> values;
  std::vector<FinalCallback> callbacks;
  std::vector<uint32_t> resultOf;  // by collected leaf: position of its gradient among the results
  std::vector<uint32_t> late;      // results, rising, of leaves whose hooks after the accumulation have not run
};

class HostRun {
 public:
  HostRun(Engine &engine, StoreLock &lock, bool isRecording, HostScratch &scratch)
      : engine(engine), lock(lock), isRecording(isRecording), scratch(scratch) {}
  HostRun(const HostRun &) = delete;
  /// Lets go of everything that belongs to the host.
  void end();

  /// Whether any code of the host may run; whether that is hooks before the accumulation, so that an error has to leave the tape as
  /// it was: those after it give that up, and of functions the plan knows.
  bool isNeeded() const { return hasFunctions || !scratch.taps.empty(); }
  bool hasFunctionsAtAll() const { return hasFunctions; }
  bool keepsValues() const { return hasHooksBefore; }
  void addTap(const HostScratch::Tap &tap);
  void setHasFunctions() { hasFunctions = true; }
  /// From now on the host may let go of what was collected.
  void hold(const Collected &collected);

  /// Runs the hooks of a tap, one on what the other made of the gradient. E-44, E-38 and E-39 for what a hook returns, and its
  /// own error.
  llvm::Error runHooks(size_t tap, Tensor &gradient);
  /// Runs the hooks after the accumulation. E-24, and their own errors.
  llvm::Error runHooksAfter(const HostScratch::Tap &tap);
  /// Runs the backward of a function. `gradients`: per output; no tensor: none arrived. `results`: per input, of its shape and
  /// type; no tensor: it contributes nothing, or was not requested. E-46, E-57, E-39, E-44, and the function's own error.
  llvm::Error runFunction(TapeNode &node, llvm::MutableArrayRef<Tensor> gradients, llvm::ArrayRef<bool> wanted,
                          TensorList &results);
  /// Runs what was queued, in order, and what that queues.
  llvm::Error finish();
  /// Takes a callback for the end of the backward whose host code the calling thread is in; false where it is in none of this
  /// engine.
  static bool queue(const Engine &engine, FinalCallback callback);

 private:
  class Inside;  // imperative/inside.h
  static thread_local HostRun *current;
  std::string nameOf(const HostScratch::Tap &tap) const;
  llvm::Error checkResult(const HostScratch::Tap &tap, const Tensor &gradient, const Tensor &result) const;

  Engine &engine;
  StoreLock &lock;
  const bool isRecording;
  HostScratch &scratch;
  bool hasFunctions = false, hasHooksBefore = false;
};

}  // namespace gradc
