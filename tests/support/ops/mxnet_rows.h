// Operators compared with MXNet 1.9.1: outputs, gradients of every input and aux states, and refused attributes.
#pragma once

#include "tests/support/ops/op_harness.h"
#include "tests/support/ops/op_table.h"

namespace gradc::testing {

/// One call. Head gradients are −1.5, −0.5, 0.5, 1.5, 2.5, −1.5, … over output 0.
struct MxnetRow {
  std::string name, op;
  std::vector<std::pair<std::string, std::string>> attrs;
  double tolerance;
  std::vector<OpTensor> inputs;
  std::vector<std::vector<double>> outputs;    // those that are checked, from the first on
  std::vector<std::vector<double>> gradients;  // of the inputs, from the first on; empty: no gradient
  std::vector<std::vector<double>> aux = {};   // the last inputs after one run
  bool isTraining = true;
};

/// Compares to `tolerance`, relative to the largest element; the decomposition of a fused gradient, to ten times that.
void checkMxnetRow(const MxnetRow &row);

/// The error with which attributes are refused; empty if they are accepted.
std::string refusalOf(llvm::StringRef op, std::initializer_list<AttrText> attrs);

}  // namespace gradc::testing
