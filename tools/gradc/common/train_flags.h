// The settings of `gradc train`, and the rows of the flags that only it has. Tested by tests/tools/train_cli_test.cc
#pragma once

#include "passes/optimizer/append_optimizer.h"
#include "runtime/training/rate_schedule.h"

#include <optional>
#include <string>
#include <vector>

namespace gradc {

struct Flag;
struct KeyValue;

struct TrainFlags {
  std::string data, evalData;              // NPZ files; evalData empty: the same
  std::vector<KeyValue> feeds, evalFeeds;  // variable, array
  uint64_t batch = 64;
  std::optional<uint64_t> epochs, steps;  // one of them at most; neither: one epoch
  OptimizerOptions optimizer;
  std::vector<KeyValue> optimizerAttrs;  // become optimizer.attrs
  bool hasOwnRescale = false;
  RateSchedule schedule;
  std::optional<double> rate;       // default by optimizer
  std::optional<uint64_t> shuffle;  // default: the seed of --init
  bool isInOrder = false;
  std::vector<std::string> frozen;  // comma-separated lists
  std::string checkpoint, resume, log, graph;
  uint64_t checkpointEvery = 0;  // steps; 0: every epoch
};

/// Rows in addition to those of options.cc.
llvm::ArrayRef<Flag> trainFlags();

}  // namespace gradc
