// Reference values for steps of optimizers: rows that tests/oracles/optimizer_values.py prints from MXNet 1.9.1, in
// float64.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <utility>
#include <vector>

namespace gradc::testing {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

struct OptimizerStep {
  std::string op;
  TextPairs attrs;
  int steps;                                // one, or several with the gradient halved and negated from step to step
  std::vector<double> numbers;              // inputs of one element
  std::vector<double> weight;               // the new one
  std::vector<std::vector<double>> before;  // states
  std::vector<std::vector<double>> states;  // after the steps
};

/// Steps from the weight (0.5, -1.25, 2, 0.03125) with the gradient (0.75, -3, 0.125, 10).
llvm::ArrayRef<OptimizerStep> optimizerSteps();

}  // namespace gradc::testing
