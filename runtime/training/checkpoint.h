// The state of a training run at one step, as named arrays: every persistent variable, and a few numbers under
// `gradc.…`. Tested by tests/runtime/checkpoint_test.cc
#pragma once

#include "runtime/arrays/npy.h"

#include "llvm/ADT/ArrayRef.h"

namespace gradc {

/// How far a run is, and what a run that resumes it must have in common with it.
struct RunState {
  uint64_t step = 0;
  uint64_t batch = 0, examples = 0, seed = 0;
  uint64_t shuffle = 0, isShuffled = 0;  // the seed, or 0; 1 if there is one
  uint64_t graph = 0;                    // hash of the training graph
};

/// A variable of the run: its name and its memory.
struct LastingArray {
  std::string name;
  TensorRef memory;
};

/// Whether a checkpoint has one of its numbers under this name, so that no array can have it.
bool isRunNumber(llvm::StringRef name);
/// The numbers that follow the arrays in a checkpoint.
std::vector<NamedArray> runNumbers(const RunState &run);
/// Copies the checkpoint into the memory of `arrays` and returns the step. BindingMismatch, with nothing copied, when
/// it belongs to another run than `expected` (whose step is ignored) or has other arrays. `place` names the checkpoint.
llvm::Expected<uint64_t> takeCheckpoint(llvm::ArrayRef<NamedArray> checkpoint, llvm::ArrayRef<LastingArray> arrays,
                                        const RunState &expected, llvm::StringRef place);

}  // namespace gradc
