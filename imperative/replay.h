// Runs a compiled backward over a tape of its structure.
// Tested by tests/imperative/imperative_test.cc
#pragma once

#include "imperative/engine.h"

namespace gradc {

struct ReplayRequest {
  Engine &engine;
  Plan &plan;
  /// Has the tape, the head gradients and the request, and receives the results.
  Scratch &scratch;
  bool retains = false;
  HostRun *host = nullptr;            // whose taps are those of the request; null: no code of the host runs
  bool checksNaN = false;             // HOOK-09
  llvm::ArrayRef<Mark *> marks = {};  // of the results, for hooks after the accumulation
};

/// HOOK-09: an error if `value`, an output of a node of kind `kind`, has a NaN. `call`: the call whose gradient it
/// computes.
llvm::Error checkNaN(const NodeKind &kind, const TapeNode *call, size_t output, const TensorRef &value);

/// Leaves the requested gradients in Scratch::results, by position: the wrt, then the retained; no tensor where there
/// is none. E-31 if a value was overwritten since it was kept, E-20 if it was released. Values of the tape are released
/// after the instruction that reads them last, unless it retains or hooks run; after an error, `hasReleased` tells
/// whether some were.
llvm::Error replay(const ReplayRequest &request, bool &hasReleased);

}  // namespace gradc
