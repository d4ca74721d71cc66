// Turns the flags of `train` into examples and options. Tested by tests/tools/train_cli_test.cc
#pragma once

#include "tools/gradc/common/tool.h"

#include "runtime/training/trainer.h"

namespace gradc {

struct TrainSetup {
  Dataset examples;
  std::optional<Dataset> heldOut;
  TrainerOptions options;
  uint64_t steps = 0;  // in all, those of a resumed checkpoint included
};

/// Reads the archives. Errors of files and names are those that a user can fix: Io, BindingMissing, BindingMismatch,
/// Usage.
llvm::Expected<TrainSetup> setUpTraining(Tool &tool, const Graph &graph);

}  // namespace gradc
