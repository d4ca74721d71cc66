// Tested by tests/ops/ctc_loss_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// CTCLoss and, as output 0 of a separate operator, its gradient as loops over the steps.
void decomposeCtcLoss(DecomposeRule &d);
void decomposeCtcLossGrad(DecomposeRule &d);

}  // namespace gradc
