// What the kernels of the runtime and other operators read of ops/loss/regression_output.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"
#include "ir/tensor/tensor.h"

namespace gradc {

/// Of regression outputs and their gradients: the factor of residuals.
double regressionWeight(const NodeKind &kind, const TensorRef &label);

}  // namespace gradc
