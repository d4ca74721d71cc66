// Running a compiled backward over a tape of its structure.
// Tested by tests/imperative_test.cc
#pragma once

#include "imperative/engine.h"

namespace gradc {

struct ReplayRequest {
  Engine &engine;
  Plan &plan;
  /// Has the tape, the head gradients and the request, and gets the results.
  Scratch &scratch;
  bool retains = false;
  HostRun *host = nullptr;            // whose taps are those of the request; null: no code of the host runs
  bool checksNaN = false;             // HOOK-09
  llvm::ArrayRef<Mark *> marks = {};  // of the results, whose gradients hooks after the accumulation see
};

/// HOOK-09: an error where a value that node `n` of the backward part yields has a NaN. `call`: what it is the gradient of.
llvm::Error checkNaN(const Engine &engine, const NodeKind &kind, const TapeNode *call, size_t output,
                     const TensorRef &value);

/// Leaves in Scratch::results the gradients requested, by position: the wrt, then the retained; no tensor where there is none. E-31 where a value was
/// overwritten since it was kept, E-20 where it was released. Values of the tape
/// are released after the instruction that reads them last, unless it retains or hooks run; `hasReleased` says whether some
/// were when an error comes back.
llvm::Error replay(const ReplayRequest &request, bool &hasReleased);

/// The same call by call, recorded (§15). Nothing is released.
llvm::Error replayRecorded(const ReplayRequest &request);

/// The value of a slot, checked: E-31, E-20.
llvm::Expected<Storage *> keptValue(Engine &engine, const Collected &collected, Plan::Slot slot);

/// Of a value that no slot holds: a mistake of ours.
llvm::Error notKept(const Plan &plan, const Plan::Saved &saved);

}  // namespace gradc
