// What must hold of a gradient request before any node is made (§4, §7, §8, §23).
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// The request with defaults filled in: every head of the graph when no y is named, targets asked `null` left out.
llvm::Expected<GradientRequest> checkRequest(const Graph &graph, const GradientRequest &request,
                                             const GradientOptions &options);

/// H-10, E-05: some y depends on a variable. Linear; for the case that an x is not reached.
llvm::Error checkNotConstant(const Graph &graph, llvm::ArrayRef<GradientHead> heads);

}  // namespace gradc
