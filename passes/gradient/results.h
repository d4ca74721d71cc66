// The end of the gradient pass. Tested by tests/passes/gradient/gradient_test.cc
#pragma once

#include "passes/gradient/state.h"

namespace gradc {

/// Makes the gradient of every requested entry and freezes the graph; consumes the builder of `state`. E-01, E-05 and
/// errors of freezing.
llvm::Expected<GradientResult> finishGradient(GradientState &state);

}  // namespace gradc
