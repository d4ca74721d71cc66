// What a training run is at one step, as named arrays: every variable that lasts, and a few numbers under `gradc.…`.
// Tested by tests/trainer_test.cc
#pragma once

#include "runtime/npy.h"

#include "llvm/ADT/ArrayRef.h"

namespace gradc {

/// Where a run is, and what it must have in common with the one that takes it up again.
struct RunState {
  uint64_t step = 0;
  uint64_t batch = 0, examples = 0, seed = 0;
  uint64_t shuffle = 0, isShuffled = 0;  // the seed, 0 without; 1 when there is one
  uint64_t graph = 0;                    // hash of the training graph
};

/// A variable of the run: its name and its memory.
struct LastingArray {
  std::string name;
  TensorRef memory;
};

/// What a checkpoint has behind the arrays.
std::vector<NamedArray> runNumbers(const RunState &run);
/// Copies the arrays into the memory of `arrays` and returns the step. BindingMismatch when the checkpoint is of another
/// run than `expected` (whose step is ignored) or has other arrays; nothing is copied then. `place` names it.
llvm::Expected<uint64_t> takeCheckpoint(llvm::ArrayRef<NamedArray> checkpoint, llvm::ArrayRef<LastingArray> arrays,
                                        const RunState &expected, llvm::StringRef place);

}  // namespace gradc
