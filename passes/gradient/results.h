// The end of the gradient pass: requested gradients, and the side table of an emitted graph, which says of each head
// what it is the gradient of. Tested by tests/passes/gradient/gradient_test.cc and gradient_table_test.cc
#pragma once

#include "passes/gradient/state.h"

namespace gradc {

/// Makes the gradient of every requested entry and freezes the graph; consumes the builder of `state`. E-01, E-05 and
/// errors of freezing.
llvm::Expected<GradientResult> finishGradient(GradientState &state);

/// The table of the emitted graph; if the base is an emitted graph itself, its rows come first.
GradientTable gradientTableOf(const GradientState &state, const GradientResult &result,
                              const std::vector<NodeId> &newId);

}  // namespace gradc
