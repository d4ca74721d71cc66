// Tested by tests/passes/gradient/loop_gradient_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// Gradient rule of branches and calls: emits one more branch or call.
void branchGradient(GradRule &g);

}  // namespace gradc
