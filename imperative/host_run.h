// Code of the host inside of one backward: hooks, functions, callbacks. The lock is not held while it runs.
// Tested by tests/imperative/imperative_hooks_test.cc, tests/imperative/imperative_function_test.cc
#pragma once

#include "imperative/hooks.h"
#include "imperative/tape/collect.h"
#include "imperative/tape/modes.h"

#include "llvm/ADT/BitVector.h"

#include <optional>

namespace gradc {

/// Imperative::addHook and addPostAccumulateHook, with the lock held. `old` gets the rows of before, to be destroyed
/// without it.
llvm::Expected<HookHandle> addHook(Engine &engine, const Tensor &x, TensorHook &hook, HookRows &old);
llvm::Expected<HookHandle> addPostAccumulateHook(Engine &engine, const Tensor &leaf, TensorHook &hook, HookRows &old);

/// The working memory of a backward with code of the host, reused by the next: a steady step allocates nothing.
struct HostScratch {
  struct Tap {
    HookRows before, after;        // null: none
    TapeValue value;               // the one whose gradient it is
    Mark *mark;                    // has the hooks
    uint32_t result = 0xffffffff;  // position of the gradient among the results, if `after` is set
  };
  /// A value that instructions read, and its version when they began.
  struct ReadValue {
    Storage *storage;
    uint32_t version;
  };
  std::vector<Tap> taps;  // as in the request
  std::vector<TapeNode *> nodes;
  std::vector<Mark *> marks;
  std::vector<Storage *> states;  // of the nodes; null: none
  std::vector<Storage *> heads;   // memory of the head gradients
  std::vector<ReadValue> values;
  llvm::BitVector missing;  // by entry: gradients that functions did not give
  std::vector<FinalCallback> callbacks;
  std::vector<uint32_t> resultOf;  // by collected leaf: position of its gradient among the results
  std::vector<uint32_t> late;      // results, ascending, of leaves whose hooks after the accumulation have not run
};

class HostRun {
 public:
  HostRun(Engine &engine, StoreLock &lock, bool isRecording, HostScratch &scratch)
      : engine(engine), isRecording(isRecording), lock(lock), scratch(scratch) {}
  HostRun(const HostRun &) = delete;
  /// Releases everything that belongs to the host.
  void end();

  /// `isNeeded`: any code of the host may run. `keepsValues`: there are hooks before the accumulation, so an error has
  /// to leave the tape as it was. Hooks after the accumulation give that up, and the plan knows of functions.
  bool isNeeded() const { return hasFunctions || !scratch.taps.empty(); }
  bool hasFunctionsAtAll() const { return hasFunctions; }
  bool keepsValues() const { return hasHooksBefore; }
  void addTap(const HostScratch::Tap &tap);
  void setHasFunctions() { hasFunctions = true; }
  /// Retains what was collected, and the marks and head gradients: after that the host may release them, or clear the
  /// history.
  void retainAll(const Collected &collected, llvm::ArrayRef<Mark *> marks, Tensors heads);
  const TapeNode &nodeOf(size_t call) const { return *scratch.nodes[call]; }
  /// The state that a collected call had then.
  Storage *stateOf(size_t call) const { return scratch.states[call]; }

  /// Runs the hooks of a tap, each on the result of the one before. E-44, E-38 and E-39 for what a hook returns, and
  /// the hook's error.
  llvm::Error runHooks(size_t tap, Tensor &gradient);
  /// Runs the hooks after the accumulation. E-24, and errors of the hooks.
  llvm::Error runHooksAfter(const HostScratch::Tap &tap);
  /// Runs the queued callbacks in order, and those that they queue.
  llvm::Error finish();
  /// Queues a callback for the end of the innermost backward of this engine whose host code the calling thread is in.
  /// E-22 if there is none, E-21 for an empty function.
  static llvm::Error queue(const Engine &engine, FinalCallback callback);

  /// Exists while the calling thread is in code of the host.
  class Inside {
   public:
    Inside(HostRun &run, bool isRecording);
    explicit Inside(HostRun &run) : Inside(run, run.isRecording) {}
    ~Inside();
    Inside(const Inside &) = delete;

    HostRun &run;
    Inside *const outer;  // its backward may be of another Imperative

   private:
    std::optional<RecordScope> recording;
    std::optional<NoGradScope> quiet;
  };

  Engine &engine;
  const bool isRecording;

 private:
  static thread_local Inside *innermost;
  std::string nameOf(const HostScratch::Tap &tap) const;
  llvm::Error checkResult(const HostScratch::Tap &tap, const Tensor &gradient, const Tensor &result) const;

  StoreLock &lock;
  HostScratch &scratch;
  bool hasFunctions = false, hasHooksBefore = false;
};

}  // namespace gradc
