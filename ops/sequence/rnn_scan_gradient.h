// Tested by tests/ops/rnn_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// The gradient of RNN as loops over the steps, first those of RNN again, then others in reverse. `hasLengths`: whether
/// the last input is the lengths of the sequences.
void decomposeRnnGradient(DecomposeRule &d, bool hasLengths);

}  // namespace gradc
