// The operators of optimizers, for the pass that appends steps. Tested by tests/passes/append_optimizer_test.cc
#pragma once

#include "ir/op/optimizer_ops.h"

namespace gradc {

/// `registry` has the built-in operators.
OptimizerOps builtinOptimizerOps(const OpRegistry &registry);

}  // namespace gradc
