// The picture of a training run: loss over steps, and the metric below, as one SVG file.
//
// The steps are a faint line, their running mean a strong one, evaluations are dots on a line. The loss has a
// logarithmic axis when it spans more than a factor of 20. Tested by tests/tools/train_cli_test.cc
#pragma once

#include "runtime/training/objective.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

struct TrainCurves {
  struct Point {
    uint64_t step;
    double loss, metric;
  };
  Metric metric = Metric::None;
  std::vector<Point> steps, evaluations;  // by step
};

void writeLossChart(llvm::raw_ostream &os, const TrainCurves &curves, llvm::StringRef title);

}  // namespace gradc
