// Stacks of loops of which the rows of steps that are not run have no values. Tested by tests/loop_run_test.cc
#pragma once

#include "ir/body_flow.h"

namespace gradc {

/// Whether a loop that may end early leaves the rows of steps that it does not run, of a stacked output, as they are: those of what
/// was added for a gradient, and of the outputs in attribute `short_out_data`. Others are zeros there.
bool isShortOutput(const NodeKind &kind, uint32_t output);

}  // namespace gradc
