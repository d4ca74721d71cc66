// Tested by tests/passes/gradient/loop_gradient_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// Gradient rule of loops: emits one more loop, in the opposite direction.
void loopGradient(GradRule &g);

}  // namespace gradc
