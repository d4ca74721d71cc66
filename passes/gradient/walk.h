// The walk over the graph, from the last y backwards. Tested by tests/passes/gradient/gradient_test.cc
#pragma once

#include "passes/gradient/state.h"

namespace gradc {

/// Turns the contributions of every entry into contributions of what its node reads, from the last y to the first node.
/// E-02, and errors of the operators' rules.
llvm::Error walkBackwards(GradientState &state);

}  // namespace gradc
